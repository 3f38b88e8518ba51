//! The order of requests for the same pod: they are carried out one after another.

use super::RestartRequest;
use crate::objects::recreate_request::RequestPhase;

/// The place of a request in the queue of its pod: a request that has begun comes first, then the
/// oldest, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// True until the phase is `Recreating`.
    pub waits: bool,
    created_at: Option<jiff::Timestamp>,
    /// The name of the request.
    pub name: Box<str>,
}

impl Place {
    /// Returns the place of a request; `None` if it blocks no other: it is completed, ends
    /// sidecars, or is being deleted and not held back by the finalizer.
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
