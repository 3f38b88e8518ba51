//! The one clock of the testbed.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock that follows the runtime's monotonic clock, so that it stands still and jumps with
/// `tokio::time::pause`.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Timestamp,
    start: Instant,
}

impl Clock {
    /// Returns a clock that shows `base` now and moves with the runtime's time.
    pub fn starting_at(base: Timestamp) -> Self {
        Self {
            base,
            start: Instant::now(),
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        let elapsed = self.start.elapsed();
        self.base.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Returns the time since `then`; zero if `then` is in the future.
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(then)).unwrap_or_default()
    }
}

impl Default for Clock {
    /// Returns a clock that starts on a fixed day, so that recorded answers are always the same.
    fn default() -> Self {
        // 2026-01-01T00:00:00Z
        Self::starting_at(Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH))
    }
}
