//! The startup taint: a node that joins with it takes no pods until its images are there. Once the
//! node has been Ready, it is removed when all jobs of type `Never` that count have their images
//! there, and in any case after a timeout.
//!
//! The timeout counts from when this process first observed the node Ready with the taint, so no
//! two clocks are compared. Another run of the process starts it again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::objects::moment::Moment;
use crate::objects::node::Node;
use crate::objects::values::backoff::Backoff;
use crate::report::write_error::WriteError;

/// The key of the taint, whatever its value and effect.
pub const STARTUP_TAINT: &str = "swaplet.io/warming";

/// The wait for the watch to show the effect of a write.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The back-off after writes that failed.
const RETRY: Backoff = Backoff {
    first: LOOK_AGAIN,
    longest: ASK_AGAIN,
};
/// The wait after a forbidden write: for all nodes if the right is missing, for the node if that one
/// may not be changed.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// A removal of the taint from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untaint {
    /// The name of the node.
    pub node: Box<str>,
    /// The uid of the node.
    pub uid: Box<str>,
    /// The indexes of the taint in `spec.taints`, one for each effect, ascending.
    pub indexes: Vec<usize>,
    /// The image that the node still lacks; set if the taint is removed because of the timeout.
    pub missing: Option<String>,
}

/// The nodes that have the taint.
#[derive(Debug, Default)]
pub struct StartupTaints {
    timeout: Duration,
    nodes: BTreeMap<Box<str>, Tainted>,
    /// True while writes are known to be allowed: one was applied, and none was forbidden since.
    /// Until then one node at a time is written.
    is_allowed: bool,
    /// Set once the missing right was reported.
    is_told: bool,
    /// The earliest time of the next write.
    not_before: Moment,
}

#[derive(Debug, Default)]
struct Tainted {
    uid: Box<str>,
    indexes: Vec<usize>,
    /// When it was first observed Ready; kept while the node is not Ready again.
    since: Option<Moment>,
    is_writing: bool,
    /// Set once it was reported that this node cannot be changed.
    is_told: bool,
    /// How many writes have failed, one after the other.
    failures: u32,
    not_before: Moment,
}

impl StartupTaints {
    /// Creates an empty set; a node waits for its images for at most `timeout`.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            ..Self::default()
        }
    }

    /// Records the state of a node, and removes it from the set if it has no such taint.
    pub fn observe(&mut self, node: &Node, now: Moment) {
        let indexes: Vec<_> = (0..node.taints.len())
            .filter(|index| &*node.taints[*index].key == STARTUP_TAINT)
            .collect();
        if indexes.is_empty() {
            return self.leave(&node.name);
        }
        let new = || Tainted {
            uid: node.uid.clone(),
            ..Tainted::default()
        };
        let tainted = self.nodes.entry(node.name.clone()).or_insert_with(new);
        if tainted.uid != node.uid {
            *tainted = new();
        }
        tainted.indexes = indexes;
        tainted.since = tainted.since.or(node.ready.then_some(now));
    }

    /// Returns true if no node has the taint.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns true if the node has the taint.
    pub fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Removes a node that is gone.
    pub fn leave(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Returns the removals to write now. `missing` returns what a node still lacks, and `None` if
    /// its images are there.
    pub fn step(&mut self, now: Moment, missing: impl Fn(&str) -> Option<String>) -> Vec<Untaint> {
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

    /// Records the result of a write. `is_missing_right` says of a denial that it concerns all
    /// nodes; a policy or a webhook denies one of them. Returns why it was not taken, unless
    /// that was returned before.
    pub fn written(
        &mut self,
        untaint: &Untaint,
        answer: &Result<(), WriteError>,
        is_missing_right: bool,
        now: Moment,
    ) -> Option<String> {
        let node = self
            .nodes
            .get_mut(&untaint.node)
            .filter(|node| node.uid == untaint.uid);
        let mut was_told = true;
        if let Some(node) = node {
            let wait = match answer {
                Err(WriteError::Failed { retry_after, .. }) => {
                    let wait = RETRY.after(node.failures);
                    node.failures += 1;
                    retry_after.unwrap_or_default().max(wait)
                }
                Err(WriteError::Denied(_)) => ASK_AGAIN,
                Ok(()) | Err(WriteError::Conflict | WriteError::Gone) => LOOK_AGAIN,
            };
            (node.is_writing, node.not_before) = (false, now + wait);
            let is_refused = matches!(
                answer,
                Err(WriteError::Denied(_) | WriteError::Failed { .. })
            );
            if is_refused && !is_missing_right {
                was_told = std::mem::replace(&mut node.is_told, true);
            }
        }
        match answer {
            Err(WriteError::Denied(why)) if is_missing_right => {
                (self.is_allowed, self.not_before) = (false, now + ASK_AGAIN);
                (!std::mem::replace(&mut self.is_told, true)).then(|| why.clone())
            }
            Ok(()) => {
                (self.is_allowed, self.is_told) = (true, false);
                None
            }
            Err(WriteError::Denied(why) | WriteError::Failed { error: why, .. }) => {
                (!was_told).then(|| why.clone())
            }
            Err(WriteError::Conflict | WriteError::Gone) => None,
        }
    }

    /// Returns the next time at which a step may have something to do; `None` without such a time.
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
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
