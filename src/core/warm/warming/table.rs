//! The nodes of a job, indexed by what may have to be done for them. A step visits only these,
//! because a job may have thousands of nodes, most of which are settled or cannot begin yet.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use super::node::NodeProgress;
use crate::objects::moment::Moment;

/// The nodes, by name, with an index for each place.
#[derive(Debug, Default)]
pub(crate) struct Table {
    nodes: BTreeMap<Box<str>, Entry>,
    busy: BTreeSet<Box<str>>,
    waiting: BTreeSet<Box<str>>,
    asleep: BTreeSet<(Moment, Box<str>)>,
    taken: BTreeSet<Box<str>>,
    /// The nodes with something to report.
    with_news: BTreeSet<Box<str>>,
    /// No settled node had a pod created before this; `NEVER` if none is settled.
    settled_since: Moment,
    /// The time of the last step.
    now: Moment,
}

#[derive(Debug)]
struct Entry {
    node: NodeProgress,
    place: Place,
}

/// The reason why a node may have to be visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is under way, or a deadline of its own is running.
    Busy,
    /// A pod can be created once there is a slot.
    Waiting,
    /// A pod can be created from this time on.
    Asleep(Moment),
    /// A pod can be created once others have left the node.
    Taken,
    /// Nothing is to be done.
    Rests,
}

impl Table {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self {
            settled_since: Moment::NEVER,
            ..Self::default()
        }
    }

    pub fn get(&self, name: &str) -> Option<&NodeProgress> {
        self.nodes.get(name).map(|entry| &entry.node)
    }

    /// Returns all nodes, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NodeProgress)> {
        self.nodes
            .iter()
            .map(|(name, entry)| (&**name, &entry.node))
    }

    /// Returns the nodes that are under way, or have a deadline of their own.
    pub fn busy(&self) -> impl Iterator<Item = (&str, &NodeProgress)> {
        self.busy
            .iter()
            .filter_map(|name| Some((&**name, self.get(name)?)))
    }

    /// Returns true if a pod is still to be created for a node, now or later.
    pub fn has_more(&self) -> bool {
        !(self.waiting.is_empty() && self.asleep.is_empty() && self.taken.is_empty())
    }

    /// Returns how many nodes wait for others to leave.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Sets the time, and moves nodes whose wait is over to those that wait for a slot.
    pub fn wake(&mut self, now: Moment) {
        self.now = now;
        while self.asleep.first().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, name)) = self.asleep.pop_first() {
                self.put(&name, Place::Waiting);
            }
        }
    }

    /// Returns the first node after this name that is under way or, with `and_waiting`, waits for a
    /// slot.
    pub fn next(&self, after: Option<&str>, and_waiting: bool) -> Option<Box<str>> {
        let waiting = if and_waiting {
            self.next_waiting(after)
        } else {
            None
        };
        let busy = first_after(&self.busy, after).map(Box::from);
        busy.into_iter().chain(waiting).min()
    }

    /// Returns the first node after this name that waits for a slot.
    pub fn next_waiting(&self, after: Option<&str>) -> Option<Box<str>> {
        first_after(&self.waiting, after).map(Box::from)
    }

    /// Records that others have taken a node that waits for a slot.
    pub fn is_taken(&mut self, name: &str) {
        if self.place(name) == Some(Place::Waiting) {
            self.put(name, Place::Taken);
        }
    }

    /// Records that they may have left.
    pub fn is_free_again(&mut self, name: &str) {
        if self.place(name) == Some(Place::Taken) {
            self.put(name, Place::Waiting);
        }
    }

    /// Returns the nodes with something to report.
    pub fn with_news(&self) -> Vec<Box<str>> {
        self.with_news.iter().cloned().collect()
    }

    /// Returns the nodes that have been settled for `age`; none without a slot.
    pub fn settled_for(&mut self, age: Duration, slots: usize, now: Moment) -> Vec<Box<str>> {
        if slots == 0 || now < self.settled_since + age {
            return Vec::new();
        }
        let settled: Vec<_> = self
            .iter()
            .filter(|(_, node)| node.is_settled())
            .map(|(name, node)| (node.asked(), name))
            .collect();
        let first = settled.iter().map(|(asked, _)| *asked).min();
        let due = settled
            .into_iter()
            .filter(|(asked, _)| now >= *asked + age)
            .map(|(_, name)| name.into())
            .collect();
        self.settled_since = first.unwrap_or(Moment::NEVER);
        due
    }

    pub fn insert(&mut self, name: &str, node: NodeProgress) {
        self.remove(name);
        let place = Place::Rests;
        self.nodes.insert(name.into(), Entry { node, place });
        self.change(name, |_| ());
    }

    pub fn remove(&mut self, name: &str) -> Option<NodeProgress> {
        self.put(name, Place::Rests);
        self.with_news.remove(name);
        self.nodes.remove(name).map(|entry| entry.node)
    }

    /// Runs `work`, which may change a node; `None` if there is no such node.
    pub fn change<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut NodeProgress) -> T,
    ) -> Option<T> {
        let node = &mut self.nodes.get_mut(name)?.node;
        let done = work(node);
        let place = if node.is_busy() {
            Place::Busy
        } else {
            match node.begins_at() {
                Some(time) if time > self.now => Place::Asleep(time),
                Some(_) => Place::Waiting,
                None => Place::Rests,
            }
        };
        if node.is_settled() {
            self.settled_since = self.settled_since.min(node.asked());
        }
        if !node.has_news() {
            self.with_news.remove(name);
        } else if !self.with_news.contains(name) {
            self.with_news.insert(name.into());
        }
        self.put(name, place);
        Some(done)
    }

    /// Runs `work` on each node, as `change` does on one.
    pub fn change_all(&mut self, work: impl Fn(&mut NodeProgress)) {
        let names: Vec<_> = self.nodes.keys().cloned().collect();
        for name in names {
            self.change(&name, &work);
        }
    }

    fn place(&self, name: &str) -> Option<Place> {
        self.nodes.get(name).map(|entry| entry.place)
    }

    fn put(&mut self, name: &str, place: Place) {
        let Some(entry) = self.nodes.get_mut(name) else {
            return;
        };
        let before = std::mem::replace(&mut entry.place, place);
        if before == place {
            return;
        }
        match before {
            Place::Busy => drop(self.busy.remove(name)),
            Place::Waiting => drop(self.waiting.remove(name)),
            Place::Asleep(until) => drop(self.asleep.remove(&(until, name.into()))),
            Place::Taken => drop(self.taken.remove(name)),
            Place::Rests => {}
        }
        match place {
            Place::Busy => drop(self.busy.insert(name.into())),
            Place::Waiting => drop(self.waiting.insert(name.into())),
            Place::Asleep(until) => drop(self.asleep.insert((until, name.into()))),
            Place::Taken => drop(self.taken.insert(name.into())),
            Place::Rests => {}
        }
    }
}

fn first_after<'a>(names: &'a BTreeSet<Box<str>>, after: Option<&str>) -> Option<&'a str> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    names
        .range::<str, _>((from, Bound::Unbounded))
        .next()
        .map(|name| &**name)
}
