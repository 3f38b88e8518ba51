//! The startup taint: a node that begins its life with it takes no pods until its images are there.
//! It is taken away from a node that is Ready once all that go on for ever have their images there,
//! and in any case after a time.
//!
//! The time counts from when this life has first seen the node Ready with the taint, so no two
//! clocks are compared; another life begins anew.

use std::collections::BTreeMap;
use std::time::Duration;

use super::warming::Answer;
use crate::objects::node::Node;

/// The key of the taint, whatever its value and effect.
pub const STARTUP_TAINT: &str = "swaplet.io/warming";

/// The wait for the watch to show what a write has done.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The wait after a write that is forbidden: of all nodes, for what is missing is a right.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// The taint is to be taken from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untaint {
    /// The node.
    pub node: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
    /// Where the taint stands in `spec.taints`, once for each effect, in rising order.
    pub indexes: Vec<usize>,
    /// What is missing on the node, where it is taken away because the time is over.
    pub missing: Option<String>,
}

/// The nodes that have the taint.
#[derive(Debug)]
pub struct StartupTaints {
    timeout: Duration,
    nodes: BTreeMap<Box<str>, Tainted>,
    /// A write was applied, and none was forbidden since. Until then one node at a time is written.
    is_allowed: bool,
    /// It was told that it is forbidden.
    is_told: bool,
    /// Nothing is written before.
    not_before: Duration,
}

#[derive(Debug)]
struct Tainted {
    uid: Box<str>,
    indexes: Vec<usize>,
    /// Since when it is known as Ready; it may be not Ready for a while again.
    since: Option<Duration>,
    is_writing: bool,
    not_before: Duration,
}

impl StartupTaints {
    /// A node waits for its images at most this long.
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            nodes: BTreeMap::new(),
            is_allowed: false,
            is_told: false,
            not_before: Duration::ZERO,
        }
    }

    /// A node was seen.
    pub fn see(&mut self, node: &Node, now: Duration) {
        let indexes: Vec<_> = (0..node.taints.len())
            .filter(|index| &*node.taints[*index].key == STARTUP_TAINT)
            .collect();
        if indexes.is_empty() {
            return self.leave(&node.name);
        }
        let new = || Tainted {
            uid: node.uid.clone(),
            indexes: Vec::new(),
            since: None,
            is_writing: false,
            not_before: Duration::ZERO,
        };
        let tainted = self.nodes.entry(node.name.clone()).or_insert_with(new);
        if tainted.uid != node.uid {
            *tainted = new();
        }
        tainted.indexes = indexes;
        tainted.since = tainted.since.or(node.ready.then_some(now));
    }

    /// Whether no node has the taint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether the node has the taint.
    #[must_use]
    pub fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// A node is gone.
    pub fn leave(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// What is to be written now. `missing` says of a node what it still lacks, and nothing where
    /// it is warm.
    pub fn step(
        &mut self,
        now: Duration,
        missing: impl Fn(&str) -> Option<String>,
    ) -> Vec<Untaint> {
        let mut writes = Vec::new();
        let mut under_way = self.nodes.values().filter(|node| node.is_writing).count();
        for (name, node) in &mut self.nodes {
            let Some(since) = node
                .since
                .filter(|_| !node.is_writing && now >= node.not_before.max(self.not_before))
            else {
                continue;
            };
            if under_way > 0 && !self.is_allowed {
                break;
            }
            let missing = missing(name);
            if missing.is_some() && now < since + self.timeout {
                continue;
            }
            (node.is_writing, under_way) = (true, under_way + 1);
            writes.push(Untaint {
                node: name.clone(),
                uid: node.uid.clone(),
                indexes: node.indexes.clone(),
                missing,
            });
        }
        writes
    }

    /// What became of a write; the reason why it is forbidden, if that was not known.
    pub fn written(&mut self, untaint: &Untaint, answer: &Answer, now: Duration) -> Option<String> {
        let wait = match answer {
            Answer::Failed { retry_after } => retry_after.unwrap_or(LOOK_AGAIN),
            Answer::Denied(_) => ASK_AGAIN,
            Answer::Pod(_) | Answer::Done | Answer::Conflict | Answer::Gone => LOOK_AGAIN,
        };
        if let Some(node) = self
            .nodes
            .get_mut(&untaint.node)
            .filter(|node| node.uid == untaint.uid)
        {
            (node.is_writing, node.not_before) = (false, now.saturating_add(wait));
        }
        match answer {
            Answer::Denied(why) => {
                (self.is_allowed, self.not_before) = (false, now + ASK_AGAIN);
                (!std::mem::replace(&mut self.is_told, true)).then(|| why.clone())
            }
            Answer::Pod(_) | Answer::Done => {
                (self.is_allowed, self.is_told) = (true, false);
                None
            }
            Answer::Conflict | Answer::Gone | Answer::Failed { .. } => None,
        }
    }

    /// When to look again if nothing happens.
    #[must_use]
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        let waiting = self
            .nodes
            .values()
            .filter(|node| !node.is_writing)
            .filter_map(|node| Some((node, node.since?)));
        let times = waiting
            .flat_map(|(node, since)| [since + self.timeout, node.not_before, self.not_before]);
        times.filter(|due| *due > now).min()
    }
}
