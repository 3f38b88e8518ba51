//! Handles writes that the API server forbids.

use std::sync::Arc;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::annotations::SIDECARS;
use swaplet_core::objects::pod::rule::SidecarRule;
use swaplet_core::report::decision::{Action, Report, Swap};
use swaplet_core::report::reason::Reason;

use super::Entry;
use crate::terminate::index::effect::{Effect, Write, notice};

/// The longest backoff after denials.
const LAST_DENIED_RETRY: Duration = Duration::from_secs(15 * 60);

impl Entry {
    /// Records a denial. A swap that is denied repeatedly gives way to the next method, which needs
    /// another right; all other writes of the pod back off.
    pub(crate) fn denied(&mut self, write: Write, words: &str, now: Moment) -> Vec<Effect> {
        let method = write.action.method();
        let note = format!(
            "the API server forbids to {}: {words}{}",
            attempt(&write.action),
            self.opt_in(&write.action)
        );
        let until =
            self.memory
                .denied
                .remember(method, note.as_str().into(), now, LAST_DENIED_RETRY);
        let denials = self.memory.denied.of(method);
        if !denials.are_lasting() || !matches!(write.action, Action::Swap(_)) {
            self.memory.not_before = Some(until);
        }
        // Reported once per method: a denial of one says nothing about the others.
        if !denials.are_news() {
            return Vec::new();
        }
        self.memory.first_time(Reason::WriteDenied);
        notice(
            write.target,
            Some(Report {
                reason: Reason::WriteDenied,
                note,
            }),
        )
        .into_iter()
        .collect()
    }

    /// Returns how to let swaplet end a container that only a policy makes a sidecar; else empty.
    fn opt_in(&self, action: &Action) -> String {
        let Action::Swap(swaps) = action else {
            return String::new();
        };
        let by_policy = |swap: &&Swap| {
            let container = self.pod.containers.get(swap.index);
            container.is_some_and(|container| {
                let has_policy = |rule: &Arc<SidecarRule>| rule.policy().is_some();
                !container.mark.is_sidecar() && container.rule.as_ref().is_some_and(has_policy)
            })
        };
        let names: Vec<_> = swaps
            .iter()
            .filter(by_policy)
            .map(|swap| &*swap.container)
            .collect();
        if names.is_empty() {
            return String::new();
        }
        let names = names.join(",");
        format!(
            " (where the admission policy swaplet-leash denies it: name {names} in the value sidecarPolicies.containers of the chart, or in the annotation {SIDECARS} of the namespace)"
        )
    }
}

/// Describes the attempt, in words that follow "forbids to".
fn attempt(action: &Action) -> String {
    match action {
        Action::Swap(swaps) => format!("change the image of {}", names(swaps)),
        Action::Finish(_) => {
            "write the phase of the pod (grant patch of pods/status, or start with --finish=never)"
                .to_owned()
        }
        Action::Recreate(containers) => format!("request the end of {}", containers.join(", ")),
    }
}

fn names(swaps: &[Swap]) -> String {
    swaps
        .iter()
        .map(|swap| &*swap.container)
        .collect::<Vec<_>>()
        .join(", ")
}
