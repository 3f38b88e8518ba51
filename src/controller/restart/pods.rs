//! The pods that are followed: at most so many at once, and the others in the order in which they were asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Key, PodEntry, Seen};

/// Pods that are followed at once; requests for others wait. Each is a watch of one object.
const AT_ONCE: usize = 256;

/// The pods that requests need.
#[derive(Default)]
pub(super) struct Pods {
    followed: BTreeMap<Key, PodEntry>,
    /// Those that wait for a place, by their number.
    line: BTreeMap<u64, Key>,
    numbers: BTreeMap<Key, u64>,
    last: u64,
}

impl Pods {
    /// Those that are followed.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.followed.keys()
    }

    /// What is known of a pod that is followed.
    pub fn get(&self, pod: &Key) -> Option<&PodEntry> {
        self.followed.get(pod)
    }

    /// The same, to be brought up to date.
    pub fn get_mut(&mut self, pod: &Key) -> Option<&mut PodEntry> {
        self.followed.get_mut(pod)
    }

    /// A pod is needed: it is followed as soon as there is a place.
    pub fn want(&mut self, pod: &Key, now: Duration) {
        if self.followed.contains_key(pod) || self.numbers.contains_key(pod) {
            return;
        }
        self.last += 1;
        self.line.insert(self.last, pod.clone());
        self.numbers.insert(pod.clone(), self.last);
        self.fill(now);
    }

    /// A pod is needed no more.
    pub fn release(&mut self, pod: &Key, now: Duration) {
        self.followed.remove(pod);
        if let Some(number) = self.numbers.remove(pod) {
            self.line.remove(&number);
        }
        self.fill(now);
    }

    /// A pod that is followed in vain gives its place to one that waits; it is needed again when its requests change.
    pub fn give_way(&mut self, pod: &Key, now: Duration) {
        if !self.line.is_empty() {
            self.release(pod, now);
        }
    }

    fn fill(&mut self, now: Duration) {
        while self.followed.len() < AT_ONCE {
            let Some((_, pod)) = self.line.pop_first() else { return };
            self.numbers.remove(&pod);
            self.followed.insert(pod, PodEntry { sight: Seen::NotYet, listed: false, since: now });
        }
    }
}
