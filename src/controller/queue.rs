//! The pods that wait for a write, served namespace by namespace: ten thousand pods of one tenant do not delay the single
//! pod of another.

use std::collections::{HashMap, HashSet, VecDeque};

/// A queue of pod uids with one turn per namespace.
#[derive(Debug, Default)]
pub struct FairQueue {
    turns: VecDeque<Box<str>>,
    waiting: HashMap<Box<str>, VecDeque<Box<str>>>,
    known: HashSet<Box<str>>,
}

impl FairQueue {
    /// Adds a pod, unless it waits already.
    pub fn push(&mut self, namespace: &str, uid: &str) {
        if !self.known.insert(uid.into()) {
            return;
        }
        let line = self.waiting.entry(namespace.into()).or_default();
        if line.is_empty() {
            self.turns.push_back(namespace.into());
        }
        line.push_back(uid.into());
    }

    /// The next pod: the first of the namespace whose turn it is.
    pub fn pop(&mut self) -> Option<Box<str>> {
        let namespace = self.turns.pop_front()?;
        let line = self.waiting.get_mut(&namespace)?;
        let uid = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        self.known.remove(&uid);
        Some(uid)
    }

    /// How many pods wait.
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowded_namespace_does_not_delay_another() {
        let mut queue = FairQueue::default();
        for uid in ["a1", "a2", "a3"] {
            queue.push("a", uid);
        }
        queue.push("b", "b1");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(String::from).collect();
        assert_eq!(order, ["a1", "b1", "a2", "a3"]);
    }

    #[test]
    fn a_pod_waits_once() {
        let mut queue = FairQueue::default();
        queue.push("a", "a1");
        queue.push("a", "a1");
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.pop().as_deref(), Some("a1"));
        assert_eq!(queue.pop(), None);
        queue.push("a", "a1");
        assert_eq!(queue.pop().as_deref(), Some("a1"));
    }
}
