//! The watched pods: a bounded number at once, the others in turns by namespace.

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::reconcile::Sight;

use super::Key;
use crate::frame::isolated::read;
use crate::frame::queue::FairQueue;
use crate::frame::store::Store;
use crate::frame::watch::Event;

/// The maximum number of watched pods; requests for others wait. Each has a watch of its own.
const AT_ONCE: usize = 256;

/// Why the pod of a request is not read: its names are there, as it is watched by them.
const UNREADABLE: &str =
    "its hooks and ports are larger than 128 KiB, or reading it failed (the log says why)";

/// A pod; `None` if it cannot be read.
type Read = Option<Box<RestartPod>>;

/// A watched pod, with the start of its watch.
pub(crate) struct PodEntry {
    /// The pod, and beside one that cannot be read what was read of it before.
    pod: Store<Read, Read>,
    pub since: Moment,
}

impl PodEntry {
    /// Returns the properties that all requests for the pod depend on, queued ones included.
    pub fn kind(&self) -> (bool, Option<(Box<str>, bool, bool)>) {
        match self.sight() {
            Sight::There(RestartPod { pod, .. }) => (
                true,
                Some((pod.uid.clone(), pod.deleting, pod.phase.is_terminal())),
            ),
            Sight::Unseen | Sight::Refused(_) => (false, None),
            Sight::Absent => (true, None),
        }
    }

    /// Returns the last observation of the pod.
    pub fn sight(&self) -> Sight<'_> {
        match self.pod.iter().next() {
            // What was seen of it before may be all that is needed.
            Some((_, pod, before)) => match pod.as_ref().or(before.as_ref()) {
                Some(pod) => Sight::There(pod),
                None => Sight::Refused(UNREADABLE),
            },
            None if self.pod.is_complete() => Sight::Absent,
            None => self.pod.hidden().map_or(Sight::Unseen, Sight::Refused),
        }
    }

    pub fn observe(&mut self, event: Event<RestartPodWire>, now: Moment) {
        let read = |pod: RestartPodWire| Some(read("pod", || pod.read()).map(Box::new));
        let changes = self.pod.observe(event, now, read);
        if let Some((key, Some(Some(seen)))) = changes.put
            && let Some((None, before)) = self.pod.get_mut(&key)
        {
            *before = Some(seen);
        }
    }

    /// Handles the answer to a write that was decided on the version `seen`.
    pub fn answered(&mut self, key: Key, pod: Box<RestartPod>, seen: &str, now: Moment) {
        let state = (pod.pod.uid.clone(), pod.pod.version.clone());
        drop(self.pod.answered(key, state, seen, Some(pod), now));
    }
}

/// The pods that requests need.
#[derive(Default)]
pub(crate) struct Pods {
    followed: BTreeMap<Key, PodEntry>,
    /// The number of watched pods per namespace.
    taken: BTreeMap<Box<str>, usize>,
    /// The pods that wait for a place; the queue may also name some that no longer wait.
    waiting: BTreeSet<Key>,
    line: FairQueue<Key>,
    have_changed: bool,
}

impl Pods {
    /// Returns the watched pods; `None` if they have not changed since the last call.
    pub fn news(&mut self) -> Option<impl Iterator<Item = &Key>> {
        std::mem::take(&mut self.have_changed).then(|| self.followed.keys())
    }

    /// Returns the entry of a pod, if it is watched.
    pub fn get(&self, pod: &Key) -> Option<&PodEntry> {
        self.followed.get(pod)
    }

    /// Returns the pod, if it is watched and exists.
    pub fn seen(&self, pod: &Key) -> Option<&RestartPod> {
        match self.get(pod)?.sight() {
            Sight::There(pod) => Some(pod),
            Sight::Unseen | Sight::Refused(_) | Sight::Absent => None,
        }
    }

    pub fn get_mut(&mut self, pod: &Key) -> Option<&mut PodEntry> {
        self.followed.get_mut(pod)
    }

    /// Requests a watch of a pod, which starts as soon as there is a place.
    pub fn want(&mut self, pod: &Key, now: Moment) {
        if self.followed.contains_key(pod) || !self.waiting.insert(pod.clone()) {
            return;
        }
        self.line.push(&pod.0, pod.clone());
        self.fill(now);
    }

    /// Ends the watch of a pod that is no longer needed.
    pub fn release(&mut self, pod: &Key, now: Moment) {
        if self.waiting.remove(pod) {
            self.shorten_line();
        }
        if self.followed.remove(pod).is_none() {
            return;
        }
        self.have_changed = true;
        if let Some(count) = self.taken.get_mut(&pod.0) {
            *count -= 1;
            if *count == 0 {
                self.taken.remove(&pod.0);
            }
        }
        self.fill(now);
    }

