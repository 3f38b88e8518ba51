//! Exit images that cannot be used, as pods have shown: images that a node could not pull, images
//! by which pods of a namespace have failed, and images that they may not be given.
//!
//! Under `Never` a sidecar that is stopped for an exit image which cannot be pulled fails its pod,
//! and its Job runs finished work again: one lost tag would do that to every pod of the cluster. So
//! once it is known, such swaps are held back. Pods under `OnFailure` are still swapped, lose
//! nothing by it, and show when the image is there again. If there are none, one pod at a time
//! tries, ever more rarely.
//!
//! A namespace may lack a pull secret, or have nodes of its own. So what its pods show counts for
//! its pods. It counts for others only beside the same trouble of another namespace, only if swaps
//! of this process showed it (anyone who may change a pod can give it the exit image), and only
//! until a pod of any namespace has pulled the image.
//!
//! Of a pod under `Never` a kubelet shows no pull: the sidecar stays as it has ended, and the pod is
//! Failed (`docs/measured.md`, rows 7 and 12). So a failure counts, whatever its cause, for the pods
//! of the namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Memory, SwapRecord};
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::{Footprint, Progress, exit_image_shown, progress};
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy};
use crate::objects::values::backoff::Backoff;

/// The number of troubles kept; beyond, one of the namespace with the most is forgotten.
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
/// The number of pods of a namespace that are forbidden an image, one after another, until the
/// others do not request it.
const FORBIDDEN: u32 = 2;
/// How long they do not request it.
const NOT_ASKED: Duration = Duration::from_secs(10 * 60);

/// Where pods of a namespace cannot use an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// On this node, which could not pull it.
    Node(Box<str>),
    /// Anywhere: pods have failed by it.
    Pods,
    /// Anywhere: they must not be given it.
    Denied,
}

/// What a trouble is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    namespace: Box<str>,
    place: Place,
    image: Box<str>,
}

/// The pods that have pulled the image since, on another node or in another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PulledBy {
    Nobody,
    /// Pods of other namespaces: this one has a trouble of its own.
    Others,
    /// Pods of the same namespace: the node has a trouble of its own.
    Namespace,
}

/// The trouble with one image in one place.
#[derive(Clone, Debug)]
struct Trouble {
    seen: Moment,
    until: Moment,
    /// The number of tries that failed, or of pods that were forbidden it.
    times: u32,
    /// The pod that showed it last.
    by: Box<str>,
    /// The pod that tries, and until when the others wait for it.
    trial: Option<(Box<str>, Moment)>,
    /// True if a swap of this process has shown it.
    is_ours: bool,
    pulled_by: PulledBy,
}

/// All known troubles, by namespace, place and image.
#[derive(Clone, Debug, Default)]
pub struct ImageTroubles(BTreeMap<Key, Trouble>);

impl ImageTroubles {
    /// Records what a pod shows about the exit images in it. The memory must have observed this
    /// state.
    pub fn observe(&mut self, pod: &Pod, memory: &Memory, now: Moment) {
        for record in &memory.swaps {
            let container = pod.containers.iter().find(|container| {
                container.name == record.container
                    && container.image == record.to
                    && record.is_of_a_swap(container)
            });
            match container.map(|container| shown(container, record)) {
                Some(Some(true)) => {
                    self.pulled(pod, &record.to);
                    if container.is_some_and(|container| !has_failed(container)) {
                        self.0.remove(&Key::new(pod, Place::Pods, &record.to));
                    }
                }
                Some(Some(false)) => {
                    let (place, is_ours) = (Place::Node(pod.node.clone()), record.before.is_some());
                    self.fails(place, pod, &record.to, is_ours, now);
                }
                Some(None) | None => {}
            }
        }
    }

    /// Records that a pod under `Never` has failed by its swaps, although its main containers had
    /// succeeded: on a node that is known to replace containers, or by the exit image itself.
    pub fn failed(&mut self, pod: &Pod, memory: &Memory, now: Moment) {
        for record in &memory.swaps {
            let is_cause = |container: &Container| {
                container.name == record.container
                    && container.image == record.to
                    && has_failed(container)
            };
            if record.before.is_some() && pod.containers.iter().any(is_cause) {
                self.fails(Place::Pods, pod, &record.to, true, now);
            }
        }
    }

