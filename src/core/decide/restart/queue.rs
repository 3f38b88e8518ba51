//! Requests for the same pod are carried out one after another.

use crate::objects::recreate_request::RequestPhase;
use crate::objects::restart_request::RestartRequest;

/// Whether a request comes before all of these other requests for the same pod: one that was begun, then the oldest, then by name.
pub fn is_first<'a>(request: &RestartRequest, mut others: impl Iterator<Item = &'a RestartRequest>) -> bool {
    others.all(|other| other.uid == request.uid || is_over(other) || place(request) < place(other))
}

/// One that is being deleted holds nobody up: its restart, if it was begun, needs no end.
fn is_over(request: &RestartRequest) -> bool {
    request.is_completed() || request.deleting || request.ends_sidecars()
}

fn place(request: &RestartRequest) -> (bool, Option<jiff::Timestamp>, &str) {
    (request.phase != RequestPhase::Recreating, request.created_at, &request.name)
}
