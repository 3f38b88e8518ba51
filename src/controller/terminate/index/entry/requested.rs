//! Handles the outcome of requests to OpenKruise's daemon.

use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::write_error::WriteError;

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
        now: Moment,
    ) -> Vec<Effect> {
        let error = match outcome {
            Err(WriteError::Failed { error, .. } | WriteError::Denied(error)) => {
                Some(error.clone())
            }
            // It exists, whoever created it; the watch shows what becomes of it.
            Ok(_) | Err(WriteError::Conflict | WriteError::Gone) => None,
        };
        self.memory
            .asked_for(error, matches!(outcome, Err(WriteError::Denied(_))), now);
        match outcome {
            Ok(stored) => self.applied(write, stored, now),
            Err(WriteError::Failed { retry_after, .. }) => {
                self.keep_unconfirmed(write);
                self.back_off(now, REQUEST_RETRY, *retry_after)
            }
            _ => Vec::new(),
        }
    }
}
