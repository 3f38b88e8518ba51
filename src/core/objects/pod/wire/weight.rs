//! The memory that a cached pod takes.

use crate::objects::pod::rule::SidecarRule;
use crate::objects::pod::{Container, ContainerState, ContainerStatus, Pod, RestartRule, roles};
use crate::objects::values::bounds;

impl Pod {
    /// Returns the bytes of its containers, which is nearly all of it.
    pub(crate) fn weight(&self) -> usize {
        self.containers.iter().map(Container::weight).sum()
    }
}

impl Container {
    fn weight(&self) -> usize {
        let texts = self.name.len()
            + self.image.len()
            + self.mark.with_image.as_ref().map_or(0, |image| image.len());
        let policy = self
            .restart_policy
            .as_ref()
            .map_or(0, |policy| policy.as_str().len());
        let facts = self.facts.as_ref().map_or(0, |facts| facts.weight());
        let rules: usize = self
            .restart_rules
            .iter()
            .map(|rule| size_of::<RestartRule>() + size_of_val(&*rule.codes))
            .sum();
        size_of::<Self>()
            + rules
            + texts
            + policy
            + facts
            + self.rule.as_ref().map_or(0, |_| size_of::<SidecarRule>())
            + self.status.as_ref().map_or(0, ContainerStatus::weight)
    }
}

impl ContainerStatus {
    fn weight(&self) -> usize {
        let state = match &self.state {
            ContainerState::Waiting { reason, message } => reason.len() + message.len(),
            ContainerState::Terminated(end) => end.reason.len(),
            ContainerState::Running { .. } | ContainerState::Unreported => 0,
        };
        self.image.len()
            + self.container_id.len()
            + state
            + self.last_end.as_ref().map_or(0, |end| end.reason.len())
    }
}

/// Drops the facts of containers that are no sidecars.
pub(crate) fn drop_unused_facts(pod: &mut Pod) {
    pod.containers
        .iter_mut()
        .filter(|container| !roles::is_called_sidecar(container))
        .for_each(|container| container.facts = None);
}

/// Reduces a pod that is too large, first by the facts of other containers than sidecars.
pub(crate) fn within_bounds(mut pod: Pod) -> Pod {
    if pod.weight() > bounds::POD {
        drop_unused_facts(&mut pod);
    }
    if pod.weight() > bounds::POD {
        without_containers(pod)
    } else {
        pod
    }
}

/// Drops all containers, so that the pod is left alone and reported; its restarts count.
fn without_containers(pod: Pod) -> Pod {
    Pod {
        other_restarts: pod.restarts(),
        containers: Vec::new(),
        malformed: Some("spec.containers"),
        ..pod
    }
}
