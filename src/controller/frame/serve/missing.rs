//! Reports of rights that are missing, from tasks beside the loop of pods: once in the log, and by
//! `/readyz` for as long as they are missing.

use swaplet_core::report::write_error::WriteError;

use super::Health;
use super::rights::Right;
use crate::frame::watch::Event;
use crate::frame::writer::is_missing_right;

impl Health {
    /// Records an event of a watch that needs the right, in one namespace (empty: in all). A
    /// trouble is logged; one that lasts, once.
    pub fn note_watch<T>(&self, right: Right, namespace: &str, event: &Event<T>) {
        match event {
            Event::ListStart => self.nothing_hidden(right.without()),
            Event::Current(_) => self.has_in(right, namespace),
            Event::Hidden(error) => {
                self.hidden(right.without(), error);
                tracing::warn!(error, "{} in a namespace", right.without());
            }
            Event::Trouble(error) => self.note_trouble(right, namespace, error),
            Event::Forbidden(words) => self.says_once(right, namespace, words),
            Event::Listed(_)
            | Event::ListEnd
            | Event::Relists(_)
            | Event::Applied(_)
            | Event::Deleted(_) => {}
        }
    }

    /// Records the outcome of a write that needs the right.
    pub fn note_write<T>(&self, right: Right, namespace: &str, outcome: &Result<T, WriteError>) {
        match outcome {
            Ok(_) => self.has_in(right, namespace),
            Err(WriteError::Denied(words)) => self.note_denial(right, namespace, words),
            Err(WriteError::Conflict | WriteError::Gone | WriteError::Failed { .. }) => {}
        }
    }

    /// Records a failure of a request that needs the right; it is retried automatically.
    pub fn note_trouble(&self, right: Right, namespace: &str, error: &str) {
        if is_missing_right(error) {
            self.says_once(right, namespace, error);
        } else {
            tracing::warn!(error, namespace, "{}; trying again", right.without());
        }
    }

    /// Records that a request that needs the right was denied. Only a missing right is recorded:
    /// any other reason is reported on the object.
    pub fn note_denial(&self, right: Right, namespace: &str, words: &str) {
        if is_missing_right(words) {
            self.says_once(right, namespace, words);
        }
    }

    fn says_once(&self, right: Right, namespace: &str, words: &str) {
        if self.lacks_in(right, namespace, words) {
            tracing::warn!(error = words, "{}", right.without());
        }
    }
}
