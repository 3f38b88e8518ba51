//! Exit images that cannot be used, as pods have shown: images that a node could not pull, images
//! by which pods of a namespace have failed, and images that they may not be given.
//!
//! Under `Never` a sidecar that is stopped for an exit image which cannot be pulled fails its pod,
//! and its Job runs finished work again: one lost tag would do that to every pod of the cluster. So
//! once it is known, such swaps are held back. Pods under `OnFailure` are still swapped, lose
//! nothing by it, and show when the image is there again. If there are none, one pod at a time
//! tries, ever more rarely.
//!
//! Of a pod under `Never` a kubelet shows no pull: the sidecar stays as it has ended, and the pod is
//! Failed (`docs/measured.md`, rows 7 and 12). So a failure counts, whatever its cause, for the pods
//! of the namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Memory, SwapRecord};
use crate::objects::pod::evidence::{Footprint, Progress, exit_image_shown, progress};
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy};
use crate::objects::values::backoff::Backoff;

/// The number of troubles kept; beyond, the one observed longest ago is forgotten.
const KEPT: usize = 1024;
/// How long an image is not tried under `Never` after a node was last observed to fail with it;
/// doubled with each try that fails.
const NOT_TRIED: Backoff = Backoff {
    first: Duration::from_secs(30 * 60),
    longest: Duration::from_secs(12 * 3600),
};
/// How long other pods wait for one that tries.
const TRIAL: Duration = Duration::from_secs(120);
/// How long a trouble is kept that is not observed again.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// With a trouble on this many nodes an image counts as unavailable everywhere: the registry does
/// not have it, or is away.
const ANYWHERE: usize = 2;
/// The number of pods of a namespace that are forbidden an image, one after another, until the
/// others do not request it.
const FORBIDDEN: u32 = 2;
/// How long they do not request it.
const NOT_ASKED: Duration = Duration::from_secs(10 * 60);

/// A place where an image cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    /// A node that could not pull it.
    Node(Box<str>),
    /// A namespace whose pods have failed by it.
    Pods(Box<str>),
    /// A namespace whose pods must not be given it.
    Namespace(Box<str>),
}

/// The trouble with one image in one place.
#[derive(Clone, Debug)]
struct Trouble {
    seen: Duration,
    until: Duration,
    /// The number of tries that failed, or of pods that were forbidden it.
    times: u32,
    /// The pod that showed it last.
    by: Box<str>,
    /// The pod that tries, and until when the others wait for it.
    trial: Option<(Box<str>, Duration)>,
    /// True once another node could pull the image: this one has a trouble of its own.
    is_alone: bool,
}

/// All known troubles, by place and image.
#[derive(Clone, Debug, Default)]
pub struct ImageTroubles(BTreeMap<(Place, Box<str>), Trouble>);

impl ImageTroubles {
    /// Records what a pod shows about the exit images in it. The memory must have observed this
    /// state.
    pub fn observe(&mut self, pod: &Pod, memory: &Memory, now: Duration) {
        for record in &memory.swaps {
            let container = pod.containers.iter().find(|container| {
                container.name == record.container
                    && container.image == record.to
                    && record.is_of_a_swap(container)
            });
            match container.map(|container| shown(container, record)) {
                Some(Some(true)) => {
                    self.pulled(&pod.node, &record.to);
                    if container.is_some_and(|container| !has_failed(container)) {
                        self.0
                            .remove(&(Place::Pods(pod.namespace.clone()), record.to.clone()));
                    }
                }
                Some(Some(false)) => {
                    self.fails(Place::Node(pod.node.clone()), pod, &record.to, now)
                }
                Some(None) | None => {}
            }
        }
    }

    /// Records that a pod under `Never` has failed by its swaps, although its main containers had
    /// succeeded, on a node that is known to replace containers.
    pub fn failed(&mut self, pod: &Pod, memory: &Memory, now: Duration) {
        for record in &memory.swaps {
            let is_cause = |container: &Container| {
                container.name == record.container
                    && container.image == record.to
                    && has_failed(container)
            };
            if record.before.is_some() && pod.containers.iter().any(is_cause) {
                self.fails(Place::Pods(pod.namespace.clone()), pod, &record.to, now);
            }
        }
    }

