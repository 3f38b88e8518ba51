//! The text of answers, with the numbers behind them.

use std::fmt;

use super::Headroom;

/// The numbers behind a refusal or a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// `spec.backoffLimit` of the Job.
    pub limit: u32,
    /// Restarts that count or will count: of all pods of the Job, or of this pod alone if its own
    /// are too many.
    pub restarts: i64,
    /// The part of these that comes from swaps in progress: granted, written, or done in a pod that
    /// has not ended.
    pub under_way: i64,
    /// The restarts that were requested: one for each swap, more where an exit image may not start.
    pub swaps: i64,
    /// The restarts that are left to main containers of other pods.
    pub spared: i64,
}

impl Shortage {
    /// Returns the smallest `spec.backoffLimit` with which the swaps would fit.
    #[must_use]
    pub const fn limit_needed(&self) -> i64 {
        self.restarts + self.swaps + self.spared + 1
    }

    /// Returns how sure it is that the swaps fail the Job: with those alone, or with the restart of
    /// a main container.
    pub(crate) const fn may(&self) -> &'static str {
        if self.spared > 0 { "could" } else { "would" }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            restarts,
            under_way,
            swaps,
            spared,
        } = self;
        let of_swaps = if *under_way > 0 {
            format!(" ({under_way} by swaps under way)")
        } else {
            String::new()
        };
        let left = if *spared > 0 {
            format!(", {spared} is left to main containers that run")
        } else {
            String::new()
        };
        let count = if *restarts == 1 {
            "restart counts"
        } else {
            "restarts count"
        };
        // With the limit 0 the first restart fails the Job, as with the limit 1.
        let fails_at = (*limit).max(1);
        write!(
            formatter,
            "{restarts} {count}{of_swaps}, {swaps} more would be added{left}, and it fails at {fails_at} (backoffLimit {limit})"
        )
    }
}

impl fmt::Display for Headroom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => formatter.write_str("no Job counts restarts of this pod"),
            Self::Fits => formatter.write_str("the swaps fit into what the Job allows"),
            Self::Wait(shortage) => write!(
                formatter,
                "other pods of the Job must end first: {shortage}"
            ),
            Self::NeverFits(shortage) => {
                let may = shortage.may();
                write!(formatter, "the swaps {may} fail the Job: {shortage}")
            }
            Self::JobUnknown {
                trouble: Some(trouble),
            } => write!(formatter, "the Job cannot be read: {trouble}"),
            Self::JobUnknown { trouble: None } => {
                formatter.write_str("the Job has not been observed")
            }
            Self::TooEarly => formatter.write_str("pods or Jobs are being listed"),
        }
    }
}
