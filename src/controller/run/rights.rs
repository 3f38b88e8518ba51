//! What is said of rights that are missing: once in the log, and by `/readyz` for as long as they
//! are.

use swaplet_core::report::decision::Action;
use swaplet_core::restart::reconcile::Action as RestartAction;

use super::Controller;
use super::told::Line;
use crate::cluster::openkruise::News;
use crate::frame::serve::Health;
use crate::frame::watch::Event;
use crate::frame::writer::{Outcome, is_missing_right};
use crate::restart::driver::Happened;

/// What the right to change images of pods is for.
const CHANGE_IMAGES: &str = "images of pods cannot be changed";
/// What the right to watch nodes is for.
pub(super) const FOLLOW_NODES: &str = "changes of nodes are seen late";
/// What the right to watch requests is for.
const SEE_REQUESTS: &str = "requests to restart containers cannot be seen";

/// What cannot be done without the right to do this.
pub(super) const fn right_of(action: &Action) -> &'static str {
    match action {
        Action::Swap(_) => CHANGE_IMAGES,
        Action::Finish(_) => "phases of pods cannot be written",
        Action::Recreate(_) => "OpenKruise's daemon cannot be asked to end sidecars",
    }
}

const fn right_of_restart(action: &RestartAction) -> &'static str {
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

impl Controller {
    /// A line in the log; of a missing right one for each thing that it is needed for, and of an API
    /// server that cannot be reached one for all, not with each try.
    pub(super) fn tell_trouble(&mut self, error: &str, what: &str) {
        if let Some(Line { error, what }) = self.told.news(error, what) {
            tracing::warn!(error, "{what}");
        }
    }

    /// Said once, not with each try.
    pub(super) fn nodes_forbidden(&mut self, error: &str) {
        if self.index.nodes.hide() {
            self.health.nodes_hidden(error);
            tracing::warn!(
                error,
                "cannot look at nodes: each counts as Unknown unless a row of --node-classes goes by its name alone"
            );
            self.index.look_soon(|_| true);
        }
    }

    pub(super) fn note_rights_beside_openkruise(&mut self, news: &News) {
        match news {
            News::Trouble(trouble) => {
                self.tell_trouble(trouble, "cannot look at OpenKruise; trying again")
            }
            News::Lacks(what, words) => {
                self.health.lacks(what, words);
                self.tell_trouble(words, what);
            }
            News::Has(what) => self.health.has(what),
            _ => {}
        }
    }

    pub(super) fn note_rights_of_restarts(&mut self, happened: &Happened) {
        match happened {
            Happened::Request(Event::Trouble(error) | Event::Forbidden(error)) => {
                if is_missing_right(error) {
                    self.health.lacks(SEE_REQUESTS, error);
                }
                self.tell_trouble(
                    error,
                    "cannot watch ContainerRecreateRequests, so nothing is restarted; trying again",
                );
            }
            Happened::Request(Event::Hidden(error)) => {
                self.health.hidden("requests", error);
                self.tell_trouble(
                    error,
                    "cannot watch ContainerRecreateRequests of a namespace, so nothing is restarted there; trying again",
                );
            }
            Happened::Request(Event::ListStart) => self.health.nothing_hidden("requests"),
            Happened::Request(Event::Current(_)) => self.health.has(SEE_REQUESTS),
            Happened::Written(written) => match &written.1 {
                Ok(_) => self.health.has(right_of_restart(&written.0.action)),
                Err(outcome) => {
                    note_right(&self.health, right_of_restart(&written.0.action), outcome)
                }
            },
            Happened::Pod(
                _,
                Event::Trouble(error) | Event::Forbidden(error) | Event::Hidden(error),
            ) => {
                self.tell_trouble(
                    error,
                    "cannot watch pods whose containers are to be restarted; trying again",
                );
            }
            Happened::Parked(
                Event::Trouble(error) | Event::Forbidden(error) | Event::Hidden(error),
            ) => {
                self.tell_trouble(
                    error,
                    "cannot watch pods in which containers are parked; trying again",
                );
            }
            Happened::Request(_) | Happened::Pod(..) | Happened::Parked(_) => {}
        }
    }
}
