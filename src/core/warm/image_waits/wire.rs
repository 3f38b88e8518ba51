//! The reader of pods that show a wait for an image.

use k8s_openapi::api::core::v1::Pod;

use super::ImageWait;
use crate::objects::item::{FromView, Item};
use crate::objects::pod::ContainerState;
use crate::objects::pod::view::{ContainerStatusView, PodView, StatusView};

/// The reasons of a waiting container that may mean a pull under way, or one about to begin. Any
/// other reason means different trouble.
const STARTS: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// A pod of a list or watch.
pub type ImageWaitWire = Item<ImageWait>;

impl FromView for ImageWait {
    type Kind = Pod;
    type View = PodView;

    /// Returns `None` if it has no uid or no node.
    fn of(pod: PodView) -> Option<Self> {
        let meta = pod.metadata;
        Some(Self {
            uid: meta.uid.value?,
            node: pod.spec.node_name.value?,
            waits: !meta.deletion_timestamp.value.0 && waits(pod.status),
        })
    }
}

/// Returns true if the pod waits for an image. Init containers start one after another, so the
/// first unfinished one decides; of the other containers any may be waiting.
fn waits(status: StatusView) -> bool {
    let inits = status.init_container_statuses.value.into_iter();
    let mut inits = inits.map(|container| container.value.0);
    if let Some(first) = inits.find_map(not_through) {
        return starts(&first);
    }
    let containers = status.container_statuses.value;
    containers.is_empty()
        || containers
            .into_iter()
            .any(|container| starts(&container.value.0.state.value.0.read()))
}

/// Returns the container's state; `None` if it ended with exit code 0, or runs as a sidecar that has
/// started.
fn not_through(container: ContainerStatusView) -> Option<ContainerState> {
    let is_up = container.started.value == Some(true);
    match container.state.value.0.read() {
        ContainerState::Terminated(end) if end.exit_code == Some(0) => None,
        ContainerState::Running { .. } if is_up => None,
        state => Some(state),
    }
}

fn starts(state: &ContainerState) -> bool {
    match state {
        ContainerState::Unreported => true,
        ContainerState::Waiting { reason, .. } => STARTS.contains(&&**reason),
        ContainerState::Running { .. } | ContainerState::Terminated(_) => false,
    }
}
