//! What is written for a node, what comes of it, and what bounds it.

use std::time::Duration;

use super::pulled::Pulled;
use crate::warm::pod::{Shape, WarmerPod};

/// What bounds the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many nodes may pull at a time.
    pub parallelism: usize,
    /// How long one try of an image may take, and how long a node is waited for that is not Ready.
    pub timeout: Duration,
    /// How many tries of an image may fail before it has failed; the same for pods of a node that
    /// get lost.
    pub backoff_limit: u32,
    /// How long after it was asked the last time a node is asked for all images again, as one may
    /// have been removed or its tag have moved meanwhile; `None`: never.
    pub ask_again: Option<Duration>,
}

/// What became of an image on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The pod's status has proved that it is there.
    Succeeded,
    /// It is not, or nobody knows; why.
    Failed(Box<str>),
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a warmer pod.
    Create {
        /// What it is.
        shape: Shape,
        /// The images that it begins with; one, unless its shape has a container for each.
        images: Vec<Box<str>>,
        /// How many pods the node has had before, so that no two have one name.
        number: u32,
    },
    /// Give the container another image.
    Swap {
        /// The pod.
        name: Box<str>,
        /// Its uid.
        uid: Box<str>,
        /// The index of the container.
        index: usize,
        /// The image that it has.
        from: Box<str>,
        /// The image that it gets.
        to: Box<str>,
        /// The id of the container that is there now, or nothing: the next one will have another.
        before: Box<str>,
    },
    /// Delete the pod.
    Delete {
        /// The pod.
        name: Box<str>,
        /// Its uid.
        uid: Box<str>,
    },
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod as it is stored now.
    Pod(Box<WarmerPod>),
    /// It was done, and the watch will show it.
    Done,
    /// The pod is not what it was when this was decided.
    Conflict,
    /// The pod, or for a new one the namespace, is not there.
    Gone,
    /// The API server forbids it; its words.
    Denied(String),
    /// It failed, or nobody knows.
    Failed {
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
}

/// What became of one image on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The node.
    pub node: Box<str>,
    /// The image.
    pub image: Box<str>,
    /// What became of it.
    pub end: End,
    /// What the kubelet has said of the pull.
    pub pulled: Option<Pulled>,
}

/// What others do on a node who warm images as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// A pod of theirs is there: no other begins.
    pub taken: bool,
    /// They wait for the node.
    pub wanted: bool,
    /// Pods that warm nothing wait there for their images, which come first.
    pub others_pull: bool,
}
