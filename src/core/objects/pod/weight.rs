//! What a pod costs that is kept.

use super::{Container, ContainerState, ContainerStatus, Pod, RestartRule};

impl Pod {
    /// The bytes of its containers, which is nearly all of it.
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
