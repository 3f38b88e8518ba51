//! The wait after failures.

use std::time::Duration;

/// A wait that doubles with each failure, from `first` up to `longest`.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Backoff {
    /// Returns a backoff between these times in seconds.
    pub const fn seconds(first: u64, longest: u64) -> Self {
        Self {
            first: Duration::from_secs(first),
            longest: Duration::from_secs(longest),
        }
    }

    /// Returns the wait after one more failure, where there were `failures` before it.
    pub fn after(self, failures: u32) -> Duration {
        // Bounded, so that the factor does not overflow; the longest wait is reached long before.
        self.first
            .saturating_mul(1 << failures.min(16))
            .min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_longest_however_many_failures_there_were() {
        let backoff = Backoff::seconds(1, 5);
        let waits = [0, 1, 2, 3, u32::MAX].map(|failures| backoff.after(failures).as_secs());
        assert_eq!(waits, [1, 2, 4, 5, 5]);
    }
}
