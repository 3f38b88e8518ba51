//! What policies make of the pods of the index, and what these make of the policies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::rule::SidecarRule;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::sidecar_policy::PolicyKind;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::policies::set::{PolicyKey, key_of};
use swaplet_core::report::reason::Reason;

use super::{Entry, Index};
use crate::frame::watch::Event;
use crate::terminate::policies::{Counts, PolicyStore};

/// Why a policy does nothing in a pod that it selects: it would leave no main container.
const NO_MAIN: &str = "NoMainContainer";
/// The same: the annotations of the pod, or policies that count more, have said all.
const OUTRANKED: &str = "Outranked";

impl Index {
    /// Policies about sidecars are watched.
    #[must_use]
    pub fn with_policies(mut self) -> Self {
        self.policies = PolicyStore::watched();
        self
    }

    /// Reads a pod as it comes, with the rules that are about its containers.
    pub(crate) fn read_pod(&mut self, pod: PodWire) -> Option<Pod> {
        let images = &self.rules.exit_images;
        let policies = &mut self.policies.set;
        pod.read_with(|pod, labels| policies.mark(pod, labels, |image| images.contains(image)))
    }

    /// What the watch of policies tells. A rule that does not count any more is taken at once from
    /// containers that are sidecars by it alone; for others it may be what keeps them from being
    /// ended now. Which rules count instead is known when the pods are listed again. Returns
    /// whether anything changes for pods.
    pub(crate) fn policies_tell(&mut self, kind: PolicyKind, event: Event<BoundedObject>) -> bool {
        let has_changed = self.policies.hear(kind, event, &self.rules.exit_images);
        if has_changed {
            let set = &self.policies.set;
            let mut changed = BTreeSet::new();
            for (uid, entry) in &mut self.entries {
                let by_policy = entry.pod.containers.iter_mut();
                for container in by_policy.filter(|container| !container.mark.is_sidecar()) {
                    if container.rule.take_if(|rule| !set.counts(rule)).is_some() {
                        changed.insert(uid.clone());
                    }
                }
            }
            self.look_soon(|pod| changed.contains(&pod.uid));
        }
        has_changed
    }

    /// What each policy comes to.
    pub(crate) fn policy_counts(&self) -> BTreeMap<PolicyKey, Counts> {
        let mut counts = BTreeMap::<PolicyKey, Counts>::new();
        for entry in self.entries.values() {
            let refused = entry.pod.refused_policy.iter().map(|rule| (rule, NO_MAIN));
            let outranked = entry.pod.outranked_policies.iter();
            for (rule, reason) in refused.chain(outranked.map(|rule| (rule, OUTRANKED))) {
                if let Some(key) = policy_of(rule) {
                    let counts = counts.entry(key).or_default();
                    *counts.refused.entry(reason).or_default() += 1;
                }
            }
            for key in entry.policies() {
                let counts = counts.entry(key).or_default();
                counts.matched += 1;
                if let Some(reason) = entry.last.filter(|reason| is_refusal(*reason)) {
                    *counts.refused.entry(reason.as_str()).or_default() += 1;
                }
            }
        }
        counts
    }
}

/// Whether the sidecars of a pod are not ended for a reason that somebody should know.
const fn is_refusal(reason: Reason) -> bool {
    reason.is_warning() || reason.needs_a_hand()
}

fn policy_of(rule: &SidecarRule) -> Option<PolicyKey> {
    rule.policy().map(key_of)
}

impl Entry {
    /// Until when nothing is ended of the pod, because it was read before the policies were known.
    pub(crate) fn policies_unseen_until(
        &self,
        policies: &PolicyStore,
        now: Duration,
    ) -> Option<Duration> {
        policies.unseen_until(now).filter(|_| self.without_policies)
    }

    /// The policies that are about containers of the pod.
    pub(crate) fn policies(&self) -> BTreeSet<PolicyKey> {
        self.rules().filter_map(policy_of).collect()
    }

    /// The rules of its containers.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &SidecarRule> {
        self.pod
            .containers
            .iter()
            .filter_map(|container| container.rule.as_deref())
    }
}
