//! The writes for a node, their results, and the limits of the work.

use std::sync::Arc;
use std::time::Duration;

use super::pulled::Pulled;
use crate::report::write_error::WriteError;
use crate::warm::pod::{Shape, WarmerPod};

/// The limits of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many nodes may pull at a time.
    pub parallelism: usize,
    /// How long one try of an image may take, and how long a node may be not Ready.
    pub timeout: Duration,
    /// How many failed tries of an image are followed by another one; the same for lost pods of a
    /// node.
    pub backoff_limit: u32,
    /// The age at which a settled node is checked again for all images, as one may have been
    /// removed or its tag may have moved; `None`: never.
    pub ask_again: Option<Duration>,
}

/// The final result of an image on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The pod's status has proved that it is there.
    Succeeded,
    /// The image is not there, or that is unknown, for this reason, which many images may share.
    Failed(Arc<str>),
}

/// A write for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create a warmer pod.
    Create {
        /// How the pod pulls.
        shape: Shape,
        /// The images that the pod begins with; one, unless its shape has a container for each.
        images: Vec<Box<str>>,
        /// How many pods the node has had before, so that no two have the same name.
        number: u32,
    },
    /// Replace the image of the container.
    Swap {
        /// The name of the pod.
        name: Box<str>,
        /// The uid of the pod.
        uid: Box<str>,
        /// The index of the container.
        index: usize,
        /// The present image.
        from: Box<str>,
        /// The new image.
        to: Box<str>,
        /// The id of the present container, or the empty string; the next container will have
        /// another.
        before: Box<str>,
    },
    /// Delete the pod.
    Delete {
        /// The name of the pod.
        name: Box<str>,
        /// The uid of the pod.
        uid: Box<str>,
    },
}

/// The result of a write: the pod as it is stored now; `None` if the watch will show the result.
pub type Answer = Result<Option<Box<WarmerPod>>, WriteError>;

/// The final result of one image on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The name of the node.
    pub node: Box<str>,
    /// The image, as it was requested.
    pub image: Arc<str>,
    /// The result.
    pub end: End,
    /// What the kubelet reported about the pull.
    pub pulled: Option<Pulled>,
}

/// What others do on a node: other jobs, and pods that wait for their images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Another job has a pod there, so none is created.
    pub taken: bool,
    /// Another job waits for the node.
    pub wanted: bool,
    /// Pods that are not warmer pods wait there for their images, which come first.
    pub others_pull: bool,
}
