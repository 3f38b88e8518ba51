//! What the index knows of OpenKruise, and what becomes of requests to its daemon.

use std::time::Duration;

use super::entry::RETRY;
use super::{Effect, Entry, Index, Write};
use crate::cluster::openkruise::{Concerns, News};
use crate::frame::writer::Outcome;
use swaplet_core::objects::values::backoff::Backoff;

/// The wait after failed requests to OpenKruise, which are tried for 40 s only.
const REQUEST_RETRY: Backoff = Backoff {
    longest: Duration::from_secs(5),
    ..RETRY
};

impl Index {
    /// There is something new about OpenKruise.
    pub fn hear(&mut self, news: News, now: Duration) -> Vec<Effect> {
        match self.openkruise.hear(news) {
            Concerns::Nobody => {}
            Concerns::Pod(uid) => {
                let mut effects = self.look(&uid, now);
                effects.extend(self.look_at_woken(now));
                return effects;
            }
            Concerns::Node(node) => self.look_soon(|pod| pod.node == node),
            Concerns::Everybody => self.look_soon(|_| true),
        }
        Vec::new()
    }
}

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
                self.unconfirmed = Some(write).filter(|write| write.report.is_some());
                self.back_off(now, REQUEST_RETRY, *retry_after)
            }
            _ => Vec::new(),
        }
    }
}
