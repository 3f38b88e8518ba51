//! The rights of the loop, each named by what cannot be done without it.

use swaplet_core::report::decision::Action;
use swaplet_core::restart::reconcile::Action as RestartAction;

use crate::frame::serve::Health;
use crate::frame::writer::{Outcome, is_missing_right};

/// The remark of `/readyz` while images of pods cannot be changed.
const CHANGE_IMAGES: &str = "images of pods cannot be changed";
/// The remark while nodes cannot be watched.
pub(super) const FOLLOW_NODES: &str = "changes of nodes are observed late";
/// The remark while requests cannot be watched.
pub(super) const SEE_REQUESTS: &str = "restart requests cannot be watched";

/// Returns what cannot be done while the right to `action` is missing.
pub(super) const fn right_of(action: &Action) -> &'static str {
    match action {
        Action::Swap(_) => CHANGE_IMAGES,
        Action::Finish(_) => "phases of pods cannot be written",
        Action::Recreate(_) => {
            "ContainerRecreateRequests for OpenKruise's daemon cannot be created"
        }
    }
}

/// Like `right_of`, for a write for a request.
pub(super) const fn right_of_restart(action: &RestartAction) -> &'static str {
    match action {
        RestartAction::Swap(..) => CHANGE_IMAGES,
        RestartAction::SetReadiness(_) => {
            "pods cannot be made not ready before their containers are restarted"
        }
        RestartAction::Accept(_)
        | RestartAction::WriteDown(_)
        | RestartAction::Finalize(_)
        | RestartAction::NoteUnready
        | RestartAction::Release => "restart requests cannot be accepted",
        RestartAction::Report(_) => "the progress of restart requests cannot be written",
        RestartAction::Delete => "restart requests cannot be deleted when they expire",
    }
}

/// Records whether the right is missing; the Event `WriteDenied` reports it on each object.
pub(super) fn note_right(health: &Health, what: &'static str, outcome: &Outcome) {
    match outcome {
        Outcome::Denied(words) if is_missing_right(words) => {
            health.lacks(what, words);
        }
        Outcome::Applied(_) => health.has(what),
        Outcome::Conflict | Outcome::Gone | Outcome::Denied(_) | Outcome::Failed { .. } => {}
    }
}
