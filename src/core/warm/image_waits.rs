//! Pods that wait for their images. A kubelet pulls one image at a time for all of its pods
//! (`serializeImagePulls`, on by default), so what is pulled ahead of time would keep them waiting.
//!
//! Whoever may make pods can have one that waits for ever: each counts for a while only, and so
//! many are kept of one node, and in all.

mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

pub use wire::ImageWaitWire;

/// A pod that is bound to a node and has not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageWait {
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `spec.nodeName`
    pub node: Box<str>,
    /// Whether its node may be pulling an image for it, or be about to.
    pub waits: bool,
}

/// How long one pod counts, from when it was first seen: longer than most pulls take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the first list is waited for.
const FIRST_LIST: Duration = Duration::from_secs(10);
/// So many pods of one node are kept; kubelets have room for fewer.
const PODS_OF_A_NODE: usize = 256;
/// So many are kept in all: a pod may name a node that is not there.
const PODS: usize = 20_000;

/// All pods that wait for their images, by their nodes.
#[derive(Debug, Default)]
pub struct ImageWaits {
    nodes: BTreeMap<Box<str>, BTreeMap<Box<str>, Waiting>>,
    count: usize,
    /// The number of the last list.
    list: u64,
    /// Nothing was told yet, and is waited for until then.
    unknown_until: Option<Duration>,
}

#[derive(Debug)]
struct Waiting {
    first_seen: Duration,
    waits: bool,
    /// The last list that has named it.
    list: u64,
}

impl ImageWaits {
    /// Somebody begins to look now.
    #[must_use]
    pub fn begun(now: Duration) -> Self {
        Self {
            unknown_until: Some(now + FIRST_LIST),
            ..Self::default()
        }
    }

    /// A list begins.
    pub const fn list_starts(&mut self) {
        self.list += 1;
    }

    /// The list is complete: what it has not named is gone.
    pub fn list_ends(&mut self) {
        self.unknown_until = None;
        for pods in self.nodes.values_mut() {
            pods.retain(|_, pod| pod.list == self.list);
        }
        self.nodes.retain(|_, pods| !pods.is_empty());
        self.count = self.nodes.values().map(BTreeMap::len).sum();
    }

    /// Nothing can be seen: then nobody is waited for.
    pub const fn cannot_be_seen(&mut self) {
        self.unknown_until = None;
    }

    /// A pod was seen.
    pub fn see(&mut self, pod: ImageWait, now: Duration) {
        let list = self.list;
        if let Some(known) = self
            .nodes
            .get_mut(&pod.node)
            .and_then(|pods| pods.get_mut(&pod.uid))
        {
            (known.waits, known.list) = (pod.waits, list);
            return;
        }
        if self.count < PODS
            && self
                .nodes
                .get(&pod.node)
                .is_none_or(|pods| pods.len() < PODS_OF_A_NODE)
        {
            self.count += 1;
            self.nodes.entry(pod.node).or_default().insert(
                pod.uid,
                Waiting {
                    first_seen: now,
                    waits: pod.waits,
                    list,
                },
            );
        }
    }

    /// A pod is gone, or has started.
    pub fn is_gone(&mut self, pod: &ImageWait) {
        let Some(pods) = self.nodes.get_mut(&pod.node) else {
            return;
        };
        self.count -= usize::from(pods.remove(&pod.uid).is_some());
        if pods.is_empty() {
            self.nodes.remove(&pod.node);
        }
    }

    /// Whether pods wait for their images on a node.
    #[must_use]
    pub fn are_on(&self, node: &str, now: Duration) -> bool {
        let counts = |pod: &Waiting| pod.waits && now < pod.first_seen + PATIENCE;
        self.unknown_until.is_some_and(|until| now < until)
            || self
                .nodes
                .get(node)
                .is_some_and(|pods| pods.values().any(counts))
    }
}
