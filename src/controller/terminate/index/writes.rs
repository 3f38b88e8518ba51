//! The writes to a pod: from the decision to the outcome.

use std::time::Duration;

use swaplet_core::cluster::headroom::Need;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::report::decision::{Action, Decision};
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::methods::swap::patience;

use super::effect::notice;
use super::entry::since::SinceBegun;
use super::restarting::Begun;
use super::{Effect, Index, Write};
use crate::frame::writer::{Outcome, Target};

/// The time that a probe may take beyond the patience with its swap: for the write, and for the
/// status updates of a provider that is polled.
const PROBE_MARGIN: Duration = Duration::from_secs(30);
/// The longest patience with a probe, because pods choose their grace periods themselves, and the
/// other pods of the node wait.
const PROBE_PATIENCE: Duration = Duration::from_secs(600);

impl Index {
    pub(crate) fn begin(&mut self, uid: &str, decision: Decision, now: Moment) -> Option<Write> {
        let action = decision.action?;
        let entry = self.entries.get_mut(uid)?;
        if let Action::Swap(_) = &action {
            let pod = &entry.pod;
            let until = probe_until(pod, now);
            if let Some((provider, rate)) = self.nodes.budget(pod)
                && !self
                    .budgets
                    .take(&provider, rate, (&pod.namespace, &pod.uid), now)
            {
                return None;
            }
            self.nodes.probe_starts(pod, until, now);
        }
        entry.memory.in_flight = true;
        entry.since = SinceBegun::default();
        let need = match &action {
            Action::Swap(_) | Action::Recreate(_) => {
                let coming = self.restarting.get(uid).map_or(0, Begun::coming);
                Need::Begun(decision.swaps_wanted.saturating_add(coming))
            }
            Action::Finish(_) => Need::Held,
        };
        self.headroom.need(&entry.pod, need);
        if let (Action::Finish(_), Some(record)) = (&action, &mut entry.memory.finish) {
            record.begun(now);
        }
        Some(Write {
            target: Target::of(&entry.pod),
            action,
            report: decision.done,
        })
    }

    /// Handles the outcome of a write.
    pub fn written(&mut self, write: Write, outcome: &Outcome, now: Moment) -> Vec<Effect> {
        let uid = write.target.uid.clone();
        let Some(entry) = self.entries.get_mut(&uid) else {
            // The pod is gone; a write that was applied is still reported.
            return if outcome.is_ok() {
                notice(write.target, write.report).into_iter().collect()
            } else {
                Vec::new()
            };
        };
        entry.memory.in_flight = false;
        let mut effects = entry.settle(write, outcome, now);
        let gone = (*outcome == Err(WriteError::Gone)).then(|| entry.pod.clone());
        if matches!(outcome, Err(WriteError::Conflict | WriteError::Denied(_))) {
            self.nodes.trial_ends(&entry.pod);
        }
        if matches!(outcome, Err(WriteError::Conflict | WriteError::Denied(_)))
            && self.nodes.probe_ends(&entry.pod)
        {
            let node = entry.pod.node.clone();
            self.enqueue_where(|pod| pod.node == node);
        }
        if let Some(pod) = gone {
            effects.extend(self.remove(&pod, now));
        } else {
            effects.extend(self.reconcile(&uid, now));
            effects.extend(self.reconcile_woken(now));
        }
        effects
    }
}

/// Returns until when a swap written at `written` is the probe of its node, or of its provider.
pub(crate) fn probe_until(pod: &Pod, written: Moment) -> Moment {
    written + patience(pod).min(PROBE_PATIENCE) + PROBE_MARGIN
}
