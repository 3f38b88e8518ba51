//! The one place that reads a clock. Everything else gets the time as an argument.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use swaplet_core::objects::moment::Moment;
use tokio::time::Instant;

/// The longest pause of a loop that has nothing to wait for.
pub(crate) const IDLE: Duration = Duration::from_secs(3600);

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
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Returns the point in time that is now.
    pub fn now(&self) -> Moment {
        Moment::after_start(self.start.elapsed())
    }

    /// Returns the instant at which [`now`](Self::now) returns this time.
    pub fn instant(&self, at: Moment) -> Instant {
        self.start + at.since_start()
    }
}

/// Returns the time of day, for timestamps that are only written: no decision compares clocks of
/// two machines.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the other places ask"
)]
pub fn time_of_day() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Returns a time as Kubernetes writes it, in whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
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
    pub fn now(&self) -> jiff::Timestamp {
        (self.0)()
    }
}

// The clock of the API server. Deadlines of requests count from times that it has written, and the
// clock of this machine may be minutes off.

/// The largest lag that comes from rounding and transit: dates of answers are whole seconds. Only a
/// date that is further behind shows another clock.
const ROUNDING: Duration = Duration::from_secs(5);

/// The time of day by the clock of the API server; clones share it. It is never ahead of the
/// server, because a date is from before its answer came.
#[derive(Clone, Debug, Default)]
pub struct ServerClock(Arc<Mutex<Option<(Timestamp, Instant)>>>);

impl ServerClock {
    /// Records the date of an answer that has just come.
    pub fn shows(&self, date: Timestamp) {
        let known = self.now();
        // So the time does not go back with each answer.
        let is_rounded = known.is_some_and(|known| {
            Duration::try_from(known.duration_since(date)).is_ok_and(|behind| behind <= ROUNDING)
        });
        if !is_rounded {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((date, Instant::now()));
        }
    }

    /// Returns the time of day; `None` until the API server has sent a date.
    pub fn now(&self) -> Option<Timestamp> {
        let (date, at) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(date.checked_add(at.elapsed()).unwrap_or(Timestamp::MAX))
    }

    /// Returns the time of day at this moment; until the API server has sent a date, by the clock of
    /// this machine, which showed `started_at` when the moments began.
    pub(crate) fn or_ours(&self, started_at: Timestamp, moment: Moment) -> Timestamp {
        let ours = || started_at.checked_add(moment.since_start());
        self.now()
            .unwrap_or_else(|| ours().unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clock_it_goes_on_between_answers_and_not_back_with_them() {
        let clock = ServerClock::default();
        assert_eq!(clock.now(), None);
        let date = |text: &str| text.parse::<Timestamp>().unwrap();
        clock.shows(date("2026-01-01T00:00:00Z"));
        advance(Duration::from_millis(29_900)).await;
        assert_eq!(clock.now(), Some(date("2026-01-01T00:00:29.9Z")));
        clock.shows(date("2026-01-01T00:00:29Z"));
        assert_eq!(clock.now(), Some(date("2026-01-01T00:00:29.9Z")));
        clock.shows(date("2026-01-01T00:00:31Z"));
        assert_eq!(
            clock.now(),
            Some(date("2026-01-01T00:00:31Z")),
            "an answer had taken its time"
        );
        clock.shows(date("2025-12-31T23:00:00Z"));
        assert_eq!(
            clock.now(),
            Some(date("2025-12-31T23:00:00Z")),
            "the server has got another time"
        );
    }
}
