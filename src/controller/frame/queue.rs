//! What waits for its turn, served namespace by namespace: ten thousand pods of one tenant do not
//! delay the single pod of another.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// How often each pod is looked at although nothing seems to have happened: a wake-up that was
/// forgotten costs its pod no more than this. It is decided again from what is known. To list again
/// would not bring what a watch has missed: the API server serves lists from the same cache as
/// watches, and how long a dead connection can hide events is bounded by [`crate::frame::watch`].
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A queue with one turn per namespace, of pod uids or whatever names what waits.
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
    /// Adds one, unless it waits already.
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

    /// The next one: the first of the namespace whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_of(|_| true)
    }

    /// As [`pop`](Self::pop), of a namespace that may have its turn now; the others keep their
    /// places.
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

    /// How many wait.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// Takes the first one whose time has come out of those that are to be looked at later.
pub(crate) fn pop_due<K: Ord>(due: &mut BTreeSet<(Duration, K)>, now: Duration) -> Option<K> {
    let is_due = due.first().is_some_and(|(at, _)| *at <= now);
    let first = is_due.then(|| due.pop_first()).flatten()?;
    Some(first.1)
}

/// Puts another time in the place of that at which one is to be looked at, among all of them and
/// where it is kept.
pub(crate) fn reschedule<K: Ord + Clone>(
    due: &mut BTreeSet<(Duration, K)>,
    key: &K,
    kept: &mut Option<Duration>,
    at: Option<Duration>,
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
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
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
        assert_eq!(queue.pop().as_deref(), Some("a1"));
        assert_eq!(queue.pop(), None);
        queue.push("a", "a1");
        assert_eq!(queue.pop().as_deref(), Some("a1"));
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
                queue.pop().as_deref(),
                queue.pop().as_deref(),
                queue.is_empty()
            ),
            (Some("a1"), Some("c1"), true)
        );
    }
}
