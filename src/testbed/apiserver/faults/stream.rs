//! Faults of running watches.

use tokio::sync::watch;
use tokio::time::sleep;

use super::effect::Effect;
use super::rules::{Faults, RuleId};
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::request::Request;

/// The fault of one watch: the one that hit its request, or one that was added while it ran.
#[derive(Debug)]
pub struct WatchFaults {
    faults: Faults,
    request: Request,
    generation: watch::Receiver<usize>,
    known: usize,
    fault: Option<(RuleId, Effect)>,
    /// The number of lines that had been sent when the fault was added.
    base: usize,
    passed: usize,
}

impl WatchFaults {
    /// Returns the faults of a watch, starting with the one that its request met, if any.
    pub fn new(faults: &Faults, request: &Request, fault: Option<(RuleId, Effect)>) -> Self {
        let generation = faults.generation.subscribe();
        let known = *generation.borrow();
        Self {
            faults: faults.clone(),
            request: request.clone(),
            generation,
            known,
            fault,
            base: 0,
            passed: 0,
        }
    }

    /// Waits while the watch is held; otherwise returns the line to send instead of the next one.
    pub async fn interrupt(&mut self, sent: usize) -> Option<Vec<u8>> {
        self.adopt(sent);
        while let Some((id, Effect::HoldWatch)) = self.fault {
            if self.faults.is_active(id) {
                self.changed().await;
            } else {
                self.fault = None;
                self.adopt(sent);
            }
        }
        if let Some((id, Effect::CutWatch(after))) = self.fault {
            sleep(after).await;
            self.fault = Some((id, Effect::CloseWatch(0)));
        }
        match self.fault {
            Some((_, Effect::Garbage(at))) if at + self.base == sent => {
                self.fault = None;
                Some(b"{garbage\n".to_vec())
            }
            Some((id, Effect::ExpireWatch(at))) if at + self.base == sent => {
                self.fault = Some((id, Effect::CloseWatch(0)));
                let status = ApiError::expired("too old resource version: injected").body();
                Some(
                    format!(
                        "{}\n",
                        serde_json::json!({"type": "ERROR", "object": status})
                    )
                    .into_bytes(),
                )
            }
            _ => None,
        }
    }

    /// Adopts a rule that was added since the last call.
    fn adopt(&mut self, sent: usize) {
        let now = *self.generation.borrow_and_update();
        let since = std::mem::replace(&mut self.known, now);
        if since == now {
            return;
        }
        if let Some(fault) = self.faults.meet_running(&self.request, since) {
            (self.fault, self.base, self.passed) = (Some(fault), sent, 0);
        }
    }

    /// Returns true if the watch ends now.
    pub fn closes_at(&self, sent: usize) -> bool {
        matches!(self.fault, Some((_, Effect::CloseWatch(at))) if sent >= at + self.base)
    }

    /// Returns true if this event is lost.
    pub fn skips(&mut self) -> bool {
        let index = self.passed;
        self.passed += 1;
        matches!(self.fault, Some((_, Effect::SkipEvents(from, to))) if (from..to).contains(&index))
    }

    /// Resolves when rules change, so that a watch can be held while it waits.
    pub async fn changed(&mut self) {
        // Without any sender nothing will ever change.
        if self.generation.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