    /// Returns until when a pod under `Never` is not to try this image, because a pod of its
    /// namespace has failed by it.
    #[must_use]
    pub fn failed_until(&self, pod: &Pod, image: &str, now: Duration) -> Option<Duration> {
        let own = self.0.iter().filter(|((place, other), trouble)| {
            matches!(place, Place::Pods(namespace) if *namespace == pod.namespace)
                && is_same(other, image)
                && now < trouble.seen.saturating_add(FORGOTTEN)
        });
        own.filter_map(|(_, trouble)| trouble.holds(&pod.uid, now))
            .max()
    }

    /// Returns until when a pod under `Never` is not to try this image on its node.
    #[must_use]
    pub fn not_pulled_until(&self, pod: &Pod, image: &str, now: Duration) -> Option<Duration> {
        if self.0.is_empty() {
            return None;
        }
        let shared: Vec<_> = self
            .nodes(image, now)
            .filter(|(_, trouble)| !trouble.is_alone)
            .collect();
        if shared.len() >= ANYWHERE {
            return shared
                .iter()
                .filter_map(|(_, trouble)| trouble.holds(&pod.uid, now))
                .max();
        }
        let own = self.nodes(image, now).find(|(node, _)| **node == *pod.node);
        own.and_then(|(_, trouble)| trouble.holds(&pod.uid, now))
    }

    /// Records that a pod is given this image: if it is in trouble, the others wait for the result.
    /// A pod under `OnFailure` risks nothing, so nobody has to wait for it.
    pub fn tried(&mut self, pod: &Pod, image: &str, now: Duration) {
        if pod.restart_policy == RestartPolicy::OnFailure {
            return;
        }
        for ((place, _), trouble) in self
            .0
            .iter_mut()
            .filter(|((_, other), _)| is_same(other, image))
        {
            let concerned = match place {
                Place::Node(node) => *node == pod.node || !trouble.is_alone,
                Place::Pods(namespace) => *namespace == pod.namespace,
                Place::Namespace(_) => false,
            };
            if concerned
                && trouble
                    .trial
                    .as_ref()
                    .is_none_or(|(_, until)| *until <= now)
            {
                trouble.trial = Some((pod.uid.clone(), now.saturating_add(TRIAL)));
            }
        }
    }

    /// Records that the API server has forbidden, more than once, to give this pod the image.
    pub fn denied(&mut self, pod: &Pod, image: &str, now: Duration) {
        let key = (Place::Namespace(pod.namespace.clone()), image.into());
        let before = self
            .0
            .get(&key)
            .filter(|before| now < before.seen.saturating_add(FORGOTTEN));
        let times = before.map_or(1, |before| {
            before.times.saturating_add(u32::from(before.by != pod.uid))
        });
        let trouble = Trouble {
            until: now.saturating_add(NOT_ASKED),
            times,
            ..Trouble::new(pod, now)
        };
        self.keep(key, trouble);
    }

    /// Records that a pod of this namespace was given the image.
    pub fn allowed(&mut self, pod: &Pod, image: &str) {
        self.0
            .remove(&(Place::Namespace(pod.namespace.clone()), image.into()));
    }

    /// Returns until when no other pod of this namespace requests the image, because it would be
    /// denied.
    #[must_use]
    pub fn denied_until(&self, pod: &Pod, image: &str, now: Duration) -> Option<Duration> {
        if self.0.is_empty() {
            return None;
        }
        let trouble = self
            .0
            .get(&(Place::Namespace(pod.namespace.clone()), image.into()))?;
        Some(trouble.until)
            .filter(|until| trouble.times >= FORBIDDEN && trouble.by != pod.uid && now < *until)
    }

