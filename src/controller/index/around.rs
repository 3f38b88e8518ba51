//! What the index knows around a pod, as a decision wants it; and the decision told step by step.

use std::time::Duration;

use super::jobs::Lines;
use super::{Index, Known, Rules};
use crate::decide::circumstances::Circumstances;
use crate::decide::explain::{Explanation, explain};
use crate::decide::headroom::Ledger;
use crate::decide::image_troubles::ImageTroubles;
use crate::decide::memory::Memory;
use crate::decide::roles;
use crate::nodes::Nodes;
use crate::objects::pod::Pod;

/// All that is known besides the pods.
pub(super) struct Around<'a> {
    pub(super) rules: &'a Rules,
    pub(super) nodes: &'a Nodes,
    pub(super) headroom: &'a Ledger,
    pub(super) openkruise: &'a Known,
    pub(super) image_troubles: &'a ImageTroubles,
    pub(super) lines: &'a Lines,
}

impl<'a> Around<'a> {
    /// What a decision about this pod depends on.
    pub(super) fn of(&self, pod: &Pod, memory: &Memory, now: Duration) -> Circumstances<'a> {
        let (node, facts) = self.nodes.about(pod, memory.mains_done_at, now);
        Circumstances {
            exit_images: &self.rules.exit_images,
            ladder: &self.rules.ladder,
            headroom: self.headroom,
            line_moved: self.lines.moved(pod),
            image_troubles: self.image_troubles,
            node: self.openkruise.class(pod, node),
            facts,
            openkruise: self.openkruise.around(pod),
            now,
        }
    }
}

impl Index {
    /// The decision about a pod, as the index takes it now, step by step; also about one that it does not keep, because nothing is to
    /// be done for it. What has been told before is told again.
    #[must_use]
    pub fn explain(&self, pod: &Pod, now: Duration) -> Explanation {
        let mut pod = pod.clone();
        pod.platform_ends_eci_sidecars = self.nodes.ends_eci_sidecars(&pod);
        let mut memory = self.entries.get(&pod.uid).map(|entry| entry.memory.clone()).unwrap_or_default();
        memory.observe(&pod, &self.rules.exit_images, now);
        memory.observe_request(self.openkruise.around(&pod).request, now);
        memory.said.clear();
        let Self { rules, nodes, headroom, openkruise, image_troubles, lines, .. } = self;
        let around = Around { rules, nodes, headroom, openkruise, image_troubles, lines };
        explain(&pod, &memory, &around.of(&pod, &memory, now), &self.nodes.why(&pod, now))
    }

    /// The pods that are kept.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.entries.values().map(|entry| &entry.pod)
    }

    /// Whether somebody has begun to end the sidecars of the pod: one shows an exit image, or there is a request to OpenKruise's daemon.
    #[must_use]
    pub fn is_begun(&self, pod: &Pod) -> bool {
        let memory = Memory::default();
        let shows_exit_image = |sidecar| memory.shows_exit_image(sidecar, &self.rules.exit_images);
        self.openkruise.around(pod).request.is_some() || roles::sidecars(pod).any(shows_exit_image)
    }
}
