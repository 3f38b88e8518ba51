//! Pulls that are kept back, because pods of others wait for their images on the node.

use std::time::Duration;

use super::NodeProgress;
use crate::warm::warming::action::Elsewhere;

/// How long one node is kept back for others, in all.
const MOST: Duration = Duration::from_secs(600);
/// What is over sooner is not worth a word.
const TOLD: Duration = Duration::from_secs(10);

/// How long the node was kept back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    spent: Duration,
    /// When it was kept back in the look before this one.
    before: Option<Duration>,
    /// When it was in this one.
    last: Option<Duration>,
    /// Since when it is.
    since: Option<Duration>,
}

impl Kept {
    /// A look begins. Only time between two that have kept it back counts.
    pub const fn look(&mut self) {
        self.before = self.last.take();
    }

    /// Whether a pull that could begin now is kept back for others.
    pub fn keeps(&mut self, others_wait: bool, now: Duration) -> bool {
        let before = self.before.take();
        self.spent += before.map_or(Duration::ZERO, |before| now.saturating_sub(before));
        let keeps = self.would_keep(others_wait);
        self.last = keeps.then_some(now);
        self.since = self.last.and(before.and(self.since).or(self.last));
        keeps
    }

    /// The same, without noting it.
    fn would_keep(&self, others_wait: bool) -> bool {
        others_wait && self.spent < MOST
    }

    /// Whether it was kept back in the last look.
    pub const fn is_on(&self) -> bool {
        self.last.is_some()
    }

    /// Whether the next look has to know of it.
    pub const fn is_under_way(&self) -> bool {
        self.last.is_some() || self.before.is_some()
    }

    /// Whether it has been kept back for a while.
    pub fn is_long(&self, now: Duration) -> bool {
        self.is_on() && self.since.is_some_and(|since| now >= since + TOLD)
    }
}

impl NodeProgress {
    /// Whether it could begin, as far as that depends on others.
    pub fn is_free(&self, elsewhere: Elsewhere) -> bool {
        !elsewhere.taken && !self.kept.would_keep(elsewhere.others_pull)
    }
}
