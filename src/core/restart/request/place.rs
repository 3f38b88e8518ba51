//! Requests for the same pod are carried out one after another.

use super::RestartRequest;
use crate::objects::recreate_request::RequestPhase;

/// The place of a request in the line of those for its pod: one that was begun comes first, then
/// the oldest, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Whether it has yet to begin.
    pub waits: bool,
    created_at: Option<jiff::Timestamp>,
    /// The name of the request.
    pub name: Box<str>,
}

impl Place {
    /// That of a request; none for one that holds nobody up: it is over, somebody else's, or being
    /// deleted, for its restart, if it was begun, needs no end; unless it is kept for one.
    #[must_use]
    pub fn of(request: &RestartRequest) -> Option<Self> {
        let is_gone = request.deleting && !request.is_held_back();
        let is_over = request.is_completed() || is_gone || request.ends_sidecars();
        let waits = request.phase != RequestPhase::Recreating;
        (!is_over).then(|| Self {
            waits,
            created_at: request.created_at,
            name: request.name.clone(),
        })
    }
}
