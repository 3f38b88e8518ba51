//! Exit images that could not be pulled or started in pods of a namespace.
//!
//! Under `Never` a sidecar that is stopped for an exit image which cannot be pulled fails its pod,
//! and its Job runs finished work again; under `OnFailure` each start of one that cannot be started
//! is a restart that the Job counts. So what pods of a namespace have shown is a reason to end its
//! next pods by the phase. It is no reason for anything else, counts in no other namespace, and is
//! not tried out before it expires.
//!
//! Of a sidecar under `Never` a kubelet shows no pull: it stays as it has ended, and the pod is Failed
//! (`docs/measured.md`, rows 7 and 12). So there the failure itself counts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Memory, SwapRecord};
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::{Progress, exit_image_shown, progress};
use crate::objects::pod::{Container, Pod, Terminated, roles};
use crate::report::decision::Report;
use crate::report::reason::Reason;
use crate::terminate::ended_by_itself;

/// The number of troubles kept; beyond, the oldest of the namespace with the most is forgotten.
const KEPT: usize = 1024;
/// How long a trouble counts after it was last shown. Each try under `Never` may cost a pod whose
/// work is done, so it is long; an exit image that ends a sidecar of the namespace well on that node,
/// and a restart of the process, forget it sooner.
const COUNTS: Duration = Duration::from_secs(24 * 3600);

/// What a trouble is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    namespace: Box<str>,
    /// The node of the pod that has shown it: what works on another one says nothing of it.
    node: Box<str>,
    image: Box<str>,
    /// The name of the container in which it could not be started: others may have what this one
    /// lacks. Empty if it could not be pulled, or nobody can tell.
    container: Box<str>,
}

/// All known troubles, and when each was last shown.
#[derive(Clone, Debug, Default)]
pub struct ImageTroubles(BTreeMap<Key, Moment>);

impl ImageTroubles {
    /// Records what a pod shows about the exit images in it. The memory must have observed this
    /// state.
    pub fn observe(&mut self, pod: &Pod, memory: &Memory, now: Moment) {
        for (container, record) in memory.swapped_among(pod.containers.iter()) {
            if is_unpulled(container, record) {
                self.keep(pod, &record.asked, "", now);
            } else if record.shows_failure(container) {
                self.keep(pod, &record.asked, &container.name, now);
            } else if record.has_worked(container) {
                self.forget(pod, &record.asked, &container.name);
            }
        }
    }

    /// Forgets what the exit image has disproved by ending this container well: of this node alone,
    /// for a swap that was made before may end well where the image can be pulled.
    fn forget(&mut self, pod: &Pod, image: &str, container: &str) {
        self.0.retain(|key, _| {
            let is_of = key.container.is_empty() || *key.container == *container;
            let is_there = key.namespace == pod.namespace && key.node == pod.node;
            !(is_of && is_there && is_same(&key.image, image))
        });
    }

    /// Records that a pod has failed by its swaps under `Never`, although its main containers had
    /// succeeded: on a node that is known to replace containers, or by the exit image itself.
    /// One that has ended by itself says nothing of it.
    pub fn failed(&mut self, pod: &Pod, memory: &Memory, now: Moment) {
        let has_failed =
            |container: &Container| container.end().is_some_and(Terminated::has_failed);
        for (container, record) in memory.swapped_among(pod.containers.iter()) {
            let is_by_swap = !ended_by_itself(pod, container, record, memory);
            if record.before.is_some() && has_failed(container) && is_by_swap {
                self.keep(pod, &record.asked, "", now);
                // Another container that ends well disproves a failed pull, and nothing about this one.
                self.keep(pod, &record.asked, &container.name, now);
            }
        }
    }

    /// Returns why a container of a pod does not get this image, and until when; `allow` is what to
    /// do so that the phase ends the pod.
    pub fn holds(
        &self,
        pod: &Pod,
        container: &Container,
        image: &str,
        now: Moment,
        allow: &str,
    ) -> Option<(Report, Option<Moment>)> {
        if self.0.is_empty() {
            return None;
        }
        let until = |name: &str| {
            let of = |(key, at): (&Key, &Moment)| {
                let is_it = key.namespace == pod.namespace
                    && *key.container == *name
                    && is_same(&key.image, image);
                is_it.then_some(*at + COUNTS)
            };
            let latest = self.0.iter().filter_map(of).max();
            latest.filter(|until| now < *until)
        };
        let name = &container.name;
        // A pod that loses nothing may try: its last exit code is else the sidecar's own.
        let is_cost = container.may_be_under_never(pod) && roles::mains_succeeded(pod);
        let of_pull = || until("").filter(|_| is_cost);
        let (until, what) = match of_pull() {
            Some(until) => (until, "seems not to have been pulled or started"),
            None => (until(name)?, "did not start, or not end with 0,"),
        };
        let note = format!(
            "container {name}: {image} {what} in another pod of this namespace within the last {} hours, so it is not tried{allow}",
            COUNTS.as_secs() / 3600
        );
        let reason = Reason::ExitImageDoubtful;
        Some((Report::new(reason, note), Some(until)))
    }

    /// Keeps a trouble. Where there are too many, what is known of other namespaces stays.
    fn keep(&mut self, pod: &Pod, image: &str, container: &str, now: Moment) {
        let key = Key {
            namespace: pod.namespace.clone(),
            node: pod.node.clone(),
            image: image.into(),
            container: container.into(),
        };
        if self.0.insert(key, now).is_some() || self.0.len() <= KEPT {
            return;
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for key in self.0.keys() {
            *counts.entry(&*key.namespace).or_default() += 1;
        }
        let oldest = self
            .0
            .iter()
            .min_by_key(|(key, at)| (usize::MAX - counts[&*key.namespace], **at))
            .map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            self.0.remove(&oldest);
        }
    }
}

/// Returns the images of swaps that could not be pulled in this pod; where it `has_failed` by them, of
/// which a kubelet does not say why, those of the containers that have.
pub fn unpulled<'a>(
    pod: &'a Pod,
    memory: &'a Memory,
    has_failed: bool,
) -> impl Iterator<Item = &'a str> {
    let swapped = memory.swapped_among(pod.containers.iter());
    let unpulled = swapped.filter(move |(container, record)| {
        let by_it = has_failed && container.end().is_some_and(Terminated::has_failed);
        by_it || is_unpulled(container, record)
    });
    unpulled.map(|(_, record)| &*record.asked)
}

fn is_unpulled(container: &Container, record: &SwapRecord) -> bool {
    let progress = progress(container, record.before.as_ref());
    matches!(progress, Progress::NotPulled(..))
}

/// Compares images; a webhook may have added a digest to one of them.
fn is_same(known: &str, image: &str) -> bool {
    known == image || exit_image_shown(known, image) == Some(true)
}
