//! Timeouts for a container that waits before it is changed, and for changes that the API server
//! denies or does not answer: a request blocks all later ones for its pod. The timeout is the
//! request's own deadline, or ten minutes without one.

use std::time::Duration;

use super::{Step, Target, Wait};
use crate::objects::moment::Moment;
use crate::restart::reconcile::circumstances::{Case, age, deadline};
use crate::restart::reconcile::memory::Memory;
use crate::restart::reconcile::parking::before;
use crate::restart::request::{Parking, StatePhase};

/// How long a request without a deadline waits, and retries what is not applied.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a process retries what is not applied for a request that is older than that: the one
/// before may have tried all the time, and it has lost its memory.
const OF_NEW_LEADER: Duration = Duration::from_secs(60);
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
    /// Returns the step, or fails the container if it has waited or been tried for too long. One
    /// that is parked then is left to the search for orphans, which never gives up.
    pub(crate) fn in_patience(&self, step: Step) -> Step {
        if deadline(self.case.request, self.case.around).is_some() {
            return step;
        }
        let why = match &step {
            Step::WaitsFor(wait) => self.waited_in_vain(*wait),
            Step::Begin(_) | Step::Swap(_) => self.in_vain_for_long(),
            _ => None,
        };
        why.map_or(step, |why| Step::Final(StatePhase::Failed, why))
    }

    /// Describes that the node does not report the image that the spec has.
    fn not_reported(&self) -> String {
        format!(
            "node {} has not reported that it has started {}, only {}, which may be the image before, or another tag of the same bytes: restart it by the park image (--park-image of the controller)",
            self.case.pod.pod.node, self.container.image, self.status.image
        )
    }

    /// Returns why the container waits, if that is for its node.
    pub(crate) fn waits_for_node(&self) -> Option<String> {
        self.case.memory.waits_since(&self.container.name)?;
        (!self.is_reported()).then(|| self.not_reported())
    }

    fn waited_in_vain(&self, wait: Wait) -> Option<String> {
        let since = self.case.memory.waits_since(&self.container.name)?;
        let seconds = PATIENCE.as_secs();
        (since + PATIENCE <= self.case.around.now).then(|| match wait {
            Wait::Room => format!(
                "not restarted: no room in the pod's Job in {seconds} s: restarts of its pods that have not ended, as far as they are observed, count against its backoffLimit"
            ),
            Wait::Node => format!("not restarted in {seconds} s: {}", self.not_reported()),
            Wait::Parked => format!(
                "containers of the pod are parked for another request, and have been for {seconds} s"
            ),
        })
    }

    /// Returns the reason to give up a change that is not applied; `None` while it is retried.
    pub(crate) fn in_vain_for_long(&self) -> Option<String> {
        // An image that no pod records is put back by nobody else.
        let is_lost = !self.is_as_before()
            && (self.mark.intent.as_ref()).is_some_and(|intent| intent.parking.is_none());
        let why = in_vain_for_long(self.case, is_lost)?;
        let intent = self.mark.intent.as_ref();
        Some(match intent {
            Some(intent) if intent.parking.is_some() && self.is_out(intent) => {
                before::stays(self.case.pod, &self.container.name, &why)
            }
            _ if self.is_as_before() => format!("not restarted: {why}"),
            _ => format!("its image is not put back: {why}"),
        })
    }

    /// Returns true if the spec shows no change by this request.
    fn is_as_before(&self) -> bool {
        self.mark.intent.as_ref().is_none_or(|intent| {
            self.container.image == intent.from && intent.parking != Some(Parking::Back)
        })
    }
}

/// Returns the reason to give up what is not applied; `None` while it is retried. `is_lost` is true
/// if nobody else would do it later.
pub(crate) fn in_vain_for_long(case: Case<'_>, is_lost: bool) -> Option<String> {
    let (lasted, _) = case.memory.in_vain()?;
    let made = case.request.created_at;
    let is_old = made.is_some_and(|made| age(made, case.around) >= PATIENCE);
    let longest = if is_old && !is_lost {
        OF_NEW_LEADER
    } else {
        PATIENCE
    };
    in_vain(case.memory).filter(|_| lasted >= longest)
}

/// Returns for how long no change of the pod has been applied, or what has to be recorded before
/// it, and the last error; `None` if the last change was.
pub(crate) fn in_vain(memory: &Memory) -> Option<String> {
    let (lasted, words) = memory.in_vain()?;
    let seconds = lasted.as_secs();
    Some(format!(
        "the API server has not applied the change of the pod for {seconds} s: {words}"
    ))
}
