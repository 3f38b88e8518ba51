//! Decides about one pod, isolated so that a panic affects this pod alone.

use std::time::Duration;

use swaplet_core::cluster::headroom::{Headroom, Need};
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::decision::{Decision, Report};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::image_troubles::unpulled;
use swaplet_core::terminate::memory::proof::{image_failed, swaps_failed};
use swaplet_core::terminate::{decide, unselected};

use super::entry::is_over;
use super::{Begun, Effect, Index, probe_until};
use crate::cluster::nodes::Learned;
use crate::frame::isolated::{break_if_asked, isolated, note};
use crate::frame::queue::reschedule;

/// The delay of the next reconcile, where a decision names a time that has passed, or pods wake
/// each other.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// How long swaps wait for the restarts that have begun in their pod. What has not come by then, as
/// where an image cannot be pulled, the swap replaces.
const RESTARTS_AWAITED: Duration = Duration::from_secs(300);

impl Index {
    /// Decides about a pod and applies everything but the write. If that panics, nothing is
    /// written, and the pod is reconciled when it changes, and with all others.
    pub(crate) fn decide(&mut self, uid: &str, now: Moment) -> Option<Decision> {
        isolated(uid, || self.judge(uid, now)).unwrap_or_else(|defect| {
            self.undecided(uid, &defect, now);
            None
        })
    }

