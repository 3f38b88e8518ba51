//! What becomes of requests to OpenKruise's daemon.

use std::time::Duration;

use swaplet_core::objects::values::backoff::Backoff;

use super::{Entry, RETRY};
use crate::frame::writer::Outcome;
use crate::terminate::index::effect::{Effect, Write};

/// The wait after failed requests to OpenKruise, which are tried for 40 s only.
const REQUEST_RETRY: Backoff = Backoff {
    longest: Duration::from_secs(5),
    ..RETRY
};

impl Entry {
    /// A request that was not created leads to the next method, so a denial is not tried again.
    pub(crate) fn settle_request(
        &mut self,
        write: Write,
        outcome: &Outcome,
        now: Duration,
    ) -> Vec<Effect> {
        let error = match outcome {
            Outcome::Failed { error, .. } | Outcome::Denied(error) => Some(error.clone()),
            // It is there, by whomever; what becomes of it is seen.
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
