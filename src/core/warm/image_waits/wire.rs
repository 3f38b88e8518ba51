//! A pod as the API server sends it, decoded only as far as it shows a wait for an image.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::ImageWait;
use crate::objects::pod::ContainerState;
use crate::objects::pod::wire::StateWire;
use crate::objects::values::lenient::{self, Lenient, Object, Objects, Present, Text};
use crate::objects::values::parts::Parts;

/// The reasons of a waiting container that may mean a pull under way, or one about to begin. Any
/// other reason means different trouble.
const STARTS: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// A pod of a list or watch, reduced while it is decoded. Decoding fails only for JSON that is not
/// a Kubernetes object.
#[derive(Clone, Debug)]
pub struct ImageWaitWire {
    metadata: ObjectMeta,
    pod: Option<ImageWait>,
}

of_kind!(ImageWaitWire, k8s_openapi::api::core::v1::Pod);

type TopWire = Parts<MetaWire, SpecWire, StatusWire>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
    deletion_timestamp: Lenient<Present>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    node_name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    init_container_statuses: Objects<ContainerWire>,
    container_statuses: Objects<ContainerWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerWire {
    started: Lenient<Option<bool>>,
    state: Lenient<Object<StateWire>>,
}

impl<'de> Deserialize<'de> for ImageWaitWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let TopWire {
            metadata,
            spec,
            status,
        } = TopWire::deserialize(deserializer)?;
        let meta = metadata.value.0;
        let is_leaving = meta.deletion_timestamp.value.0;
        let metadata = lenient::watched(&meta.name, &meta.namespace, &meta.resource_version);
        let pod = meta
            .uid
            .value
            .zip(spec.value.0.node_name.value)
            .map(|(uid, node)| {
                let waits = !is_leaving && status.value.0.waits();
                ImageWait { uid, node, waits }
            });
        Ok(Self { metadata, pod })
    }
}

impl ImageWaitWire {
    /// Returns the pod; `None` if it has no uid or no node.
    #[must_use]
    pub fn read(self) -> Option<ImageWait> {
        self.pod
    }
}

impl StatusWire {
    /// Returns true if the pod waits for an image. Init containers start one after another, so the
    /// first unfinished one decides; of the other containers any may be waiting.
    fn waits(self) -> bool {
        let mut init = self
            .init_container_statuses
            .value
            .into_iter()
            .map(|container| container.value.0);
        if let Some(first) = init.find_map(ContainerWire::not_through) {
            return starts(&first);
        }
        let containers = self.container_statuses.value;
        containers.is_empty()
            || containers
                .into_iter()
                .any(|container| starts(&container.value.0.state.value.0.read()))
    }
}

impl ContainerWire {
    /// Returns the container's state; `None` if it ended with exit code 0, or runs as a sidecar
    /// that has started.
    fn not_through(self) -> Option<ContainerState> {
        let is_up = self.started.value == Some(true);
        match self.state.value.0.read() {
            ContainerState::Terminated(end) if end.exit_code == Some(0) => None,
            ContainerState::Running { .. } if is_up => None,
            state => Some(state),
        }
    }
}

fn starts(state: &ContainerState) -> bool {
    match state {
        ContainerState::Unreported => true,
        ContainerState::Waiting { reason, .. } => STARTS.contains(&&**reason),
        ContainerState::Running { .. } | ContainerState::Terminated(_) => false,
    }
}
