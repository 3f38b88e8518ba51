//! The decoder of container statuses.

use serde::Deserialize;

use super::{Integer, Time};
use crate::objects::pod::container_wire::InitContainerWire;
use crate::objects::pod::{ContainerState, ContainerStatus, ImageDigest, Terminated};
use crate::objects::values::lenient::{Lenient, Object, Said, Text};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatusWire {
    name: Text,
    image: Text,
    #[serde(rename = "imageID")]
    image_id: Text,
    #[serde(rename = "containerID")]
    container_id: Text,
    restart_count: Integer,
    state: Lenient<Object<StateWire>>,
    last_state: Lenient<Object<StateWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StateWire {
    waiting: Lenient<Option<Box<WaitingWire>>>,
    running: Lenient<Option<Box<RunningWire>>>,
    terminated: Lenient<Option<Box<TerminatedWire>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WaitingWire {
    reason: Text,
    message: Lenient<Said>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RunningWire {
    started_at: Time,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TerminatedWire {
    exit_code: Integer,
    signal: Integer,
    reason: Text,
    started_at: Time,
    finished_at: Time,
}

/// The statuses of a pod, taken by name: providers leave some out, order them differently or add
/// those of init containers.
pub(super) struct StatusList(Vec<ContainerStatusWire>);

impl StatusList {
    pub(super) fn read(statuses: Vec<Lenient<Object<ContainerStatusWire>>>) -> Self {
        Self(statuses.into_iter().map(|s| s.value.0).collect())
    }

    /// Takes the first status of that name; the others keep their order, so it is always the first.
    pub(super) fn take(&mut self, name: &str) -> Option<ContainerStatus> {
        let at = self
            .0
            .iter()
            .position(|s| s.name.value.as_deref() == Some(name))?;
        Some(self.0.remove(at).read())
    }

    /// Returns the restarts of the statuses that no container took.
    pub(super) fn restarts(&self) -> impl Iterator<Item = i64> {
        self.0
            .iter()
            .map(|status| status.restart_count.value.unwrap_or_default())
    }

    /// Returns whether an init container has ended so that the node starts all containers of the pod
    /// again (Kubernetes: `ShouldAllContainersRestart`), and the first native sidecar whose end may.
    pub(super) fn restart_all(
        &mut self,
        init_containers: Vec<Lenient<Object<InitContainerWire>>>,
    ) -> (bool, Option<Box<str>>) {
        let (mut ended, mut restarter) = (false, None);
        for init in init_containers.into_iter().map(|init| init.value.0) {
            let rules = init.rules_that_restart_all();
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

impl ContainerStatusWire {
    pub(super) fn malformed(status: &Lenient<Object<Self>>) -> bool {
        status.malformed || status.value.0.state.malformed || status.value.0.restart_count.malformed
    }

    pub(super) fn read(self) -> ContainerStatus {
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

impl StateWire {
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
            let WaitingWire { reason, message } = *waiting;
            ContainerState::Waiting {
                reason: reason.value.unwrap_or_default(),
                message: message.value.0,
            }
        } else {
            ContainerState::Unreported
        }
    }
}

impl TerminatedWire {
    pub(super) fn read(self) -> Terminated {
        Terminated {
            exit_code: self.exit_code.value,
            signal: self.signal.value.filter(|signal| *signal != 0),
            reason: self.reason.value.unwrap_or_default(),
            started_at: self.started_at.value,
            finished_at: self.finished_at.value,
        }
    }
}