    fn undecided(&mut self, uid: &str, defect: &str, now: Moment) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        let report = Report::new(Reason::DecisionFailed, note("pod", defect));
        let reports = Vec::from_iter(entry.memory.first_time(report.reason).then_some(report));
        let decision = Decision {
            reports,
            ..Decision::quiet(Reason::DecisionFailed)
        };
        let effects = entry.effects(&decision, &mut self.headroom, now);
        entry.count_in(&mut self.census);
        self.effects.extend(effects);
    }

    /// Returns `None` if the pod is not kept.
    fn judge(&mut self, uid: &str, now: Moment) -> Option<Decision> {
        let (shown, learned) = self.observe(uid, now)?;
        let decision = self.judge_observed(uid, shown, now)?;
        self.note(uid, &decision, now)?;
        if is_over(decision.reason) {
            self.forget(uid);
        }
        if let Some(learned) = learned {
            self.learned(learned, uid);
        }
        Some(decision)
    }

    /// Updates all state from the pod. Returns whether this is the first reconcile of a state that
    /// the watch has shown, and what the pod proved about its node.
    fn observe(&mut self, uid: &str, now: Moment) -> Option<(bool, Option<Learned>)> {
        let entry = self.entries.get_mut(uid)?;
        entry.pod.platform_ends_sidecars = self.nodes.ends_eci_sidecars(&entry.pod);
        entry.pod.node_runs_on = self.nodes.runs_on(&entry.pod);
        entry.confirm(now);
        entry
            .memory
            .observe(&entry.pod, &self.rules.exit_images, now);
        let shown = entry.count(&mut self.headroom, &self.rules, now);
        let proved = entry.proves(&self.nodes, now);
        // Of a kubelet nothing is learned by it: it restarts containers, so the image is the cause.
        let failed_on_a_kubelet = swaps_failed(&entry.pod, &entry.memory)
            && self.nodes.is_kubelet(&entry.pod)
            && !self.nodes.is_unseen(&entry.pod);
        let has_failed = failed_on_a_kubelet || image_failed(&entry.pod, &entry.memory);
        if has_failed {
            self.image_troubles.failed(&entry.pod, &entry.memory, now);
        }
        let learned = proved.and_then(|proved| self.nodes.learn(&entry.pod, proved, now));
        if let Some(at) = entry.memory.swapped_at(&entry.pod) {
            self.nodes
                .trial_goes_on(&entry.pod, probe_until(&entry.pod, at), now);
        }
        entry
            .memory
            .observe_request(self.openkruise.around(&entry.pod).request, now);
        self.image_troubles.observe(&entry.pod, &entry.memory, now);
        if let Some(derived) = self.rules.exit_images.derived_mut() {
            unpulled(&entry.pod, &entry.memory, has_failed)
                .for_each(|image| derived.lost(image, now));
        }
        Some((shown, learned))
    }

    /// Decides from what was observed, and reserves headroom in the pod's Job for the decision.
    fn judge_observed(&mut self, uid: &str, shown: bool, now: Moment) -> Option<Decision> {
        let entry = self.entries.get(uid)?;
        let (pod, memory) = (&entry.pod, &entry.memory);
        let until = entry.policies_unseen_until(&self.policies, now);
        let circumstances = self.circumstances(&self.rules, pod, memory, until, now);
        let class = circumstances.node;
        let mut decision = if self.selected.may_be_written(uid) {
            break_if_asked(&pod.name);
            decide(pod, memory, &circumstances)
        } else {
            unselected(pod)
        };
        let entry = self.entries.get_mut(uid)?;
        entry.class = class;
        // Restarts that have begun in this pod come besides its swaps.
        let coming = self.restarting.get(uid).map_or(0, Begun::coming);
        let all = decision.swaps_wanted.saturating_add(coming);
        let done_at = entry.memory.mains_done_at.unwrap_or(now);
        let awaits = coming > 0 && now < done_at + RESTARTS_AWAITED;
        if awaits && decision.swaps_wanted > 0 {
            let answer = self.headroom.answer_restarts(&entry.pod, all);
            if !matches!(answer, Headroom::Free | Headroom::Fits) {
                decision = Decision::later(Reason::HeadroomWait, now + SOON);
            }
        }
        self.selected.decided(uid, decision.reason);
        let need = match (entry.need(&decision, shown, now), self.restarting.get(uid)) {
            (Need::Nothing, Some(begun)) => Need::Begun(begun.restarts),
            (Need::Waits(_), Some(begun)) if coming > 0 => Need::Begun(begun.restarts),
            (need, _) => need,
        };
        self.headroom.need(&entry.pod, need);
        if is_over(decision.reason) && entry.pod.phase.is_terminal() {
            self.headroom.pod_ended(&entry.pod);
        }
        Some(decision)
    }

    /// Notes what a decision changes besides its write, and when the pod is looked at again.
    fn note(&mut self, uid: &str, decision: &Decision, now: Moment) -> Option<()> {
        let entry = self.entries.get_mut(uid)?;
        self.effects
            .extend(entry.effects(decision, &mut self.headroom, now));
        if decision.reason.is_end() && !entry.was_ended {
            let ended = entry.policies();
            ended.iter().for_each(|key| self.policies.ended(key));
        }
        entry.count_in(&mut self.census);
        entry.wants = !decision.wants.is_empty();
        let images = &mut self.rules.exit_images;
        let namespace = &entry.pod.namespace;
        let asked = decision.wants.iter().filter(|paths| {
            let derived = images.derived_mut();
            derived.is_some_and(|derived| derived.ask(namespace, paths, now))
        });
        self.effects.extend(
            asked
                .cloned()
                .map(|paths| Effect::Derive(namespace.clone(), paths)),
        );
        let again = decision
            .again
            .into_iter()
            .chain(entry.unseen.filter(|_| decision.swaps_wanted > 0))
            .min();
        // A time that has passed would be due again at once, forever.
        let again = again.map(|at| if at > now { at } else { now + SOON });
        reschedule(&mut self.due, &entry.pod.uid, &mut entry.due, again);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::cluster::exit_images::ExitImages;
    use swaplet_core::cluster::node_table::NodeTable;
    use swaplet_core::objects::pod::Pod;
    use swaplet_core::objects::pod::wire::PodWire;
    use swaplet_core::objects::values::env::WHEN_JOB_EXIT;
    use swaplet_core::report::decision::Action;
    use swaplet_core::terminate::methods::AllowedMethods;
    use swaplet_core::terminate::openkruise::Coexist;

    use super::*;
    use crate::cluster::rules::Rules;
    use crate::frame::isolated::break_for;
    use crate::frame::queue::LOOK_AGAIN;

    /// Its main container is done, the sidecar runs.
    fn pod(name: &str) -> Pod {
        let side = json!({"name": "side", "image": "side:1", "env": [{"name": WHEN_JOB_EXIT, "value": "true"}]});
        let state = |name: &str, state| json!({"name": name, "image": name, "ready": false, "restartCount": 0, "state": state});
        let statuses = [
            state("main", json!({"terminated": {"exitCode": 0}})),
            state(
                "side",
                json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
            ),
        ];
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("{name}-uid")},
            "spec": {"restartPolicy": "OnFailure", "nodeSelector": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}, "containers": [{"name": "main", "image": "main:1"}, side]},
            "status": {"phase": "Running", "containerStatuses": statuses},
        });
        serde_json::from_value::<PodWire>(pod)
            .unwrap()
            .read()
            .unwrap()
    }

    fn index() -> Index {
        Index::new(Rules {
            exit_images: ExitImages::new(Some("exit:1".parse().unwrap()), Vec::new()),
            allowed: AllowedMethods::default(),
            node_table: NodeTable::built_in(),
            coexist: Coexist::Own,
        })
    }

    fn writes(index: &mut Index, now: Moment) -> Vec<(Box<str>, bool)> {
        let next = || {
            index
                .next_write(now)
                .map(|write| (write.target.name, matches!(write.action, Action::Swap(_))))
        };
        std::iter::from_fn(next).collect()
    }

    fn reported(effects: &[Effect]) -> Vec<(&str, Reason)> {
        let notices = effects.iter().filter_map(|effect| {
            if let Effect::Notice(notice) = effect {
                Some(notice)
            } else {
                None
            }
        });
        notices
            .map(|notice| (&*notice.target.name, notice.report.reason))
            .collect()
    }

    #[test]
    fn a_defect_that_one_pod_meets_costs_no_other_pod_its_end_and_is_told_once() {
        let mut index = index();
        break_for(Some("bad"));
        let now = Moment::after_start(Duration::from_secs(1));
        index.apply(pod("before"), now);
        index.take_effects();
        index.apply(pod("bad"), now);
        let effects = index.take_effects();
        assert_eq!(reported(&effects), [("bad", Reason::DecisionFailed)]);
        assert!(
            matches!(&effects[..], [Effect::Decided(_), Effect::Notice(notice)] if notice.report.note.ends_with("index out of bounds"))
        );
        index.apply(pod("after"), now);
        assert_eq!(
            writes(&mut index, now),
            [("before".into(), true), ("after".into(), true)]
        );
        index.take_effects();
        index.apply(pod("bad"), now);
        assert_eq!(reported(&index.take_effects()), []);
        index.wake(now + LOOK_AGAIN);
        assert_eq!(reported(&index.take_effects()), []);

        break_for(None);
        index.wake(now + 2 * LOOK_AGAIN);
        assert_eq!(
            writes(&mut index, now + 2 * LOOK_AGAIN),
            [("bad".into(), true)]
        );
    }

    /// Nothing tells of the change, and the pod has no time at which it would be looked at by
    /// itself.
    #[test]
    fn a_pod_is_decided_about_again_within_a_minute_although_nothing_wakes_it() {
        let mut index = index();
        break_for(Some("forgotten"));
        let now = Moment::after_start(Duration::from_secs(1));
        index.apply(pod("forgotten"), now);
        break_for(None);
        assert_eq!(writes(&mut index, now), []);
        let due = index.next_due().unwrap();
        assert!(due <= Moment::START + LOOK_AGAIN, "{due:?}");
        index.wake(due);
        assert_eq!(writes(&mut index, due), [("forgotten".into(), true)]);
        index.remove(&pod("forgotten"), due);
        assert_eq!(
            index.next_due(),
            None,
            "a loop without pods has nothing to wake up for"
        );
    }
}
