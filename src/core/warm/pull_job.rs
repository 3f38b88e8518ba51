//! Jobs that pull images: which nodes they want, when they are over, and what their status says.
//! How a node gets its images is decided in [`warm`](super::warming).
//!
//! The first write for a job is its `startTime`, from which deadlines count; the last is its
//! `completionTime`, when no pod is left. A list job is done as it is, without an `ImagePullJob`
//! for each image as OpenKruise makes them: the names of those are hashes that only Go computes,
//! and one pod per node serves all images. So `parallelism` holds for the list.

mod message;
pub mod object;
pub mod pins;
pub mod sandbox;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube_core::{Expression, Selector, SelectorExt as _};

use self::pins::{Pull, Target};
use super::image_cache::Cached;
use super::warming::shape::Shapes;
use super::warming::{Limits, Warming};
use crate::warm::pull_job::object::{Completion, PullJob, PullSpec, Targets};
pub use status::{Known, Stage, Status, status, unusable};

/// A node, as far as jobs ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetNode {
    /// `metadata.uid`: a node of the same name with another uid has no image of the one before.
    pub uid: Box<str>,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// Whether it is Ready.
    pub ready: bool,
    /// The shapes of pods that pull there, or why none can.
    pub shapes: Result<Shapes, String>,
    /// Whether its provider keeps images instead, in image caches.
    pub has_image_caches: bool,
    /// Whether it has the taint of the control plane ([`CONTROL_PLANE`]).
    pub is_control_plane: bool,
}

/// The taints of nodes of the control plane, and the labels that such nodes have with them.
pub const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];
/// The label with the name of the node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Whether a job wants its images on a node. What tolerates every taint would come to the control
/// plane as well: a job that says nothing of it gets no pod there. `pod_nodes` are the nodes of the
/// pods that its `podSelector` selects.
#[must_use]
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

/// After so long a job that goes on for ever asks its nodes again, as OpenKruise's do (D.5): a
/// kubelet may have removed an image, and where the registry is always asked a tag may have moved.
const ASK_AGAIN: Duration = Duration::from_secs(86_400);

/// What bounds the work of a job on so many nodes, of which `leaving` still have a pod that is not
/// wanted any more. However long the job would wait, a try takes `longest_try` at most: its node
/// can do nothing for others meanwhile.
#[must_use]
pub fn limits(spec: &PullSpec, nodes: usize, leaving: usize, longest_try: Duration) -> Limits {
    Limits {
        parallelism: spec.parallelism.of(nodes).saturating_sub(leaving),
        timeout: Duration::from_secs(spec.timeout_seconds.into()).min(longest_try),
        backoff_limit: spec.backoff_limit,
        ask_again: (spec.completion == Completion::Never).then_some(ASK_AGAIN),
    }
}

/// Whether the job has taken longer than it may. Times of day are compared: the start is one that
/// this program has written.
#[must_use]
pub fn exceeds_deadline(spec: &PullSpec, started_at: Timestamp, today: Timestamp) -> bool {
    let Completion::Always {
        deadline_seconds: Some(seconds),
        ..
    } = spec.completion
    else {
        return false;
    };
    today.duration_since(started_at) >= SignedDuration::from_secs(seconds.into())
}

/// Whether pods that wait for their images come before the job. Once half of the time that it may
/// take is over it waits for nobody.
#[must_use]
pub fn lets_others_pull(spec: &PullSpec, started_at: Timestamp, today: Timestamp) -> bool {
    let Completion::Always {
        deadline_seconds: Some(seconds),
        ..
    } = spec.completion
    else {
        return true;
    };
    today.duration_since(started_at) < SignedDuration::from_secs(seconds.into()) / 2
}

/// Whether a job is over: it is not one that goes on for ever, each image on each node is final,
/// and no pod is left.
#[must_use]
pub fn is_over(spec: &PullSpec, targets: &[Target], warming: &Warming, cached: &Cached) -> bool {
    let none_waits = targets.iter().all(|target| target.pull != Pull::Waits) && !cached.waits();
    matches!(spec.completion, Completion::Always { .. }) && none_waits && warming.is_over()
}

/// How long it is until a completed job is to be deleted; `None` where it stays.
#[must_use]
pub fn time_to_live(job: &PullJob, today: Timestamp) -> Option<Duration> {
    let Completion::Always {
        ttl_seconds: Some(seconds),
        ..
    } = job.spec.as_ref().ok()?.completion
    else {
        return None;
    };
    let age = today.duration_since(job.completed_at?);
    let left = SignedDuration::from_secs(seconds.into()).saturating_sub(age);
    Some(Duration::try_from(left).unwrap_or_default())
}
