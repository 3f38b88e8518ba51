//! The headroom that a pod needs from its Job, and reports about the Job.

use swaplet_core::cluster::headroom::{Ledger, Need, Swapped};
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::decision::{Action, Decision, Report, Swap};
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;

use super::Entry;
use crate::cluster::rules::Rules;
use crate::frame::writer::{Outcome, Target};
use crate::terminate::index::effect::{Effect, Write, notice};
use crate::terminate::index::restarting::LATE_EFFECT;

impl Entry {
    /// Updates the ledger from the pod; returns true on the first reconcile of a state that the
    /// watch has shown.
    pub(crate) fn count(&mut self, headroom: &mut Ledger, rules: &Rules) -> bool {
        let shown = self.shown(rules);
        let is_ours = self.pod.phase.is_terminal()
            && self
                .memory
                .finish
                .as_deref()
                .is_some_and(|record| record.written_at().is_some());
        if is_ours {
            headroom.observe_finished(&self.pod, self.swapped, self.list);
        } else {
            headroom.observe(&self.pod, self.swapped, self.list);
        }
        shown
    }

    /// Reads the restarts by swaps from a state that the watch has shown, on its first reconcile;
    /// returns true if it is one. A swap known only from our own write still counts as granted.
    fn shown(&mut self, rules: &Rules) -> bool {
        if self.fresh {
            let (images, allowed) = (&rules.exit_images, &rules.allowed);
            self.swapped = Swapped::of(&self.pod, &self.memory, images, allowed);
        }
        std::mem::take(&mut self.fresh)
    }

    /// Returns the headroom that the decision needs. What a write has taken is kept until the watch
    /// shows its effect, because an older state may arrive after the answer.
    pub(crate) fn need(&mut self, decision: &Decision, shown: bool, now: Moment) -> Need {
        let may_write = self.memory.in_flight
            || decision.swaps_wanted > 0
            || decision.reason == Reason::WriteBackoff;
        self.unseen = self
            .unseen
            .filter(|until| *until > now && (may_write || !shown));
        if self.may_have_written() {
            Need::Held
        } else {
            match (decision.swaps_wanted, decision.reason) {
                (0, _) => Need::Nothing,
                (restarts, Reason::RecreatePending) => Need::Begun(restarts),
                _ if decision.action.is_some() => Need::Nothing,
                (swaps, _) => Need::Waits(swaps),
            }
        }
    }

    /// Returns true if a write may be in flight, or be applied and not be shown.
    pub(crate) const fn may_have_written(&self) -> bool {
        self.memory.in_flight || self.unseen.is_some()
    }

    /// Records a write that the watch may not have shown. A refused write says nothing about those
    /// before it.
    pub(crate) fn note_unseen(&mut self, write: &Write, outcome: &Outcome, now: Moment) {
        let Action::Swap(swaps) = &write.action else {
            return;
        };
        let shows = |swap: &Swap| {
            self.pod
                .containers
                .get(swap.index)
                .is_some_and(|container| container.image != swap.from)
        };
        let (until, is_shown) = match outcome {
            Ok(stored) => {
                let mut stored = swaps.iter().zip(stored.iter().map(|image| &**image));
                let is_undone = |(swap, image): (&Swap, &str)| *image == *swap.from;
                let shown = stored.all(|made| is_undone(made) || shows(made.0));
                (Moment::NEVER, shown)
            }
            Err(WriteError::Failed { .. }) => (now + LATE_EFFECT, swaps.iter().all(shows)),
            Err(WriteError::Conflict | WriteError::Gone | WriteError::Denied(_)) => return,
        };
        if !is_shown {
            self.unseen = self.unseen.max(Some(until));
        } else if outcome.is_ok() {
            // What the watch has shown is an exit image only by the answer, if a webhook has given it
            // another name.
            self.fresh = true;
        }
    }

    /// Emits a report; one about the Job is emitted once for all its pods.
    pub(crate) fn report(&mut self, report: &Report, headroom: &mut Ledger) -> Option<Effect> {
        let target = match Target::job_of(&self.pod).filter(|_| report.reason.regards_job()) {
            Some(job) => headroom
                .first_time(&self.pod, report.reason)
                .then_some(job)?,
            None => {
                self.memory.said.push(report.reason);
                Target::of(&self.pod)
            }
        };
        notice(target, Some(report.clone()))
    }
}
