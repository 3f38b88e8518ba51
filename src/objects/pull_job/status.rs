//! `status` of both kinds, as it is written.

use serde::Serialize;

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
}
