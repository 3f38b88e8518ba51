//! The one place that reads a clock. Everything else gets the time as an argument.

pub(crate) mod server;

use std::time::Duration;

use tokio::time::Instant;

/// The time of a decision, as it is passed to plain functions.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Time since the start of the process.
    pub since_start: Duration,
    /// The time of day.
    pub today: jiff::Timestamp,
}

/// Time since the start of the process; virtual where the runtime's time is paused.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Returns a clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the instant at which [`now`](Self::now) returns this time.
    #[must_use]
    pub fn instant(&self, at: Duration) -> Instant {
        self.start + at
    }
}

/// Returns the time of day, for timestamps that are only written: no decision compares clocks of
/// two machines.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the other places ask"
)]
pub fn time_of_day() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
