//! What is waited for before anything is done with a container, and what the API server denies, has
//! an end: a request holds up all later ones for its pod. Its own deadline is that end; one without
//! has ten minutes.

use std::time::Duration;

use super::{Step, Target, Wait};
use crate::restart::reconcile::circumstances::deadline;
use crate::restart::request::{Parking, StatePhase};

/// For how long a request without a deadline waits, and tries what is denied.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often is asked again for what is waited for.
const AGAIN: Duration = Duration::from_secs(2);
/// The same for what the pod tells by an event.
const SELDOM: Duration = Duration::from_secs(60);

impl Wait {
    /// When to ask again.
    pub(crate) fn again(self, now: Duration) -> Duration {
        now.saturating_add(match self {
            Self::Room | Self::Node => AGAIN,
            Self::Parked => SELDOM,
        })
    }
}

impl Target<'_> {
    /// The step, or the end of the container in the request where that was waited for, or was
    /// denied, for too long. A container that was changed is never given up so.
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
        (since.saturating_add(PATIENCE) <= self.case.around.now).then(|| match wait {
            Wait::Room => format!(
                "not restarted: no room in the pod's Job in {seconds} s: restarts of its pods that are not over, as far as they are seen, count against its backoffLimit"
            ),
            Wait::Node => format!(
                "not restarted: node {} has not told in {seconds} s that it has seen the pod as it is specified now",
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

    /// Whether nothing of this request is seen in the spec.
    fn is_as_before(&self) -> bool {
        self.mark.intent.as_ref().is_none_or(|intent| {
            self.container.image == intent.from && intent.parking != Some(Parking::Back)
        })
    }
}
