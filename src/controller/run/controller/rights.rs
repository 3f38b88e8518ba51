//! The rights that the writes of the loop need.

use swaplet_core::report::decision::Action;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::reconcile::Action as RestartAction;

use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::writer::is_missing_right;

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
pub(super) fn note_right<T>(health: &Health, right: Right, outcome: &Result<T, WriteError>) {
    match outcome {
        Ok(_) => health.has(right),
        Err(WriteError::Denied(words)) if is_missing_right(words) => {
            health.lacks(right, words);
        }
        Err(_) => {}
    }
}