    /// Drops from the queue the pods that no longer wait, once they are most of it: those of a
    /// namespace that gets no place now would stay in it.
    fn shorten_line(&mut self) {
        let Self { waiting, line, .. } = self;
        if line.len() > 2 * waiting.len() + AT_ONCE {
            line.retain(|pod| waiting.contains(pod));
        }
    }

    /// Gives the place of a pod that is watched in vain to one that waits; it is requested again
    /// when its requests change.
    pub fn yield_slot(&mut self, pod: &Key, now: Moment) {
        if !self.waiting.is_empty() {
            self.release(pod, now);
        }
    }

    /// Fills free places. A namespace takes one only while more are free than it has. So one alone
    /// has half of them, and with several namespaces each has as many as stay free: however long
    /// the pods of some take, there is a place for the next.
    fn fill(&mut self, now: Moment) {
        loop {
            let free = AT_ONCE - self.followed.len();
            let taken = &self.taken;
            let Some(pod) = self
                .line
                .pop_of(|namespace| taken.get(namespace).copied().unwrap_or_default() < free)
            else {
                return;
            };
            if self.waiting.remove(&pod) {
                *self.taken.entry(pod.0.clone()).or_default() += 1;
                self.followed.insert(
                    pod,
                    PodEntry {
                        pod: Store::default(),
                        since: now,
                    },
                );
                self.have_changed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, number: usize) -> Key {
        (namespace.into(), format!("p{number}").into())
    }

    fn followed(pods: &Pods, namespace: &str) -> usize {
        pods.followed
            .keys()
            .filter(|pod| *pod.0 == *namespace)
            .count()
    }

    #[test]
    fn a9_one_namespace_leaves_places_and_many_share_them() {
        let mut pods = Pods::default();
        (0..1000).for_each(|number| pods.want(&pod("greedy", number), Moment::START));
        assert_eq!(followed(&pods, "greedy"), AT_ONCE / 2);
        pods.want(&pod("modest", 0), Moment::START);
        assert_eq!(
            followed(&pods, "modest"),
            1,
            "at once, whatever the others do with theirs"
        );
        // Nine others that are as greedy: the places are not full yet, and those that come free go
        // to whoever has fewest.
        for other in 1..9 {
            (0..1000).for_each(|number| {
                pods.want(&pod(&format!("greedy-{other}"), number), Moment::START)
            });
        }
        for _ in 0..AT_ONCE {
            let most = pods
                .taken
                .iter()
                .max_by_key(|(_, taken)| **taken)
                .map(|(namespace, _)| namespace.clone())
                .unwrap();
            let one = pods
                .followed
                .keys()
                .find(|pod| pod.0 == most)
                .cloned()
                .unwrap();
            pods.release(&one, Moment::START);
        }
        let shares: Vec<_> = pods.taken.values().copied().collect();
        assert!(
            shares.iter().all(|share| *share <= AT_ONCE / 10 + 1) && pods.followed.len() < AT_ONCE,
            "{shares:?}"
        );
        pods.want(&pod("late", 0), Moment::START);
        assert_eq!(followed(&pods, "late"), 1);
    }

    #[test]
    fn the_queue_does_not_grow_by_pods_that_no_longer_wait() {
        let mut pods = Pods::default();
        (0..AT_ONCE).for_each(|number| pods.want(&pod("a", number), Moment::START));
        for number in AT_ONCE..5000 {
            pods.want(&pod("a", number), Moment::START);
            pods.release(&pod("a", number), Moment::START);
        }
        assert_eq!(pods.waiting.len(), AT_ONCE / 2);
        assert!(pods.line.len() <= 2 * AT_ONCE + 1, "{}", pods.line.len());
    }

    #[test]
    fn who_is_needed_no_more_leaves_the_line_and_news_are_told_once() {
        let mut pods = Pods::default();
        (0..200).for_each(|number| pods.want(&pod("a", number), Moment::START));
        assert_eq!(pods.news().map(Iterator::count), Some(AT_ONCE / 2));
        assert!(pods.news().is_none());
        (130..200).for_each(|number| pods.release(&pod("a", number), Moment::START));
        assert!(pods.news().is_none());
        (0..10).for_each(|number| pods.release(&pod("a", number), Moment::START));
        assert_eq!(
            pods.news().map(Iterator::count),
            Some(120),
            "two of the ten places are taken by those that waited"
        );
    }
}
