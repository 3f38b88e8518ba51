//! Reports of rights that are missing, from tasks beside the loop of pods: once in the log, and by
//! `/readyz` for as long as they are missing.

use super::Health;
use crate::frame::watch::Event;
use crate::frame::writer::{Outcome, is_missing_right};

impl Health {
    /// Records an event of a watch that `what` depends on, in one namespace (empty: in all). A
    /// trouble is logged; one that lasts, once.
    pub fn note_watch<T>(&self, what: &'static str, namespace: &str, event: &Event<T>) {
        match event {
            Event::ListStart => self.nothing_hidden(what),
            Event::Current(_) => self.has_in(what, namespace),
            Event::Hidden(error) => {
                self.hidden(what, error);
                tracing::warn!(error, "{what} in a namespace");
            }
            Event::Trouble(error) => self.note_trouble(what, namespace, error),
            Event::Forbidden(words) => self.says_once(what, namespace, words),
            Event::Listed(_) | Event::ListEnd | Event::Applied(_) | Event::Deleted(_) => {}
        }
    }

    /// Records the outcome of a write that is for `what`.
    pub fn note_write(&self, what: &'static str, namespace: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Applied(_) => self.has_in(what, namespace),
            Outcome::Denied(words) => self.note_denial(what, namespace, words),
            Outcome::Conflict | Outcome::Gone | Outcome::Failed { .. } => {}
        }
    }

    /// Records a failure of something that `what` depends on; it is retried automatically.
    pub fn note_trouble(&self, what: &'static str, namespace: &str, error: &str) {
        if is_missing_right(error) {
            self.says_once(what, namespace, error);
        } else {
            tracing::warn!(error, namespace, "{what}; trying again");
        }
    }

    /// Records that a write for `what` was denied. Only a missing right is recorded: any other
    /// reason is reported on the object.
    pub fn note_denial(&self, what: &'static str, namespace: &str, words: &str) {
        if is_missing_right(words) {
            self.says_once(what, namespace, words);
        }
    }

    fn says_once(&self, what: &'static str, namespace: &str, words: &str) {
        if self.lacks_in(what, namespace, words) {
            tracing::warn!(error = words, "{what}");
        }
    }
}
