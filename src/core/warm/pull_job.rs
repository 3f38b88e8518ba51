//! Jobs that pull images: which nodes they want, when they are over, and what their status reports.
//! How a node gets its images is decided in [`warming`](super::warming).
//!
//! The first write for a job is its `startTime`, from which deadlines count; the last is its
//! `completionTime`, when no pod is left but those being deleted. A list job is processed as it is,
//! without an `ImagePullJob` for each image as OpenKruise creates them: the names of those are
//! hashes that only Go computes, and one pod per node serves all images. So `parallelism` holds for
//! the list.

mod message;
pub mod object;
pub mod sandbox;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube_core::{Expression, Selector, SelectorExt as _};

use super::image_cache::Cached;
use super::warming::{Limits, Warming};
use crate::objects::values::amount::Rounding;
use crate::warm::pod::Shape;
use crate::warm::pull_job::object::{Completion, PullJob, PullSpec, Targets};
pub use status::{Known, Stage, Status, status, unusable};

/// A node, reduced to what jobs select it by and need to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetNode {
    /// `metadata.uid`: a node of the same name with another uid has no image of the one before.
    pub uid: Box<str>,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// True while the node is Ready.
    pub ready: bool,
    /// The shape of the pods that pull there, or why none can.
    pub shape: Result<Shape, String>,
    /// True if its provider keeps images in image caches instead.
    pub has_image_caches: bool,
    /// True if the node has the taint of the control plane ([`CONTROL_PLANE`]).
    pub is_control_plane: bool,
}

/// The taints of control plane nodes, which are also the labels of such nodes.
pub const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];
/// The label with the host name of a node, which is usually its name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Returns true if a job wants its images on a node. `pod_nodes` are the nodes of the pods that its
/// `podSelector` matches. Warmer pods tolerate every taint, so a label selector has to name nodes
/// of the control plane, by role or host name, to select them.
pub fn wants(
    targets: &Targets,
    name: &str,
    node: &TargetNode,
    pod_nodes: &BTreeSet<Box<str>>,
) -> bool {
    match targets {
        Targets::Labels(selector) => {
            selector.matches(&node.labels)
                && (!node.is_control_plane || names_control_plane(selector))
        }
        Targets::Names(names) => names.contains(name),
        Targets::Pods(_) => pod_nodes.contains(name),
    }
}

fn names_control_plane(selector: &Selector) -> bool {
    let names = |key: &str| key == HOSTNAME || CONTROL_PLANE.contains(&key);
    let is_asked_for = |expression: Expression| match expression {
        Expression::Exists(key) | Expression::In(key, _) | Expression::Equal(key, _) => names(&key),
        _ => false,
    };
    selector.clone().into_iter().any(is_asked_for)
}

/// The age at which a settled node of a job of type `Never` is checked again, as OpenKruise does,
/// whose NodeImages drop a tag after a day: the kubelet may have removed an image, or with `Always` a tag may have moved.
const ASK_AGAIN: Duration = Duration::from_secs(86_400);

/// Returns the limits of a job on this many nodes, `leaving` of which still have a pod that is no
/// longer wanted. Whatever timeout the job sets, one try takes at most `longest_try`, because other
/// jobs cannot use the node meanwhile.
pub fn limits(spec: &PullSpec, nodes: usize, leaving: usize, longest_try: Duration) -> Limits {
    Limits {
        parallelism: spec
            .parallelism
            .of(nodes, Rounding::Up)
            .saturating_sub(leaving),
        timeout: Duration::from_secs(spec.timeout_seconds.into()).min(longest_try),
        backoff_limit: spec.backoff_limit,
        ask_again: (spec.completion == Completion::Never).then_some(ASK_AGAIN),
    }
}

/// Returns true if the job has exceeded its `activeDeadlineSeconds`. Wall-clock times are compared:
/// the start is one that this program has written.
pub fn exceeds_deadline(spec: &PullSpec, started_at: Timestamp, today: Timestamp) -> bool {
    deadline(spec).is_some_and(|deadline| today.duration_since(started_at) >= deadline)
}

/// Returns true if pods that wait for their images come before the job: always without a deadline,
/// else during the first half of its `activeDeadlineSeconds`.
pub fn lets_others_pull(spec: &PullSpec, started_at: Timestamp, today: Timestamp) -> bool {
    deadline(spec).is_none_or(|deadline| today.duration_since(started_at) < deadline / 2)
}

fn deadline(spec: &PullSpec) -> Option<SignedDuration> {
    let Completion::Always { deadline_seconds } = spec.completion else {
        return None;
    };
    deadline_seconds.map(|seconds| SignedDuration::from_secs(seconds.into()))
}

/// Returns true if a job is over: its type is not `Never`, each image on each node is final, and no
/// pod is left but those being deleted.
pub fn is_over(spec: &PullSpec, warming: &Warming, cached: &Cached) -> bool {
    matches!(spec.completion, Completion::Always { .. }) && !cached.waits() && warming.is_over()
}

/// Returns the time until a completed job is to be deleted; `None` if it stays.
pub fn time_to_live(job: &PullJob, today: Timestamp) -> Option<Duration> {
    let age = today.duration_since(job.completed_at?);
    let left = SignedDuration::from_secs(job.ttl_seconds?.into()).saturating_sub(age);
    Some(Duration::try_from(left).unwrap_or_default())
}