    /// Returns until when a pod under `Never` is not to try this image, because a pod of its
    /// namespace has failed by it.
    #[must_use]
    pub fn failed_until(&self, pod: &Pod, image: &str, now: Moment) -> Option<Moment> {
        self.failures(pod, image, now)
            .filter_map(|(_, trouble)| trouble.holds(&pod.uid, now))
            .max()
    }

    /// Returns until when a pod under `Never` is not to try this image on its node, because it
    /// could not be pulled.
    #[must_use]
    pub fn not_pulled_until(&self, pod: &Pod, image: &str, now: Moment) -> Option<Moment> {
        self.not_pulled(pod, image, now)
            .into_iter()
            .filter_map(|(_, trouble)| trouble.holds(&pod.uid, now))
            .max()
    }

    /// Records that a pod is given this image: if it is in trouble, the others wait for the result.
    /// A pod under `OnFailure` risks nothing, so nobody has to wait for it.
    pub fn tried(&mut self, pod: &Pod, image: &str, now: Moment) {
        if pod.restart_policy == RestartPolicy::OnFailure {
            return;
        }
        let not_pulled = self.not_pulled(pod, image, now).into_iter();
        let all = not_pulled.chain(self.failures(pod, image, now));
        let keys: Vec<Key> = all.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            if let Some(trouble) = self.0.get_mut(key)
                && trouble
                    .trial
                    .as_ref()
                    .is_none_or(|(_, until)| *until <= now)
            {
                trouble.trial = Some((pod.uid.clone(), now + TRIAL));
            }
        }
    }

    /// Records that the API server has forbidden, more than once, to give this pod the image.
    pub fn denied(&mut self, pod: &Pod, image: &str, now: Moment) {
        let key = Key::new(pod, Place::Denied, image);
        let before = self.0.get(&key).filter(|before| before.is_remembered(now));
        let times = before.map_or(1, |before| {
            before.times.saturating_add(u32::from(before.by != pod.uid))
        });
        let trouble = Trouble {
            until: now + NOT_ASKED,
            times,
            ..Trouble::new(pod, now)
        };
        self.keep(key, trouble);
    }

    /// Records that a pod of this namespace was given the image.
    pub fn allowed(&mut self, pod: &Pod, image: &str) {
        self.0.remove(&Key::new(pod, Place::Denied, image));
    }

    /// Returns until when no other pod of this namespace requests the image, because it would be
    /// denied.
    #[must_use]
    pub fn denied_until(&self, pod: &Pod, image: &str, now: Moment) -> Option<Moment> {
        if self.0.is_empty() {
            return None;
        }
        let trouble = self.0.get(&Key::new(pod, Place::Denied, image))?;
        Some(trouble.until)
            .filter(|until| trouble.times >= FORBIDDEN && trouble.by != pod.uid && now < *until)
    }

    /// Returns the failures by this image in the namespace of the pod.
    fn failures(
        &self,
        pod: &Pod,
        image: &str,
        now: Moment,
    ) -> impl Iterator<Item = (&Key, &Trouble)> {
        self.0.iter().filter(move |(key, trouble)| {
            key.place == Place::Pods
                && key.namespace == pod.namespace
                && is_same(&key.image, image)
                && trouble.is_remembered(now)
        })
    }

    /// Returns the troubles of nodes with this image that count for a pod: those of its namespace
    /// on its node, and on all nodes if there are several; and those that several namespaces have
    /// had, likewise.
    fn not_pulled(&self, pod: &Pod, image: &str, now: Moment) -> Vec<(&Key, &Trouble)> {
        let is_own = |key: &Key| key.namespace == pod.namespace;
        let is_here = |key: &Key| matches!(&key.place, Place::Node(node) if *node == pod.node);
        let is_common = |trouble: &Trouble| trouble.pulled_by == PulledBy::Nobody;
        let is_shared = |trouble: &Trouble| trouble.pulled_by != PulledBy::Namespace;
        let counts = self.0.iter().filter(|(key, trouble)| {
            matches!(key.place, Place::Node(_))
                && (is_own(key) || (trouble.is_ours && is_common(trouble)))
                && is_same(&key.image, image)
                && trouble.is_remembered(now)
        });
        let mut known: Vec<(&Key, &Trouble)> = counts.collect();

        let own = known
            .iter()
            .filter(|(key, trouble)| is_own(key) && is_shared(trouble));
        let is_on_all_for_own = are_several(own.map(|(key, _)| &key.place));
        let common = known.iter().filter(|(_, trouble)| is_common(trouble));
        let is_on_several = are_several(common.clone().map(|(key, _)| &key.place));
        let is_of_several = are_several(common.clone().map(|(key, _)| &key.namespace));
        let here = common.filter(|(key, _)| is_here(key));
        let is_here_of_several = are_several(here.map(|(key, _)| &key.namespace));
        known.retain(|(key, trouble)| {
            let of_own = is_own(key) && (is_here(key) || (is_on_all_for_own && is_shared(trouble)));
            let of_all = (is_on_several && is_of_several) || (is_here_of_several && is_here(key));
            of_own || (of_all && is_common(trouble))
        });
        known
    }

    /// Records a failure, and with it when the image is tried there again.
    fn fails(&mut self, place: Place, pod: &Pod, image: &str, is_ours: bool, now: Moment) {
        let key = Key::new(pod, place, image);
        let before = self.0.get(&key).filter(|before| before.is_remembered(now));
        // One failed try counts once, however long its pod shows it.
        let failed = before
            .is_some_and(|before| before.trial.as_ref().is_some_and(|(by, _)| *by == pod.uid));
        let times = before.map_or(0, |before| before.times.saturating_add(u32::from(failed)));
        let wait = NOT_TRIED.after(times);
        let trial = before
            .and_then(|before| before.trial.clone())
            .filter(|_| !failed);
        let trouble = Trouble {
            until: now + wait,
            times,
            trial,
            is_ours: is_ours || before.is_some_and(|before| before.is_ours),
            pulled_by: before.map_or(PulledBy::Nobody, |before| before.pulled_by),
            ..Trouble::new(pod, now)
        };
        self.keep(key, trouble);
    }

    /// Records that a pod has pulled the image: others that cannot have a trouble of their own.
    fn pulled(&mut self, pod: &Pod, image: &str) {
        self.0.retain(|key, trouble| {
            let Place::Node(node) = &key.place else {
                return true;
            };
            if !is_same(&key.image, image) {
                return true;
            }
            let is_own = key.namespace == pod.namespace;
            let by = if is_own {
                PulledBy::Namespace
            } else {
                PulledBy::Others
            };
            trouble.pulled_by = trouble.pulled_by.max(by);
            !(is_own && *node == pod.node)
        });
    }

    /// Keeps a trouble. Where there are too many, what is known of other namespaces stays.
    fn keep(&mut self, key: Key, trouble: Trouble) {
        if self.0.insert(key, trouble).is_none() && self.0.len() > KEPT {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for key in self.0.keys() {
                let namespace: &str = &key.namespace;
                *counts.entry(namespace).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            let most = most.map(|(namespace, _)| namespace);
            let oldest = self
                .0
                .iter()
                .filter(|(key, _)| Some(&*key.namespace) == most)
                .min_by_key(|(_, trouble)| trouble.seen)
                .map(|(key, _)| key.clone());
            oldest.iter().for_each(|key| drop(self.0.remove(key)));
        }
    }
}

impl Key {
    fn new(pod: &Pod, place: Place, image: &str) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            place,
            image: image.into(),
        }
    }
}

impl Trouble {
    fn new(pod: &Pod, now: Moment) -> Self {
        Self {
            seen: now,
            until: now,
            times: 0,
            by: pod.uid.clone(),
            trial: None,
            is_ours: false,
            pulled_by: PulledBy::Nobody,
        }
    }

    fn is_remembered(&self, now: Moment) -> bool {
        now < self.seen + FORGOTTEN
    }

    /// Returns until when a pod waits: for the next try, or for the present one by another pod.
    fn holds(&self, uid: &str, now: Moment) -> Option<Moment> {
        match &self.trial {
            Some((by, _)) if **by == *uid => None,
            Some((_, until)) if now < *until => Some(*until),
            _ => Some(self.until).filter(|until| now < *until),
        }
    }
}

/// Returns true if there are two that differ.
fn are_several<T: PartialEq>(mut all: impl Iterator<Item = T>) -> bool {
    let first = all.next();
    first.is_some_and(|first| all.any(|other| other != first))
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
