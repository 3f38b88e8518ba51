//! Pods that wait for their images. A kubelet pulls one image at a time for all of its pods
//! (`serializeImagePulls`, on by default), so pulling ahead of time would delay them.
//!
//! Anyone who may create pods can create one that waits for ever. So each pod counts for a limited
//! time, and the number of pods kept is bounded, for each node and in all.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::objects::item::{FromView, Item};
use crate::objects::moment::Moment;
use crate::objects::pod::ContainerState;
use crate::objects::pod::view::{ContainerStatusView, PodView, StatusView};
use k8s_openapi::api::core::v1::Pod;

/// A pod that is bound to a node and has not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageWait {
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `spec.nodeName`
    pub node: Box<str>,
    /// True while its node may be pulling an image for it, or may be about to.
    pub waits: bool,
}

/// How long one pod counts after it was first observed: longer than most pulls take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long decisions wait for the first list.
const FIRST_LIST: Duration = Duration::from_secs(10);
/// The most pods that are kept for one node; kubelets have room for fewer.
const PODS_OF_A_NODE: usize = 256;
/// The most pods that are kept in all: a pod may name a node that does not exist.
const PODS: usize = 20_000;

/// The pods that wait for their images, by node.
#[derive(Debug, Default)]
pub struct ImageWaits {
    nodes: BTreeMap<Box<str>, BTreeMap<Box<str>, Waiting>>,
    count: usize,
    /// Until then every node counts as busy, because no list has ended yet.
    unknown_until: Option<Moment>,
}

#[derive(Debug)]
struct Waiting {
    first_seen: Moment,
    waits: bool,
}

impl ImageWaits {
    /// Starts observing at `now`: pods count as waiting on every node until a list has ended, but
    /// at most for 10 s.
    pub fn begun(now: Moment) -> Self {
        Self {
            unknown_until: Some(now + FIRST_LIST),
            ..Self::default()
        }
    }

    /// Records that the pods have been listed, or cannot be: decisions wait for that no longer.
    pub const fn wait_for_no_list(&mut self) {
        self.unknown_until = None;
    }

    /// Records a pod. Returns false for a new one that is ignored, because a bound on the number of
    /// pods is reached.
    pub fn observe(&mut self, pod: ImageWait, now: Moment) -> bool {
        let pods = self.nodes.get_mut(&pod.node);
        let are_many = pods
            .as_ref()
            .is_some_and(|pods| pods.len() >= PODS_OF_A_NODE);
        if let Some(known) = pods.and_then(|pods| pods.get_mut(&pod.uid)) {
            known.waits = pod.waits;
            return true;
        }
        let has_room = self.count < PODS && !are_many;
        if has_room {
            self.count += 1;
            self.nodes.entry(pod.node).or_default().insert(
                pod.uid,
                Waiting {
                    first_seen: now,
                    waits: pod.waits,
                },
            );
        }
        has_room
    }

    /// Removes a pod that is gone or has started.
    pub fn is_gone(&mut self, node: &str, uid: &str) {
        let Some(pods) = self.nodes.get_mut(node) else {
            return;
        };
        self.count -= usize::from(pods.remove(uid).is_some());
        if pods.is_empty() {
            self.nodes.remove(node);
        }
    }

    /// Returns true if pods wait for their images on the node, or if that is not known yet.
    pub fn are_on(&self, node: &str, now: Moment) -> bool {
        let counts = |pod: &Waiting| pod.waits && now < pod.first_seen + PATIENCE;
        self.unknown_until.is_some_and(|until| now < until)
            || self
                .nodes
                .get(node)
                .is_some_and(|pods| pods.values().any(counts))
    }
}

// The reader of pods that show a wait for an image.

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
            waits: !meta.deletion_timestamp.0 && waits(pod.status),
        })
    }
}

/// Returns true if the pod waits for an image. Init containers start one after another, so the
/// first unfinished one decides; of the other containers any may be waiting.
fn waits(status: StatusView) -> bool {
    let mut inits = status.init_container_statuses.items.into_iter();
    if let Some(first) = inits.find_map(not_through) {
        return starts(&first);
    }
    let mut containers = status.container_statuses.items.into_iter();
    containers.len() == 0 || containers.any(|container| starts(&container.state.read()))
}

/// Returns the container's state; `None` if it ended with exit code 0, or runs as a sidecar that has
/// started.
fn not_through(container: ContainerStatusView) -> Option<ContainerState> {
    let is_up = container.started == Some(true);
    match container.state.read() {
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
