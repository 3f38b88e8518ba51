//! Why there is no room, in words with numbers.

use std::fmt;

/// The numbers behind an answer that is not yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// `spec.backoffLimit` of the Job.
    pub limit: u32,
    /// Restarts that count or will count: of all pods of the Job, or of this pod alone where these are too many.
    pub restarts: i64,
    /// The swaps of other pods among them that are granted, written, or done in a pod that has not ended.
    pub under_way: i64,
    /// The swaps that were asked for, each of which adds one restart.
    pub swaps: i64,
}

impl Shortage {
    /// The smallest `spec.backoffLimit` with which the swaps would fit: a Job fails when its restarts reach the limit, and where
    /// that is 0 with the first one.
    #[must_use]
    pub const fn limit_needed(&self) -> i64 {
        self.restarts + self.swaps + 1
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, restarts, under_way, swaps } = self;
        write!(formatter, "{}, {} of them by swaps under way, and ", count(*restarts, "restart"), under_way)?;
        write!(formatter, "{} would add as many; with {} the Job fails (backoffLimit {limit})", count(*swaps, "more swap"), (*limit).max(1))
    }
}

fn count(number: i64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}
