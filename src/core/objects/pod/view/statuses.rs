//! The decoder of container statuses.

use serde::Deserialize;

use super::ContainerView;
use crate::objects::item::{any_malformed, items};
use crate::objects::pod::{ContainerState, ContainerStatus, ImageDigest, Terminated};
use crate::objects::values::lenient::{
    Flag, Integer, Lenient, Member, Object, Objects, Said, Text, Time,
};

/// The status of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatusView {
    pub name: Text,
    pub image: Text,
    #[serde(rename = "imageID")]
    pub image_id: Text,
    #[serde(rename = "containerID")]
    pub container_id: Text,
    pub ready: Flag,
    pub started: Flag,
    pub restart_count: Integer,
    pub state: Lenient<Object<StateView>>,
    pub last_state: Lenient<Object<StateView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StateView {
    waiting: Member<WaitingView>,
    running: Member<RunningView>,
    terminated: Member<TerminatedView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WaitingView {
    reason: Text,
    message: Lenient<Said>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RunningView {
    started_at: Time,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TerminatedView {
    exit_code: Integer,
    signal: Integer,
    reason: Text,
    started_at: Time,
    finished_at: Time,
}

/// The statuses of a pod, taken by name: providers leave some out, order them differently or add
/// those of init containers.
pub(crate) struct StatusList(Vec<ContainerStatusView>);

impl StatusList {
    pub(crate) fn read(statuses: Objects<ContainerStatusView>) -> Self {
        Self(statuses.value.into_iter().map(|s| s.value.0).collect())
    }

    /// Takes the first status of that name; the others keep their order, so it is always the first.
    pub(crate) fn take(&mut self, name: &str) -> Option<ContainerStatus> {
        let at = self
            .0
            .iter()
            .position(|s| s.name.value.as_deref() == Some(name))?;
        Some(self.0.remove(at).read())
    }

    /// Returns the restarts of the statuses that no container took.
    pub(crate) fn restarts(&self) -> impl Iterator<Item = i64> {
        self.0
            .iter()
            .map(|status| status.restart_count.value.unwrap_or_default())
    }

    /// Returns whether an init container has ended so that the node starts all containers of the pod
    /// again (Kubernetes: `ShouldAllContainersRestart`), and the first native sidecar whose end may.
    pub(crate) fn restart_all<X>(
        &mut self,
        init_containers: &Objects<ContainerView<X>>,
    ) -> (bool, Option<Box<str>>) {
        let (mut ended, mut restarter) = (false, None);
        for init in items(init_containers) {
            let mut rules = init.restart_rules();
            rules.retain(|rule| rule.restarts_all);
            let Some(name) = init.name.value.clone().filter(|_| !rules.is_empty()) else {
                continue;
            };
            if let Some(ContainerState::Terminated(end)) = self.take(&name).map(|s| s.state) {
                ended |= rules.iter().any(|rule| rule.may_match(end.exit_code));
            }
            if init.is_native_sidecar() {
                restarter.get_or_insert(name);
            }
        }
        (ended, restarter)
    }
}

impl ContainerStatusView {
    /// Returns true if one of the list, or the list itself, cannot be read.
    pub(crate) fn any_malformed(list: &Objects<Self>) -> bool {
        let is_malformed = |one: &Self| one.state.malformed || one.restart_count.malformed;
        any_malformed(list) || items(list).any(is_malformed)
    }

    pub(crate) fn read(self) -> ContainerStatus {
        ContainerStatus {
            image: self.image.value.unwrap_or_default(),
            image_digest: self.image_id.value.as_deref().and_then(ImageDigest::of),
            container_id: self.container_id.value.unwrap_or_default(),
            restart_count: self.restart_count.value.unwrap_or_default(),
            state: self.state.value.0.read(),
            last_end: self
                .last_state
                .value
                .0
                .terminated
                .value
                .map(|t| Box::new(t.read())),
        }
    }
}

impl StateView {
    /// Reads the state. A provider may set two members at once (the polling wrapper of the
    /// virtual-kubelet library adds `terminated` without clearing `running`): the end outranks the
    /// rest, as in OpenKruise.
    pub(crate) fn read(self) -> ContainerState {
        if let Some(terminated) = self.terminated.value {
            ContainerState::Terminated(Box::new(terminated.read()))
        } else if let Some(running) = self.running.value {
            ContainerState::Running {
                started_at: running.started_at.value,
            }
        } else if let Some(waiting) = self.waiting.value {
            let WaitingView { reason, message } = *waiting;
            ContainerState::Waiting {
                reason: reason.value.unwrap_or_default(),
                message: message.value.0,
            }
        } else {
            ContainerState::Unreported
        }
    }
}

impl TerminatedView {
    fn read(self) -> Terminated {
        Terminated {
            exit_code: self.exit_code.value,
            signal: self.signal.value.filter(|signal| *signal != 0),
            reason: self.reason.value.unwrap_or_default(),
            started_at: self.started_at.value,
            finished_at: self.finished_at.value,
        }
    }
}
