//! Exit images that cannot be had, as pods have shown it: what a node could not pull, and what pods
//! of a namespace may not be given.
//!
//! Under `Never` a sidecar that is stopped for an exit image which cannot be pulled fails its pod,
//! and its Job runs finished work again: one lost tag would do that to every pod of the cluster. So
//! once it is known, such swaps are held back. Pods under `OnFailure` go on, lose nothing by it,
//! and show when the image is there again; where there are none, one pod at a time tries, ever more
//! rarely.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Memory, SwapRecord};
use crate::objects::pod::evidence::{Footprint, Progress, exit_image_shown, progress};
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy};
use crate::objects::values::backoff::Backoff;

/// How many troubles are kept; beyond, the one that was seen longest ago is forgotten.
const KEPT: usize = 1024;
/// How long an image is not tried under `Never` after a node was last seen to fail with it; doubled
/// with each try that fails.
const NOT_TRIED: Backoff = Backoff {
    first: Duration::from_secs(30 * 60),
    longest: Duration::from_secs(12 * 3600),
};
/// How long a pod that tries keeps the others waiting.
const TRIAL: Duration = Duration::from_secs(120);
/// When a trouble that nobody has seen again is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// On so many nodes an image cannot be had anywhere: the registry does not have it, or is away.
const ANYWHERE: usize = 2;
/// How many pods of a namespace, one after another, are forbidden an image until the others do not
/// ask.
const FORBIDDEN: u32 = 2;
/// How long they do not ask.
const NOT_ASKED: Duration = Duration::from_secs(10 * 60);

/// Where an image cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Node(Box<str>),
    Namespace(Box<str>),
}

/// What is known of one image in one place.
#[derive(Clone, Debug)]
struct Trouble {
    seen: Duration,
    until: Duration,
    /// The tries that have failed, or the pods that were forbidden it.
    times: u32,
    /// The pod that has shown it last.
    by: Box<str>,
    /// The pod that tries, and until when the others wait for it.
    trial: Option<(Box<str>, Duration)>,
    /// Another node could pull the image since: this one has a trouble of its own.
    is_alone: bool,
}

/// All that is known.
#[derive(Clone, Debug, Default)]
pub struct ImageTroubles(BTreeMap<(Place, Box<str>), Trouble>);

impl ImageTroubles {
    /// Takes notice of what a pod shows of the exit images in it. The memory must have observed
    /// this state.
    pub fn observe(&mut self, pod: &Pod, memory: &Memory, now: Duration) {
        for record in &memory.swaps {
            let container = pod.containers.iter().find(|container| {
                container.name == record.container && container.image == record.to
            });
            match container.map(|container| shown(container, record)) {
                Some(Some(true)) => self.pulled(&pod.node, &record.to),
                Some(Some(false)) => self.not_pulled(pod, &record.to, now),
                Some(None) | None => {}
            }
        }
    }

    /// Until when a pod under `Never` is not to try this image on its node.
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

    /// A pod is given this image: where it is in trouble, the others wait for what comes of it. One
    /// under `OnFailure` risks nothing, so nobody has to wait for it.
    pub fn tried(&mut self, pod: &Pod, image: &str, now: Duration) {
        if pod.restart_policy == RestartPolicy::OnFailure {
            return;
        }
        for ((place, _), trouble) in self
            .0
            .iter_mut()
            .filter(|((_, other), _)| is_same(other, image))
        {
            let concerned =
                matches!(place, Place::Node(node) if *node == pod.node || !trouble.is_alone);
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

    /// The API server has forbidden, more than once, that this pod is given the image.
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

    /// A pod of this namespace was given the image.
    pub fn allowed(&mut self, pod: &Pod, image: &str) {
        self.0
            .remove(&(Place::Namespace(pod.namespace.clone()), image.into()));
    }

    /// Until when no other pod of this namespace asks for the image, because it would be forbidden.
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

    fn not_pulled(&mut self, pod: &Pod, image: &str, now: Duration) {
        let key = (Place::Node(pod.node.clone()), image.into());
        let before = self.0.get(&key);
        // A try has failed once, however long its pod shows it.
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

    /// The image is there: this node has it, and others that do not have it lack something of their
    /// own.
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
                Place::Node(_) | Place::Namespace(_) => None,
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

    /// Until when a pod waits: for the next try, or for the one that is being made by another pod.
    fn holds(&self, uid: &str, now: Duration) -> Option<Duration> {
        match &self.trial {
            Some((by, _)) if **by == *uid => None,
            Some((_, until)) if now < *until => Some(*until),
            _ => Some(self.until).filter(|until| now < *until),
        }
    }
}

/// Whether the node could pull the exit image that the container has; `None` where it does not
/// tell. Another container proves it, an image in the status does not: some providers copy it from
/// the spec.
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

/// A webhook may have put a digest to one of them.
fn is_same(known: &str, image: &str) -> bool {
    known == image || exit_image_shown(known, image) == Some(true)
}
