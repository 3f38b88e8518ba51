//! Points in time: later ones, ticks of a clock, and how they are written.

use std::time::Duration;

use jiff::Timestamp;

/// A time and a while. The end of time is far enough for tests.
#[must_use]
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The first tick of a clock with this period after a time.
pub fn next_tick(at: Timestamp, period: Duration) -> Timestamp {
    let period = i128::try_from(period.as_nanos().max(1)).unwrap_or(i128::MAX);
    let nanos = at.as_nanosecond();
    Timestamp::from_nanosecond(nanos - nanos.rem_euclid(period) + period).unwrap_or(Timestamp::MAX)
}

/// A time as Kubernetes writes it: whole seconds.
pub fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}
