//! The clock of the API server. Deadlines of requests count from times that it has written, and the
//! clock of this machine may be minutes off.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

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
    #[must_use]
    pub fn now(&self) -> Option<Timestamp> {
        let (date, at) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(date.checked_add(at.elapsed()).unwrap_or(Timestamp::MAX))
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
