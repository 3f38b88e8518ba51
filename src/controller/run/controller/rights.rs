//! The rights that the writes of the loop need.

use swaplet_core::report::decision::Action;
use swaplet_core::restart::reconcile::Action as RestartAction;

use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::writer::{Outcome, is_missing_right};

/// Returns the right that the write needs.
pub(super) const fn right_of(action: &Action) -> Right {
    match action {
        Action::Swap(_) => Right::ChangeImages,
        Action::Finish(_) => Right::WritePhases,
        Action::Recreate(_) => Right::CreateRecreateRequests,
    }
}

/// Like `right_of`, for a write for a request.
pub(super) const fn right_of_restart(action: &RestartAction) -> Right {
    match action {
        RestartAction::Swap(..) => Right::ChangeImages,
        RestartAction::SetReadiness(_) => Right::SetUnready,
        RestartAction::Accept(_)
        | RestartAction::WriteDown(_)
        | RestartAction::Finalize(_)
        | RestartAction::NoteUnready
        | RestartAction::Release => Right::AcceptRequests,
        RestartAction::Report(_) => Right::ReportRequests,
        RestartAction::Delete => Right::DeleteRequests,
    }
}

/// Records whether the right is missing; the Event `WriteDenied` reports it on each object.
pub(super) fn note_right(health: &Health, right: Right, outcome: &Outcome) {
    match outcome {
        Outcome::Denied(words) if is_missing_right(words) => {
            health.lacks(right, words);
        }
        Outcome::Applied(_) => health.has(right),
        Outcome::Conflict | Outcome::Gone | Outcome::Denied(_) | Outcome::Failed { .. } => {}
    }
}
