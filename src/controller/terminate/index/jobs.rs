//! What the pods of one Job have in common: their restarts, who waits for whom, and what is told of
//! the Job.

use std::collections::HashMap;
use std::time::Duration;

use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::{Ledger, Need, Swapped};
use swaplet_core::objects::pod::Pod;
use swaplet_core::report::decision::{Action, Decision, Method, Report, Swap};
use swaplet_core::report::reason::Reason;

use super::{Effect, Entry, Index, Write, notice};
use crate::frame::writer::{Outcome, Target};

/// After this a write without an answer has been applied, or never will be: the API server gives up
/// a request after a minute (its `--request-timeout`), and a watch shows what was done within
/// another.
pub(crate) const LATE_EFFECT: Duration = Duration::from_secs(120);

/// When swaps were last made in the pods of each Job, by its uid.
#[derive(Debug, Default)]
pub(crate) struct Lines(HashMap<Box<str>, Duration>);

impl Lines {
    /// When the line of those that wait for room in the Job of a pod last got on.
    pub(crate) fn moved(&self, pod: &Pod) -> Option<Duration> {
        self.0.get(&pod.job.as_ref()?.uid).copied()
    }

    fn moves(&mut self, pod: &Pod, now: Duration) {
        if let Some(job) = pod.job.as_ref().filter(|_| Ledger::counts(pod)) {
            self.0.insert(job.uid.clone(), now);
        }
    }
}

impl Index {
    /// What comes of a swap for other pods; before it is settled for its own.
    pub(crate) fn swap_settled(&mut self, write: &Write, outcome: &Outcome, now: Duration) {
        let (Some(entry), Action::Swap(swaps)) =
            (self.entries.get(&write.target.uid), &write.action)
        else {
            return;
        };
        match outcome {
            Outcome::Applied(_) => {
                self.lines.moves(&entry.pod, now);
                swaps
                    .iter()
                    .for_each(|swap| self.image_troubles.allowed(&entry.pod, &swap.to));
            }
            Outcome::Denied(_) if entry.memory.denied.of(Method::Swap).last_with_one_more() => {
                swaps
                    .iter()
                    .for_each(|swap| self.image_troubles.denied(&entry.pod, &swap.to, now));
            }
            Outcome::Conflict | Outcome::Gone | Outcome::Denied(_) | Outcome::Failed { .. } => {}
        }
    }

    /// Nobody knows when the pods of each Job got any further, for who asks has not watched them:
    /// so it was just now.
    pub fn lines_move(&mut self, now: Duration) {
        self.entries
            .values()
            .for_each(|entry| self.lines.moves(&entry.pod, now));
    }

    /// Jobs whose pods are all gone are forgotten.
    pub(crate) fn forget_jobs(&mut self) {
        self.lines.0.retain(|job, _| self.headroom.has_pods(job));
    }

    /// How many pods wait for others of their Job.
    #[must_use]
    pub const fn waiting_for_headroom(&self) -> usize {
        self.headroom.waiting()
    }

    /// Changes what is known of Jobs, and looks at the pods that this concerns.
    pub fn jobs(&mut self, change: impl FnOnce(&mut Ledger), now: Duration) -> Vec<Effect> {
        change(&mut self.headroom);
        self.look_at_woken(now)
    }

    /// Looks at the pods whose place in their Job has changed. To look at a pod again moves
    /// nobody's place, so this comes to an end.
    pub(crate) fn look_at_woken(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let woken = self.headroom.take_wakes();
            if woken.is_empty() {
                return effects;
            }
            for uid in woken {
                effects.extend(self.look(&uid, now));
            }
        }
    }
}

impl Entry {
    /// Takes notice of a state of the pod; whether the watch has shown it and it is looked at for
    /// the first time.
    pub(crate) fn count(&mut self, headroom: &mut Ledger, exit_images: &ExitImages) -> bool {
        let shown = self.shown(exit_images);
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

    /// Takes the restarts of swaps from a state that the watch has shown and that is looked at for
    /// the first time; whether it is one. A swap that only our own write says is still counted as
    /// granted.
    fn shown(&mut self, exit_images: &ExitImages) -> bool {
        if self.fresh {
            self.swapped = Swapped::of(&self.pod, &self.memory, exit_images);
        }
        std::mem::take(&mut self.fresh)
    }

    /// What the decision needs of the Job. What was granted to a write is kept until the watch
    /// shows what became of it: an older state may come after the answer.
    pub(crate) fn need(&mut self, decision: &Decision, shown: bool, now: Duration) -> Need {
        let may_write = self.memory.in_flight
            || decision.swaps_wanted > 0
            || decision.reason == Reason::WriteBackoff;
        self.unseen = self
            .unseen
            .filter(|until| *until > now && (may_write || !shown));
        if self.memory.in_flight || self.unseen.is_some() {
            Need::Held
        } else {
            match (decision.swaps_wanted, decision.reason) {
                // What was granted to all steps of the pod stays granted between them.
                (0, _) if decision.swaps_later > 0 => Need::Swaps(decision.swaps_later),
                (0, _) => Need::Nothing,
                (restarts, Reason::RecreatePending) => Need::Asked(restarts),
                (swaps, _) => Need::Swaps(swaps),
            }
        }
    }

    /// A write has come back that the watch may not have shown. One that was refused says nothing
    /// about those before it.
    pub(crate) fn note_unseen(&mut self, write: &Write, outcome: &Outcome, now: Duration) {
        let Action::Swap(swaps) = &write.action else {
            return;
        };
        let shows = |swap: &Swap| {
            self.pod
                .containers
                .get(swap.index)
                .is_some_and(|container| container.image != swap.from)
        };
        let until = match outcome {
            Outcome::Applied(_) => Duration::MAX,
            Outcome::Failed { .. } => now + LATE_EFFECT,
            Outcome::Conflict | Outcome::Gone | Outcome::Denied(_) => return,
        };
        if !swaps.iter().all(shows) {
            self.unseen = self.unseen.max(Some(until));
        }
    }

    /// What is true of the Job is told once for all its pods.
    pub(crate) fn tell(&mut self, report: &Report, headroom: &mut Ledger) -> Option<Effect> {
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
