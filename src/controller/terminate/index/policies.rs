//! The effect of policies on the pods of the index, and the counts for their status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Container, Pod, SidecarRule};
use swaplet_core::objects::sidecar_policy::PolicyKind;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::policies::set::{PolicyKey, key_of};
use swaplet_core::report::reason::Reason;

use super::{Entry, Index};
use crate::frame::watch::Event;
use crate::terminate::policies::{Counts, PolicyStore};

/// The reason why a policy has no effect in a pod that it selects: no main container would be left.
const NO_MAIN: &str = "NoMainContainer";
/// The same: the pod's annotations, or policies of higher precedence, decide everything.
const OUTRANKED: &str = "Outranked";

impl Index {
    /// Decodes a pod and marks its containers with the rules that apply to them.
    pub(crate) fn read_pod(&mut self, pod: PodWire) -> Option<Pod> {
        let (images, entries) = (&self.rules.exit_images, &self.entries);
        let policies = &mut self.policies.set;
        pod.read_with(|pod, labels| {
            let known = entries.get(&pod.uid);
            let is_swapped = |container: &Container| {
                images.contains(&container.image)
                    || known.is_some_and(|entry| entry.may_have_swapped(container, images))
            };
            policies.mark(pod, labels, is_swapped);
            // Without its image another entry may fit it than before, with another step.
            for before in known.iter().flat_map(|entry| &entry.pod.containers) {
                let had = before.rule.as_ref().filter(|rule| rule.policy().is_some());
                let now = pod
                    .containers
                    .iter_mut()
                    .find(|one| one.name == before.name);
                if let (Some(had), Some(now)) = (had, now)
                    && is_swapped(now)
                    && policies.counts(had)
                    && now
                        .rule
                        .as_ref()
                        .is_some_and(|rule| rule.policy().is_some())
                {
                    now.rule = Some(had.clone());
                }
            }
        })
    }

    /// Handles an event of the watch of policies; returns true if anything changes for pods. A rule
    /// that no longer counts is taken at once from containers that are sidecars only by it; for
    /// others it may be what keeps them from being ended now. Which rules replace it is known when
    /// the pods are listed again.
    pub(crate) fn policies_tell(&mut self, kind: PolicyKind, event: Event<BoundedObject>) -> bool {
        let told = about(&event);
        let has_changed = self.policies.handle(kind, event, &self.rules.exit_images);
        if has_changed {
            let is_told = |rule: &SidecarRule| told.iter().all(|policy| is_of(rule, policy));
            self.take_rules(is_told);
        }
        has_changed
    }

    /// Takes from containers the rules that no longer count, among those that may have changed:
    /// whoever changes a policy all the time must not have the rules of all others compared.
    fn take_rules(&mut self, may_have_changed: impl Fn(&SidecarRule) -> bool) {
        let set = &self.policies.set;
        let is_void = |rule: &mut Arc<SidecarRule>| may_have_changed(rule) && !set.counts(rule);
        let mut changed = BTreeSet::new();
        for (uid, entry) in &mut self.entries {
            let by_policy = entry.pod.containers.iter_mut();
            for container in by_policy.filter(|container| !container.mark.is_sidecar()) {
                if container.rule.take_if(is_void).is_some() {
                    changed.insert(uid.clone());
                }
            }
        }
        if !changed.is_empty() {
            self.enqueue_where(|pod| changed.contains(&pod.uid));
        }
    }

    /// Returns the counts for the status of each policy.
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
                if let Some(reason) = entry.refusal() {
                    *counts.refused.entry(reason.as_str()).or_default() += 1;
                }
            }
        }
        counts
    }
}

/// The namespace and the name of a policy; that of the cluster has no namespace.
type Named = (Option<String>, String);

/// Returns the policy that an event is about; `None` if it may be about any.
fn about(event: &Event<BoundedObject>) -> Option<Named> {
    let (Event::Listed(object) | Event::Applied(object) | Event::Deleted(object)) = event else {
        return None;
    };
    let metadata = &object.metadata;
    Some((metadata.namespace.clone(), metadata.name.clone()?))
}

fn is_of(rule: &SidecarRule, (namespace, name): &Named) -> bool {
    rule.policy().is_some_and(|place| {
        *place.name == **name && place.namespace.as_deref() == namespace.as_deref()
    })
}

fn policy_of(rule: &SidecarRule) -> Option<PolicyKey> {
    rule.policy().map(key_of)
}

impl Entry {
    /// Returns until when nothing is ended of the pod, because it was read without policies.
    pub(crate) fn policies_unseen_until(
        &self,
        policies: &PolicyStore,
        now: Moment,
    ) -> Option<Moment> {
        policies.unseen_until(now).filter(|_| self.without_policies)
    }

    /// Returns why its sidecars are not ended, where somebody should know that.
    fn refusal(&self) -> Option<Reason> {
        let is_denied = self.memory.denied.are_lasting() && !self.pod.phase.is_terminal();
        let reason = is_denied.then_some(Reason::WriteDenied).or(self.last);
        reason.filter(|reason| reason.is_warning() || reason.needs_a_hand())
    }

    /// Returns the policies that apply to containers of the pod.
    pub(crate) fn policies(&self) -> BTreeSet<PolicyKey> {
        self.rules().filter_map(policy_of).collect()
    }

    /// Returns the rules of its containers.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &SidecarRule> {
        self.pod
            .containers
            .iter()
            .filter_map(|container| container.rule.as_deref())
    }
}
