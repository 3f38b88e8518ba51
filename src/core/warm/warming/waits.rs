//! What the nodes of a job wait for that is not the job's own doing.

use std::time::Duration;

use super::node::NodeProgress;

/// How many nodes wait for what, each with the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Nodes that could begin, but for a pod of somebody else there.
    pub elsewhere: usize,
    /// Nodes that are kept back for a while, as pods of others wait for their images there.
    pub kept: usize,
    /// The first of these.
    pub first_kept: Option<Box<str>>,
    /// Nodes that have pulled for long.
    pub slow: usize,
    /// The first of these, with the image.
    pub first_slow: Option<(Box<str>, Box<str>)>,
    /// Nodes with a pod that was deleted and does not go away.
    pub stuck: usize,
    /// The first of these.
    pub first_stuck: Option<Box<str>>,
}

impl Waits {
    /// Nothing is waited for.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            elsewhere: 0,
            kept: 0,
            first_kept: None,
            slow: 0,
            first_slow: None,
            stuck: 0,
            first_stuck: None,
        }
    }

    /// What came of a look at the node.
    pub(crate) fn note_kept(&mut self, name: &str, node: &NodeProgress, now: Duration) {
        if node.kept.is_long(now) {
            self.kept += 1;
            self.first_kept.get_or_insert_with(|| name.into());
        }
    }

    pub(crate) fn note(&mut self, name: &str, node: &NodeProgress, now: Duration) {
        if let Some(image) = node.slow(now) {
            self.slow += 1;
            self.first_slow
                .get_or_insert_with(|| (name.into(), image.into()));
        }
        if node.is_stuck(now) {
            self.stuck += 1;
            self.first_stuck.get_or_insert_with(|| name.into());
        }
    }
}