    /// Records a failure, and with it when the image is tried there again.
    fn fails(&mut self, place: Place, pod: &Pod, image: &str, now: Duration) {
        let key = (place, image.into());
        let before = self.0.get(&key);
        // One failed try counts once, however long its pod shows it.
        let failed = before
            .is_some_and(|before| before.trial.as_ref().is_some_and(|(by, _)| *by == pod.uid));
        let times = before.map_or(0, |before| before.times.saturating_add(u32::from(failed)));
        let wait = NOT_TRIED.after(times);
        let trial = before
            .and_then(|before| before.trial.clone())
            .filter(|_| !failed);
        let is_alone = before.is_some_and(|before| before.is_alone);
        let trouble = Trouble {
            until: now.saturating_add(wait),
            times,
            trial,
            is_alone,
            ..Trouble::new(pod, now)
        };
        self.keep(key, trouble);
    }

    /// Records that the node has the image: others that do not have it have a trouble of their own.
    fn pulled(&mut self, node: &str, image: &str) {
        self.0.retain(|(place, other), _| {
            !(is_same(other, image) && matches!(place, Place::Node(name) if **name == *node))
        });
        let others = self
            .0
            .iter_mut()
            .filter(|((place, other), _)| matches!(place, Place::Node(_)) && is_same(other, image));
        others.for_each(|(_, trouble)| trouble.is_alone = true);
    }

    fn keep(&mut self, key: (Place, Box<str>), trouble: Trouble) {
        if self.0.insert(key, trouble).is_none() && self.0.len() > KEPT {
            let oldest = self
                .0
                .iter()
                .min_by_key(|(_, trouble)| trouble.seen)
                .map(|(key, _)| key.clone());
            oldest.iter().for_each(|key| drop(self.0.remove(key)));
        }
    }

    fn nodes<'a>(
        &'a self,
        image: &'a str,
        now: Duration,
    ) -> impl Iterator<Item = (&'a str, &'a Trouble)> {
        self.0
            .iter()
            .filter_map(move |((place, other), trouble)| match place {
                Place::Node(node)
                    if is_same(other, image) && now < trouble.seen.saturating_add(FORGOTTEN) =>
                {
                    Some((&**node, trouble))
                }
                Place::Node(_) | Place::Pods(_) | Place::Namespace(_) => None,
            })
    }
}

impl Trouble {
    fn new(pod: &Pod, now: Duration) -> Self {
        Self {
            seen: now,
            until: now,
            times: 0,
            by: pod.uid.clone(),
            trial: None,
            is_alone: false,
        }
    }

    /// Returns until when a pod waits: for the next try, or for the present one by another pod.
    fn holds(&self, uid: &str, now: Duration) -> Option<Duration> {
        match &self.trial {
            Some((by, _)) if **by == *uid => None,
            Some((_, until)) if now < *until => Some(*until),
            _ => Some(self.until).filter(|until| now < *until),
        }
    }
}

/// Returns whether the node could pull the exit image of the container; `None` if its status does
/// not show it. Another container proves it; an image in the status does not, because some
/// providers copy it from the spec.
fn shown(container: &Container, record: &SwapRecord) -> Option<bool> {
    if matches!(
        progress(container, record.before.as_ref()),
        Progress::NotPulled(..)
    ) {
        return Some(false);
    }
    let status = container.status.as_ref()?;
    let is_new = record
        .before
        .as_ref()
        .is_some_and(|before| before.shows_new_container(&Footprint::of(container)));
    let has_run = matches!(
        status.state,
        ContainerState::Running { .. } | ContainerState::Terminated(_)
    );
    (is_new && has_run && exit_image_shown(&status.image, &record.to) != Some(false))
        .then_some(true)
}

/// Returns true if the container has ended with another code than that of an exit image.
fn has_failed(container: &Container) -> bool {
    let code = container.end().and_then(|end| end.exit_code);
    code.is_some_and(|code| code != 0)
}

/// Compares images; a webhook may have added a digest to one of them.
fn is_same(known: &str, image: &str) -> bool {
    known == image || exit_image_shown(known, image) == Some(true)
}
