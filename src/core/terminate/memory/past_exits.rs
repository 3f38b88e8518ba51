//! The exit codes with which sidecars ended before, in any pod: a container reacts to SIGTERM the
//! same way each time.
//!
//! They are kept by namespace, name and image, so that the second pod of a Job, and the next Job of
//! a CronJob, profit from the first. If nothing is known, one pod at a time finds out: ten at once
//! would fail ten times.

use std::collections::{BTreeMap, VecDeque};

use crate::cluster::exit_images::ExitImages;
use crate::objects::moment::Moment;
use crate::objects::pod::roles::{self, Mains};
use crate::objects::pod::{Container, Pod};
use crate::objects::recreate_request::RecreateRequest;

/// The number of exit codes kept: more kinds of sidecars than a cluster has. Beyond it the oldest
/// of the namespace that has most is forgotten, so that no tenant pushes out what others need.
const KEPT: usize = 4096;

type Key = (Box<str>, Box<str>, Box<str>);

/// The last exit code of each kind of sidecar.
#[derive(Clone, Debug, Default)]
pub struct PastExits {
    codes: BTreeMap<Key, i64>,
    order: VecDeque<Key>,
    tries: BTreeMap<Key, Try>,
}

/// A pod that finds out how a kind of sidecar ends.
#[derive(Clone, Debug)]
struct Try {
    pod: Box<str>,
    until: Moment,
}

impl PastExits {
    /// Returns an empty record.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            codes: BTreeMap::new(),
            order: VecDeque::new(),
            tries: BTreeMap::new(),
        }
    }

    /// Records the sidecars of a pod that ended when their main containers were done: somebody
    /// stopped them. Returns true if pods may wait for that: a pod that was to find out has found
    /// out, or nothing was known of the kind. A changed code is no such news, because sidecars that
    /// end with two codes in turn would wake every pod each time.
    pub fn learn(
        &mut self,
        pod: &Pod,
        request: Option<&RecreateRequest>,
        exit_images: &ExitImages,
    ) -> bool {
        if roles::mains_state(pod) != Mains::Done {
            return false;
        }
        let mut news = false;
        for sidecar in roles::sidecars(pod).filter(|sidecar| !exit_images.contains(&sidecar.image))
        {
            if let Some(code) = stopped_with(sidecar, request) {
                news |= self.remember(key(pod, sidecar), code);
            }
        }
        news
    }

    fn remember(&mut self, key: Key, code: i64) -> bool {
        let tried = self.tries.remove(&key).is_some();
        let before = self.codes.insert(key.clone(), code);
        if before.is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.first_to_go().and_then(|at| self.order.remove(at))
        {
            self.codes.remove(&oldest);
        }
        tried || before.is_none()
    }

    /// Returns the place of the oldest kind of the namespace that has most.
    fn first_to_go(&self) -> Option<usize> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for (namespace, ..) in &self.order {
            *counts.entry(&**namespace).or_default() += 1;
        }
        let most = counts.values().max().copied();
        let has_most = |(namespace, ..): &Key| counts.get(&**namespace).copied() == most;
        self.order.iter().position(has_most)
    }

    /// Returns the exit code of the last sidecar like this one.
    #[must_use]
    pub fn of(&self, pod: &Pod, sidecar: &Container) -> Option<i64> {
        self.codes.get(&key(pod, sidecar)).copied()
    }

    /// Records that this pod finds out how these of its containers end, if that is unknown; other
    /// pods wait no longer than `until`.
    pub fn try_starts(&mut self, pod: &Pod, containers: &[Box<str>], until: Moment) {
        for sidecar in pod
            .containers
            .iter()
            .filter(|container| containers.contains(&container.name))
        {
            let key = key(pod, sidecar);
            if !self.codes.contains_key(&key) {
                self.tries.insert(
                    key,
                    Try {
                        pod: pod.uid.clone(),
                        until,
                    },
                );
            }
        }
    }

    /// Records that the pod finds out nothing: it is gone, or its request was not created.
    pub fn try_ends(&mut self, uid: &str) {
        self.tries.retain(|_, try_| *try_.pod != *uid);
    }

    /// Returns until when another pod finds out how a sidecar like this one ends.
    #[must_use]
    pub fn tried_until(&self, pod: &Pod, sidecar: &Container, now: Moment) -> Option<Moment> {
        let try_ = self
            .tries
            .get(&key(pod, sidecar))
            .filter(|try_| try_.pod != pod.uid)?;
        Some(try_.until).filter(|until| *until > now)
    }
}

/// Returns the exit code of a container that was stopped, even if the node has started it again.
fn stopped_with(sidecar: &Container, request: Option<&RecreateRequest>) -> Option<i64> {
    let back = || {
        request?
            .container(&sidecar.name)
            .filter(|recreated| recreated.is_back(sidecar))
    };
    let end = sidecar
        .end()
        .or_else(|| back().and_then(|_| sidecar.status.as_ref()?.last_end.as_deref()));
    end?.exit_code
}

fn key(pod: &Pod, sidecar: &Container) -> Key {
    (
        pod.namespace.clone(),
        sidecar.name.clone(),
        sidecar.image.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod that waits for another one's try is woken by its end, whatever the code.
    #[test]
    fn bug10_only_what_somebody_may_wait_for_is_news() {
        let mut exits = PastExits::new();
        let key = || -> Key { ("ns".into(), "log".into(), "log:1".into()) };
        assert!(exits.remember(key(), 0));
        assert!(
            [143, 0, 143]
                .iter()
                .all(|code| !exits.remember(key(), *code))
        );
        exits.tries.insert(
            key(),
            Try {
                pod: "p".into(),
                until: Moment::NEVER,
            },
        );
        assert!(exits.remember(key(), 143));
        assert!(!exits.remember(key(), 143));
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let mut exits = PastExits::new();
        let key = |number: usize| -> Key { ("ns".into(), "log".into(), number.to_string().into()) };
        for number in 0..=KEPT {
            assert!(exits.remember(key(number), 143));
            assert!(!exits.remember(key(number), 0));
        }
        assert_eq!((exits.codes.len(), exits.order.len()), (KEPT, KEPT));
        assert_eq!(
            (exits.codes.get(&key(0)), exits.codes.get(&key(KEPT))),
            (None, Some(&0))
        );
    }

    #[test]
    fn a_namespace_with_ever_new_kinds_pushes_out_its_own() {
        let mut exits = PastExits::new();
        let key = |namespace: &str, number: usize| -> Key {
            (namespace.into(), "log".into(), number.to_string().into())
        };
        exits.remember(key("quiet", 0), 143);
        for number in 0..KEPT + 9 {
            exits.remember(key("loud", number), 0);
        }
        assert_eq!((exits.codes.len(), exits.order.len()), (KEPT, KEPT));
        assert_eq!(exits.codes.get(&key("quiet", 0)), Some(&143));
    }
}
