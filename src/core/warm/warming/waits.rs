//! What the nodes of a job wait for that the job itself does not cause.

use super::node::NodeProgress;
use crate::objects::moment::Moment;

/// The number of nodes that wait for each cause, with the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Nodes that could begin if others had no pod there.
    pub elsewhere: usize,
    /// Nodes on which pulls are held back for a while because pods of others wait there.
    pub kept: usize,
    /// The first of the nodes in `kept`.
    pub first_kept: Option<Box<str>>,
    /// Nodes that have been pulling for long.
    pub slow: usize,
    /// The first of the nodes in `slow`, with the image.
    pub first_slow: Option<(Box<str>, Box<str>)>,
    /// Nodes with a deleted pod that does not go away.
    pub stuck: usize,
    /// The first of the nodes in `stuck`.
    pub first_stuck: Option<Box<str>>,
    /// Nodes for which the last write was not taken.
    pub untaken: usize,
    /// The first of the nodes in `untaken`, with the reason.
    pub first_untaken: Option<(Box<str>, Box<str>)>,
}

impl Waits {
    /// Creates counts of zero.
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
            untaken: 0,
            first_untaken: None,
        }
    }

    /// Counts the node if its pulls have been held back for a while.
    pub(crate) fn note_kept(&mut self, name: &str, node: &NodeProgress, now: Moment) {
        if node.kept.is_long(now) {
            self.kept += 1;
            self.first_kept.get_or_insert_with(|| name.into());
        }
    }

    pub(crate) fn note(&mut self, name: &str, node: &NodeProgress, now: Moment) {
        if let Some(image) = node.slow(now) {
            self.slow += 1;
            self.first_slow
                .get_or_insert_with(|| (name.into(), image.into()));
        }
        if node.is_stuck(now) {
            self.stuck += 1;
            self.first_stuck.get_or_insert_with(|| name.into());
        }
        if let Some(untaken) = &node.untaken {
            self.untaken += 1;
            self.first_untaken
                .get_or_insert_with(|| (name.into(), untaken.why.clone()));
        }
    }
}
