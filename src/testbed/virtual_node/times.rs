//! Times: addition, ticks of a clock, and their format.

use std::time::Duration;

use jiff::Timestamp;

/// Adds a duration to a time, at most to the end of time.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Returns the first tick after a time, of a clock with this period.
pub fn next_tick(at: Timestamp, period: Duration) -> Timestamp {
    let period = i128::try_from(period.as_nanos().max(1)).unwrap_or(i128::MAX);
    let nanos = at.as_nanosecond();
    Timestamp::from_nanosecond(nanos - nanos.rem_euclid(period) + period).unwrap_or(Timestamp::MAX)
}

/// Formats a time like Kubernetes: in whole seconds.
pub fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}
