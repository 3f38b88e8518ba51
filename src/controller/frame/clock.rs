//! The one place that reads a clock. Everything else gets the time as an argument.

pub(crate) mod server;

use std::fmt;
use std::sync::Arc;

use swaplet_core::objects::moment::Moment;
use tokio::time::Instant;

/// The time of a decision, as it is passed to plain functions.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The time by the process's own clock.
    pub moment: Moment,
    /// The time of day.
    pub today: jiff::Timestamp,
}

/// The process's own clock; virtual where the runtime's time is paused.
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

    /// Returns the point in time that is now.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment::after_start(self.start.elapsed())
    }

    /// Returns the instant at which [`now`](Self::now) returns this time.
    #[must_use]
    pub fn instant(&self, at: Moment) -> Instant {
        self.start + at.since_start()
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

/// A source of the time of day.
#[derive(Clone)]
pub struct TimeOfDay(pub Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>);

impl fmt::Debug for TimeOfDay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TimeOfDay")
    }
}

/// Reads the clock of this machine.
impl Default for TimeOfDay {
    fn default() -> Self {
        Self(Arc::new(time_of_day))
    }
}

impl TimeOfDay {
    /// Returns the time of day.
    #[must_use]
    pub fn now(&self) -> jiff::Timestamp {
        (self.0)()
    }
}
