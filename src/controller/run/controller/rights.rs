//! What each right is for.

use swaplet_core::report::decision::Action;
use swaplet_core::restart::reconcile::Action as RestartAction;

use crate::frame::serve::Health;
use crate::frame::writer::{Outcome, is_missing_right};

/// What the right to change images of pods is for.
const CHANGE_IMAGES: &str = "images of pods cannot be changed";
/// What the right to watch nodes is for.
pub(super) const FOLLOW_NODES: &str = "changes of nodes are seen late";
/// What the right to watch requests is for.
pub(super) const SEE_REQUESTS: &str = "requests to restart containers cannot be seen";

/// What cannot be done without the right to do this.
pub(super) const fn right_of(action: &Action) -> &'static str {
    match action {
        Action::Swap(_) => CHANGE_IMAGES,
        Action::Finish(_) => "phases of pods cannot be written",
        Action::Recreate(_) => "OpenKruise's daemon cannot be asked to end sidecars",
    }
}

/// The same of a write for a request.
pub(super) const fn right_of_restart(action: &RestartAction) -> &'static str {
    match action {
        RestartAction::Swap(..) => CHANGE_IMAGES,
        RestartAction::SetReadiness(_) => {
            "pods cannot be kept not ready before their containers are restarted"
        }
        RestartAction::Accept(_)
        | RestartAction::WriteDown(_)
        | RestartAction::Finalize(_)
        | RestartAction::NoteUnready
        | RestartAction::Release => "requests to restart containers cannot be taken up",
        RestartAction::Report(_) => {
            "requests to restart containers cannot be told how far they are"
        }
        RestartAction::Delete => {
            "requests to restart containers cannot be deleted when their time is over"
        }
    }
}

/// The Event `WriteDenied` tells of it as well, on each object.
pub(super) fn note_right(health: &Health, what: &'static str, outcome: &Outcome) {
    match outcome {
        Outcome::Denied(words) if is_missing_right(words) => {
            health.lacks(what, words);
        }
        Outcome::Applied(_) => health.has(what),
        Outcome::Conflict | Outcome::Gone | Outcome::Denied(_) | Outcome::Failed { .. } => {}
    }
}
