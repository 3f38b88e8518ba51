//! Pulls that are held back because pods of others wait for their images on the node.

use std::time::Duration;

use super::NodeProgress;
use crate::objects::moment::Moment;
use crate::warm::warming::action::Elsewhere;

/// The most time for which one node is held back, in all.
const MOST: Duration = Duration::from_secs(600);
/// The time after which a wait is reported; a shorter one is not worth it.
const TOLD: Duration = Duration::from_secs(10);

/// The time for which a node was held back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    spent: Duration,
    /// When it was held back in the step before this one, if it was.
    before: Option<Moment>,
    /// When it was held back in this step, if it was.
    last: Option<Moment>,
    /// Since when it is held back without a break.
    since: Option<Moment>,
}

impl Kept {
    /// Begins a step. Only the time between two steps that both held it back counts.
    pub const fn begin(&mut self) {
        self.before = self.last.take();
    }

    /// Returns true if a pull that could begin now is held back for others, and records that.
    pub fn keeps(&mut self, others_wait: bool, now: Moment) -> bool {
        let before = self.before.take();
        self.spent += before.map_or(Duration::ZERO, |before| now.since(before));
        let keeps = self.would_keep(others_wait);
        self.last = keeps.then_some(now);
        self.since = self.last.and(before.and(self.since).or(self.last));
        keeps
    }

    /// Returns the same without recording it.
    fn would_keep(&self, others_wait: bool) -> bool {
        others_wait && self.spent < MOST
    }

    /// Returns true if it was held back in the last step.
    pub const fn is_on(&self) -> bool {
        self.last.is_some()
    }

    /// Returns true if the next step needs this state.
    pub const fn is_under_way(&self) -> bool {
        self.last.is_some() || self.before.is_some()
    }

    /// Returns true if it has been held back long enough to be reported.
    pub fn is_long(&self, now: Moment) -> bool {
        self.is_on() && self.since.is_some_and(|since| now >= since + TOLD)
    }
}

impl NodeProgress {
    /// Returns true if nothing that others do prevents it from beginning.
    pub fn is_free(&self, elsewhere: Elsewhere) -> bool {
        !elsewhere.taken && !self.kept.would_keep(elsewhere.others_pull)
    }
}
