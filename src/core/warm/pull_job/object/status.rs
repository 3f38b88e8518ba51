//! `status` of both kinds, as swaplet writes it.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// `status` of an `ImagePullJob`, without the times, which are written once. It counts nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PullStatus {
    /// Nodes on which the image is wanted.
    pub desired: usize,
    /// Nodes that are pulling now.
    pub active: usize,
    /// Nodes that have the image.
    pub succeeded: usize,
    /// Nodes that will not get the image.
    pub failed: usize,
    /// Nodes that keep no images for later pods.
    pub skipped: usize,
    /// The progress, and what prevents more.
    pub message: String,
    /// The names of failed nodes, up to a bound.
    pub failed_nodes: Vec<Box<str>>,
    /// The first failures, with the reason.
    pub failures: Vec<Failure>,
    /// What kubelets have reported of the pulls; null, which removes it, if they have reported
    /// nothing.
    pub pulls: Option<Pulls>,
}

/// What kubelets have reported of the pulls of an image. They report few pulls in a row, so there
/// may have been more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pulls {
    /// Nodes that have pulled the image; the others had it, or their kubelets reported nothing.
    pub nodes: usize,
    /// The size of the image in bytes: the largest, if it differs between nodes. Kubelets before
    /// 1.30 do not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The duration of the slowest pull, without waiting for other pulls of the node; written like
    /// a Go duration.
    #[serde(serialize_with = "as_go_writes_it")]
    pub slowest: Duration,
    /// The node of the slowest pull.
    pub slowest_node: Box<str>,
}

fn as_go_writes_it<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:.3}s", time.as_secs_f64()))
}

/// A node that will not get the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The name of the node.
    pub node: Box<str>,
    /// Why it will not get the image.
    pub message: Box<str>,
}

/// `status` of an `ImageListPullJob`, without the times. It counts images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListStatus {
    /// Images that are wanted.
    pub desired: usize,
    /// Images that at least one node is pulling now.
    pub active: usize,
    /// Images that each node has got or has failed to get.
    pub completed: usize,
    /// Images that each node has.
    pub succeeded: usize,
    /// Nodes that keep no images for later pods.
    pub skipped: usize,
    /// The progress, and what prevents more.
    pub message: String,
    /// Images that are missing on a node, up to a bound.
    pub failed_image_statuses: Vec<FailedImage>,
    /// The counts of each image.
    pub image_statuses: Vec<ImageCounts>,
}

/// An image that is missing on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedImage {
    /// The image, as the job spells it.
    pub name: Box<str>,
    /// How many nodes failed, and the first of them with the reason.
    pub message: String,
}

/// The counts of one image of a list. They count nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageCounts {
    /// The image, as the job spells it.
    pub name: Box<str>,
    /// Nodes on which it is wanted.
    pub desired: usize,
    /// Nodes that have the image.
    pub succeeded: usize,
    /// Nodes that will not get the image.
    pub failed: usize,
    /// What kubelets have reported of the pulls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulls: Option<Pulls>,
}
