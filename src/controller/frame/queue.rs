//! A queue that is served namespace by namespace: ten thousand pods of one tenant do not delay the
//! single pod of another.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;

/// The interval at which each pod is reconciled even without an event: a forgotten wake-up costs
/// its pod no more than this. The decision is made from what is cached. A new list would not bring
/// what a watch has missed: the API server serves lists from the same cache as watches, and
/// [`crate::frame::watch`] bounds how long a dead connection can hide events.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A queue with one turn per namespace, of pod uids or other keys.
#[derive(Debug)]
pub struct FairQueue<T = Box<str>> {
    turns: VecDeque<Box<str>>,
    waiting: HashMap<Box<str>, VecDeque<T>>,
    known: HashSet<T>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            waiting: HashMap::new(),
            known: HashSet::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> FairQueue<T> {
    /// Adds an item, unless it is queued already.
    pub fn push(&mut self, namespace: &str, item: impl Into<T>) {
        let item = item.into();
        if !self.known.insert(item.clone()) {
            return;
        }
        let line = self.waiting.entry(namespace.into()).or_default();
        if line.is_empty() {
            self.turns.push_back(namespace.into());
        }
        line.push_back(item);
    }

    /// Removes and returns the next item: the first of the namespace whose turn it is, of those that
    /// may have their turn now; the others keep their places.
    pub fn pop_of(&mut self, may_go: impl Fn(&str) -> bool) -> Option<T> {
        let place = self.turns.iter().position(|namespace| may_go(namespace))?;
        let namespace = self.turns.remove(place)?;
        let line = self.waiting.get_mut(&namespace)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        self.known.remove(&item);
        Some(item)
    }

    /// Returns the first item of each namespace that may have its turn now.
    pub fn firsts(&self, may_go: impl Fn(&str) -> bool) -> impl Iterator<Item = &T> {
        let lines = self.waiting.iter();
        lines
            .filter(move |(namespace, _)| may_go(namespace))
            .filter_map(|(_, line)| line.front())
    }

    pub fn len_of(&self, namespace: &str) -> usize {
        self.waiting.get(namespace).map_or(0, VecDeque::len)
    }

    /// Returns true if an item of such a namespace is queued.
    pub fn has(&self, of: impl Fn(&str) -> bool) -> bool {
        self.turns.iter().any(|namespace| of(namespace))
    }

    /// Removes the items for which `stays` returns false; the others keep their places.
    pub fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        self.known.retain(&stays);
        self.waiting.retain(|_, line| {
            line.retain(&stays);
            !line.is_empty()
        });
        self.turns
            .retain(|namespace| self.waiting.contains_key(namespace));
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// Removes and returns the first key that is due.
pub(crate) fn pop_due<K: Ord>(due: &mut BTreeSet<(Moment, K)>, now: Moment) -> Option<K> {
    let is_due = due.first().is_some_and(|(at, _)| *at <= now);
    let first = is_due.then(|| due.pop_first()).flatten()?;
    Some(first.1)
}

/// Replaces the time at which `key` is due, both in `due` and in `kept`. With `None` it is not due
/// any more.
pub(crate) fn reschedule<K: Ord + Clone>(
    due: &mut BTreeSet<(Moment, K)>,
    key: &K,
    kept: &mut Option<Moment>,
    at: Option<Moment>,
) {
    if let Some(before) = std::mem::replace(kept, at) {
        due.remove(&(before, key.clone()));
    }
    due.extend(at.map(|at| (at, key.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowded_namespace_does_not_delay_another() {
        let mut queue = FairQueue::<Box<str>>::default();
        for uid in ["a1", "a2", "a3"] {
            queue.push("a", uid);
        }
        queue.push("b", "b1");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_of(|_| true))
            .map(String::from)
            .collect();
        assert_eq!(order, ["a1", "b1", "a2", "a3"]);
    }

    #[test]
    fn a_pod_waits_once() {
        let mut queue = FairQueue::<Box<str>>::default();
        queue.push("a", "a1");
        queue.push("a", "a1");
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.pop_of(|_| true).as_deref(), Some("a1"));
        assert_eq!(queue.pop_of(|_| true), None);
        queue.push("a", "a1");
        assert_eq!(queue.pop_of(|_| true).as_deref(), Some("a1"));
    }

    #[test]
    fn a_namespace_that_may_not_go_keeps_its_place() {
        let mut queue = FairQueue::<Box<str>>::default();
        for (namespace, uid) in [("a", "a1"), ("b", "b1"), ("c", "c1")] {
            queue.push(namespace, uid);
        }
        assert_eq!(
            queue.pop_of(|namespace| namespace != "a").as_deref(),
            Some("b1")
        );
        assert_eq!(queue.pop_of(|_| false), None);
        assert_eq!(
            (
                queue.pop_of(|_| true).as_deref(),
                queue.pop_of(|_| true).as_deref(),
                queue.is_empty()
            ),
            (Some("a1"), Some("c1"), true)
        );
    }
}
