//! `status` of both kinds, as it is written.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

/// `status` of an `ImagePullJob`, without the times, which are written once. Counts are nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PullStatus {
    /// Nodes on which the image is wanted.
    pub desired: usize,
    /// Nodes that pull now.
    pub active: usize,
    /// Nodes that have it.
    pub succeeded: usize,
    /// Nodes that will not get it.
    pub failed: usize,
    /// Nodes that keep no images for later pods.
    pub skipped: usize,
    /// How far it is, and what stands in the way.
    pub message: String,
    /// The names of those that have failed, a bounded number of them.
    pub failed_nodes: Vec<Box<str>>,
    /// The first of them, with the reason.
    pub failures: Vec<Failure>,
    /// What the kubelets have told of its pulls; null, which takes it away, where they have told
    /// nothing.
    pub pulls: Option<Pulls>,
    /// The digest of its tag; null, which takes it away, where tags are not pinned.
    pub pinned: Option<Vec<Pinned>>,
}

/// The digest that a tag had when the job was begun; this one is pulled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The image, as the job has it.
    pub image: Box<str>,
    /// The digest, as `sha256:...`.
    pub digest: Box<str>,
}

/// What the kubelets have told of the pulls of an image. They tell of few pulls in a row, so there
/// may have been more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pulls {
    /// Nodes that have pulled it; on the others it was there, or their kubelets have told nothing.
    pub nodes: usize,
    /// Its size, in bytes: the largest, where it differs from node to node. Kubelets before 1.30 do
    /// not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How long the slowest of them took, without waiting for other pulls of the node; written as
    /// Go writes durations.
    #[serde(serialize_with = "as_go_writes_it")]
    pub slowest: Duration,
    /// The node of that pull.
    pub slowest_node: Box<str>,
}

fn as_go_writes_it<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:.3}s", time.as_secs_f64()))
}

/// A node that will not get the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Its name.
    pub node: Box<str>,
    /// Why.
    pub message: Box<str>,
}

/// `status` of an `ImageListPullJob`, without the times. Counts are images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListStatus {
    /// Images that are wanted.
    pub desired: usize,
    /// Images that a node pulls now.
    pub active: usize,
    /// Images of which each node has got it or has failed.
    pub completed: usize,
    /// Images that each node has.
    pub succeeded: usize,
    /// Nodes that keep no images for later pods.
    pub skipped: usize,
    /// How far it is, and what stands in the way.
    pub message: String,
    /// Images that are missing on a node.
    pub failed_image_statuses: Vec<FailedImage>,
    /// Each image.
    pub image_statuses: Vec<ImageCounts>,
    /// The digests of tags; null, which takes them away, where tags are not pinned.
    pub pinned: Option<Vec<Pinned>>,
}

/// An image that is missing on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedImage {
    /// The image.
    pub name: Box<str>,
    /// The first node that will not get it, with the reason.
    pub message: String,
}

/// One image of a list. Counts are nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageCounts {
    /// The image.
    pub name: Box<str>,
    /// Nodes on which it is wanted.
    pub desired: usize,
    /// Nodes that have it.
    pub succeeded: usize,
    /// Nodes that will not get it.
    pub failed: usize,
    /// What the kubelets have told of its pulls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulls: Option<Pulls>,
}
