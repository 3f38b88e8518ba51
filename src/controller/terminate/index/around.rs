//! Builds the circumstances of a decision, and explains decisions step by step.

use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::{Pod, roles};
use swaplet_core::terminate::Circumstances;
use swaplet_core::terminate::explain::{Explanation, explain};
use swaplet_core::terminate::memory::Memory;

use super::Index;
use crate::cluster::rules::Rules;

impl Index {
    /// Returns the circumstances for a decision about this pod by these rules. Until the given time
    /// nothing is ended of a pod that was read without policies.
    pub(crate) fn circumstances<'a>(
        &'a self,
        rules: &'a Rules,
        pod: &Pod,
        memory: &Memory,
        policies_unseen_until: Option<Moment>,
        now: Moment,
    ) -> Circumstances<'a> {
        let (node, facts) = self.nodes.about(pod, memory.mains_done_at, now);
        Circumstances {
            exit_images: &rules.exit_images,
            allowed: &rules.allowed,
            headroom: &self.headroom,
            image_troubles: &self.image_troubles,
            node: self.openkruise.class(pod, node),
            facts,
            openkruise: self.openkruise.around(pod),
            policies_unseen_until,
            now,
            started_at: self.started_at,
        }
    }

    /// Explains the decision that the index takes about a pod now, step by step; also for a pod
    /// that it does not keep. Earlier reports are repeated.
    pub fn explain(&self, pod: &Pod, now: Moment) -> Explanation {
        let entry = self.entries.get(&pod.uid);
        let memory = entry.map(|entry| entry.memory.clone());
        self.explain_by(&self.rules, pod, memory.unwrap_or_default(), now)
    }

    /// Like [`Index::explain`], with `image` as an additional exit image; the pod has not changed
    /// since `since`.
    pub fn explain_with(
        &self,
        image: &ImageReference,
        pod: &Pod,
        since: Moment,
        now: Moment,
    ) -> Explanation {
        let rules = Rules {
            exit_images: self.rules.exit_images.clone().and_of(image),
            ..self.rules.clone()
        };
        let mut memory = Memory::default();
        memory.observe(pod, &rules.exit_images, since);
        self.explain_by(&rules, pod, memory, now)
    }

    fn explain_by(&self, rules: &Rules, pod: &Pod, mut memory: Memory, now: Moment) -> Explanation {
        let entry = self.entries.get(&pod.uid);
        let mut pod = pod.clone();
        pod.platform_ends_sidecars = self.nodes.ends_eci_sidecars(&pod);
        pod.node_runs_on = self.nodes.runs_on(&pod);
        memory.observe(&pod, &rules.exit_images, now);
        memory.observe_request(self.openkruise.around(&pod).request, now);
        memory.said.clear();
        let until = entry.and_then(|entry| entry.policies_unseen_until(&self.policies, now));
        let circumstances = self.circumstances(rules, &pod, &memory, until, now);
        explain(&pod, &memory, &circumstances, &self.nodes.why(&pod, now))
    }

    /// Returns the rules in effect.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the pods that are kept.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.entries.values().map(|entry| &entry.pod)
    }

    /// Returns true if the end of the pod's sidecars has begun: one shows an exit image, or there
    /// is a request to OpenKruise's daemon.
    pub fn is_begun(&self, pod: &Pod) -> bool {
        let memory = Memory::default();
        let shows_exit_image = |sidecar| memory.shows_exit_image(sidecar, &self.rules.exit_images);
        self.openkruise.around(pod).request.is_some() || roles::sidecars(pod).any(shows_exit_image)
    }
}
