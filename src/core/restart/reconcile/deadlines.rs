//! How long a request has, by its own times and the time of day.

use std::time::Duration;

use super::Around;
use crate::restart::request::RestartRequest;

pub(super) fn deadline(request: &RestartRequest, around: &Around<'_>) -> Option<Duration> {
    Some(in_time(
        request.created_at?,
        request.active_deadline_seconds?,
        around,
    ))
}

pub(super) fn is_late(request: &RestartRequest, around: &Around<'_>) -> bool {
    deadline(request, around).is_some_and(|at| at <= around.now)
}

/// So many seconds after a time of day, as time since the start of the process. Both times of day
/// are by the API server's clock.
pub(super) fn in_time(then: jiff::Timestamp, seconds: u32, around: &Around<'_>) -> Duration {
    let age = age(then, around);
    around
        .now
        .saturating_add(Duration::from_secs(seconds.into()))
        .saturating_sub(age)
}

/// How long ago a time of day was; nothing for one that is yet to come.
pub(super) fn age(then: jiff::Timestamp, around: &Around<'_>) -> Duration {
    Duration::try_from(around.today.duration_since(then)).unwrap_or_default()
}
