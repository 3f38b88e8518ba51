//! The memory of the request to OpenKruise's daemon.

use std::time::Duration;

use super::Memory;
use crate::objects::moment::Moment;
use crate::objects::recreate_request::RecreateRequest;

/// How long the daemon may take to handle a request. Alone it takes a second; with its client's 5
/// requests per second and a full node it takes longer. OpenKruise's manager gives up after 60 s,
/// and the next method has to be reached within a minute.
pub(crate) const ANSWERS: Duration = Duration::from_secs(40);

/// A request that was created, or tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When the first try returned.
    pub at: Moment,
    /// The error of the API server if the request was not created.
    pub error: Option<String>,
    /// True if the API server rejects the request, however often it is tried.
    pub refused: bool,
}

impl Asked {
    /// Returns true if the request may be tried once more.
    pub(crate) fn is_worth_another_try(&self, now: Moment) -> bool {
        self.error.is_some() && !self.refused && now < self.at + ANSWERS
    }
}

impl Memory {
    /// Updates the memory from the request for the pod. Call it before every decision.
    pub fn observe_request(&mut self, request: Option<&RecreateRequest>, now: Moment) {
        if request.is_some() {
            self.request_seen_at.get_or_insert(now);
        }
    }

    /// Records the result of creating a request: `error` if it was not created.
    pub fn asked_for(&mut self, error: Option<String>, refused: bool, now: Moment) {
        let at = self.asked.as_ref().map_or(now, |asked| asked.at);
        self.asked = Some(Asked { at, error, refused });
    }

    /// Returns when the request for the pod was first tried or observed.
    #[must_use]
    pub fn asked_at(&self) -> Option<Moment> {
        self.asked
            .as_ref()
            .map(|asked| asked.at)
            .or(self.request_seen_at)
    }

    /// Returns true if this run of the process has written something for the pod.
    #[must_use]
    pub(crate) fn has_acted(&self) -> bool {
        let finished = self
            .finish
            .as_ref()
            .is_some_and(|record| record.written_at().is_some());
        finished || self.asked.is_some() || self.swaps.iter().any(|record| record.before.is_some())
    }
}
