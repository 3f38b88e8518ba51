//! Timeouts for a container that waits before it is changed, and for changes that the API server
//! denies: a request blocks all later ones for its pod. The timeout is the request's own deadline,
//! or ten minutes without one.

use std::time::Duration;

use super::{Step, Target, Wait};
use crate::objects::moment::Moment;
use crate::restart::reconcile::circumstances::deadline;
use crate::restart::request::{Parking, StatePhase};

/// How long a request without a deadline waits, and retries what is denied.
const PATIENCE: Duration = Duration::from_secs(600);
/// The interval at which a wait is checked again.
const AGAIN: Duration = Duration::from_secs(2);
/// The same for a wait whose end is reported by a pod event.
const SELDOM: Duration = Duration::from_secs(60);

impl Wait {
    /// Returns when to check again.
    pub(crate) fn again(self, now: Moment) -> Moment {
        now + match self {
            Self::Room | Self::Node => AGAIN,
            Self::Parked => SELDOM,
        }
    }
}

impl Target<'_> {
    /// Returns the step, or fails the container if it has waited or been denied for too long. A
    /// container that was changed is never given up so.
    pub(crate) fn in_patience(&self, step: Step) -> Step {
        if deadline(self.case.request, self.case.around).is_some() {
            return step;
        }
        let why = match &step {
            Step::WaitsFor(wait) => self.waited_in_vain(*wait),
            Step::Begin(_) | Step::Swap(_) if self.is_as_before() => self.denied_for_long(),
            _ => None,
        };
        why.map_or(step, |why| Step::Final(StatePhase::Failed, why))
    }

    fn waited_in_vain(&self, wait: Wait) -> Option<String> {
        let since = self.case.memory.waits_since(&self.container.name)?;
        let seconds = PATIENCE.as_secs();
        (since + PATIENCE <= self.case.around.now).then(|| match wait {
            Wait::Room => format!(
                "not restarted: no room in the pod's Job in {seconds} s: restarts of its pods that have not ended, as far as they are observed, count against its backoffLimit"
            ),
            Wait::Node => format!(
                "not restarted: node {} has not reported in {seconds} s that it has observed the current spec of the pod",
                self.case.pod.pod.node
            ),
            Wait::Parked => format!(
                "containers of the pod are parked for another request, and have been for {seconds} s"
            ),
        })
    }

    fn denied_for_long(&self) -> Option<String> {
        let (lasted, words) = self.case.memory.denied()?;
        (lasted >= PATIENCE).then(|| {
            format!(
                "not restarted: the API server has denied the change of the pod for {} s: {words}",
                lasted.as_secs()
            )
        })
    }

    /// Returns true if the spec shows no change by this request.
    fn is_as_before(&self) -> bool {
        self.mark.intent.as_ref().is_none_or(|intent| {
            self.container.image == intent.from && intent.parking != Some(Parking::Back)
        })
    }
}
