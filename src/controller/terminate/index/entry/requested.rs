//! Handles the outcome of requests to OpenKruise's daemon.

use std::time::Duration;

use swaplet_core::objects::values::backoff::Backoff;

use super::{Entry, RETRY};
use crate::frame::writer::Outcome;
use crate::terminate::index::effect::{Effect, Write};

/// The backoff after failed requests to OpenKruise, which are retried for 40 s only.
const REQUEST_RETRY: Backoff = Backoff {
    longest: Duration::from_secs(5),
    ..RETRY
};

impl Entry {
    /// Records the outcome. A denial is not retried: without a request, the next method follows.
    pub(crate) fn settle_request(
        &mut self,
        write: Write,
        outcome: &Outcome,
        now: Duration,
    ) -> Vec<Effect> {
        let error = match outcome {
            Outcome::Failed { error, .. } | Outcome::Denied(error) => Some(error.clone()),
            // It exists, whoever created it; the watch shows what becomes of it.
            Outcome::Applied(_) | Outcome::Conflict | Outcome::Gone => None,
        };
        self.memory
            .asked_for(error, matches!(outcome, Outcome::Denied(_)), now);
        match outcome {
            Outcome::Applied(stored) => self.applied(write, stored, now),
            Outcome::Failed { retry_after, .. } => {
                self.keep_unconfirmed(write);
                self.back_off(now, REQUEST_RETRY, *retry_after)
            }
            _ => Vec::new(),
        }
    }
}
