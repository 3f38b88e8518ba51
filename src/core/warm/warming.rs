//! Warming: images are pulled to nodes before pods need them, without a daemon.
//!
//! A node gets one *warmer pod*, whose container runs the park program from a volume, so that no
//! program of an image ever runs. Its image is swapped from one to the next ([`node`]); only the
//! pod's status proves that an image is there ([`evidence`]). On Windows a pod has a container for
//! each of several images and a command that no image has ([`shape`]). [`nodes`] decides which nodes
//! can be warmed at all, and [`pulled`] reads what the kubelet reports about a pull.
//!
//! [`Warming`] has the state of all nodes and returns at most one [`Action`] per node. Time is an
//! argument, as everywhere in this crate.

mod action;
pub mod evidence;
mod image;
mod node;
pub mod nodes;
pub mod pulled;
pub mod shape;
mod step;
mod table;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use self::action::{Action, Answer, Elsewhere, End, Ended, Limits};
pub use self::image::ImageProgress;
pub use self::node::LEAVE;
use self::node::NodeProgress;
pub(crate) use self::node::SLOW;
use self::pulled::Pulled;
use self::table::Table;
pub use self::waits::Waits;
use crate::objects::moment::Moment;
use crate::warm::pod::{Shape, WarmerPod};

/// The same images on a set of nodes, and the progress on each.
#[derive(Debug)]
pub struct Warming {
    images: Vec<Arc<str>>,
    limits: Limits,
    nodes: Table,
    skipped: BTreeMap<Box<str>, String>,
    /// Nodes on which a decision has panicked, with the panic message.
    defects: Vec<(Box<str>, String)>,
    /// The node of each known pod, by the uid of the pod.
    pods: BTreeMap<Box<str>, Box<str>>,
    waits: Waits,
    /// Set when the state may have changed since it was last queried.
    changed: bool,
}

impl Warming {
    /// Creates the state for these images, in this order, without a node.
    #[must_use]
    pub fn new(images: Vec<Box<str>>, limits: Limits) -> Self {
        Self {
            images: images.into_iter().map(Arc::from).collect(),
            limits,
            nodes: Table::new(),
            skipped: BTreeMap::new(),
            defects: Vec::new(),
            pods: BTreeMap::new(),
            waits: Waits::new(),
            changed: true,
        }
    }

    /// Returns the images, in their order.
    #[must_use]
    pub fn images(&self) -> &[Arc<str>] {
        &self.images
    }

    /// Adds a node on which images can be warmed, by pods of this shape.
    pub fn add(&mut self, node: &str, shape: Shape, ready: bool, now: Moment) {
        self.changed = true;
        self.skipped.remove(node);
        self.forget(node);
        self.nodes
            .insert(node, NodeProgress::new(&self.images, shape, ready, now));
    }

    /// Adds a node on which no image can be warmed, with the reason.
    pub fn skip(&mut self, node: &str, why: String) {
        self.changed = true;
        self.forget(node);
        self.skipped.insert(node.into(), why);
    }

    /// Forgets a node; deleting its pod is left to the caller.
    pub fn leave(&mut self, node: &str) {
        self.changed = true;
        self.forget(node);
        self.skipped.remove(node);
    }

    /// Returns true if images are warmed on this node.
    #[must_use]
    pub fn has(&self, node: &str) -> bool {
        self.nodes.get(node).is_some()
    }

    /// Returns true if the pod's node is warmed, and no defect has ended the work there.
    #[must_use]
    pub fn needs(&self, pod: &WarmerPod) -> bool {
        self.nodes
            .get(&pod.node)
            .is_some_and(|node| !node.is_broken)
    }

    /// Sets the limits that apply from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.changed |= limits.parallelism != self.limits.parallelism;
        self.limits = limits;
    }

    /// Returns true if no node may begin now.
    #[must_use]
    pub const fn may_begin_none(&self) -> bool {
        self.limits.parallelism == 0
    }

    /// Sets the images; the progress of those that stay is kept.
    pub fn set_images(&mut self, images: Vec<Box<str>>) {
        self.images = images.into_iter().map(Arc::from).collect();
        self.changed = true;
        self.nodes.change_all(|node| node.set_images(&self.images));
    }

    /// Fails all images that are not final, and so ends the work.
    pub fn give_up(&mut self, why: &str) {
        self.changed = true;
        self.nodes.change_all(|node| node.fail_all(why));
    }

    /// Tries images again that have failed on a node, unless it has a pod and was not given up.
    pub fn try_again(&mut self, node: &str, ready: bool, now: Moment) {
        let images = std::mem::take(&mut self.images);
        self.with(node, |node, _| node.try_again(&images, ready, now));
        self.images = images;
    }

    /// Returns true if the node has a pod, which may be pulling.
    #[must_use]
    pub fn has_pod(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(NodeProgress::has_pod)
    }

    /// Returns the nodes that may be pulling.
    pub fn active(&self) -> impl Iterator<Item = &str> {
        self.nodes
            .busy()
            .filter(|(_, node)| node.is_active())
            .map(|(name, _)| name)
    }

    /// Returns the nodes that may be pulling, each with true if its pull is so slow that others
    /// need not wait for it. A node whose pod has been terminating for too long is left out.
    pub fn held(&self, now: Moment) -> impl Iterator<Item = (&str, bool)> {
        let held = self
            .nodes
            .busy()
            .filter(move |(_, node)| node.is_active() && !node.hangs(now));
        held.map(move |(name, node)| (name, node.slow(now).is_some()))
    }

    /// Returns what the nodes wait for, as of the last step.
    #[must_use]
    pub const fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Returns true if the state may have changed since the last call.
    pub const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }

    /// Returns true if one more node may begin.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        self.active().count() < self.limits.parallelism
    }

    /// Returns true if the node waits only for a slot to begin.
    #[must_use]
    pub fn waits_for(&self, node: &str, now: Moment) -> bool {
        self.nodes
            .get(node)
            .is_some_and(|node| node.wants_slot(now))
    }

    /// Returns true if a pull on the node is held back because pods of others wait for their images
    /// there.
    #[must_use]
    pub fn is_kept_back(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.kept.is_on())
    }

    /// Returns the nodes that are left out, with the reason.
    #[must_use]
    pub const fn skipped(&self) -> &BTreeMap<Box<str>, String> {
        &self.skipped
    }

    /// Returns the progress of each node that can be warmed, in the order of names.
    pub fn progress(&self) -> impl Iterator<Item = (&str, &[ImageProgress])> {
        self.nodes.iter().map(|(name, node)| (name, &*node.images))
    }

    /// Returns the progress of a node; `None` if it cannot be warmed.
    #[must_use]
    pub fn progress_on(&self, node: &str) -> Option<&[ImageProgress]> {
        self.nodes.get(node).map(|node| &*node.images)
    }

    /// Records whether a node is Ready.
    pub fn observe_node(&mut self, node: &str, ready: bool, now: Moment) {
        self.with(node, |node, _| node.observe_ready(ready, now));
    }

    /// Records that a node is gone, or no longer selected.
    pub fn node_is_gone(&mut self, node: &str) {
        self.with(node, |node, _| node.node_is_gone());
    }

    /// Records that others may have left a node. A caller whose [`step`](Self::step) reported the
    /// node as taken calls this as soon as that may have changed.
    pub fn is_free_again(&mut self, node: &str) {
        self.nodes.is_free_again(node);
    }

    /// Records the state of a warmer pod.
    pub fn observe_pod(&mut self, pod: WarmerPod, now: Moment) {
        let node = pod.node.clone();
        self.with(&node, |node, _| node.observe_pod(pod, now));
    }

    /// Records that the pod with this uid is gone.
    pub fn pod_is_gone(&mut self, uid: &str, now: Moment) {
        if let Some(node) = self.pods.get(uid).cloned() {
            self.with(&node, |node, limits| node.pod_is_gone(uid, limits, now));
        }
    }

    /// Runs `work`, which may change a node, and updates the uids of its pods.
    fn with<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut NodeProgress, &Limits) -> T,
    ) -> Option<T> {
        let (limits, pods) = (&self.limits, &mut self.pods);
        let done = self.nodes.change(name, |node| {
            node.uids().for_each(|uid| drop(pods.remove(uid)));
            let done = work(node, limits);
            pods.extend(node.uids().map(|uid| (uid.clone(), name.into())));
            done
        });
        self.changed |= done.is_some();
        done
    }

    /// Forgets a node, with its pods.
    fn forget(&mut self, name: &str) {
        if let Some(node) = self.nodes.remove(name) {
            node.uids().for_each(|uid| drop(self.pods.remove(uid)));
        }
    }

    /// Returns the uids of the known pods.
    pub fn pods(&self) -> impl Iterator<Item = Box<str>> {
        self.nodes.busy().filter_map(|(_, node)| node.pod_uid())
    }

    /// Records what a kubelet reported about a pull of the pod with this uid. Returns how long the
    /// pull took, unless that is known already.
    pub fn handle(&mut self, uid: &str, pulled: &Pulled) -> Option<Duration> {
        let node = self.pods.get(uid)?.clone();
        self.with(&node, |node, _| node.handle(uid, pulled))?
    }

    /// Records the result of a write for this node.
    pub fn written(&mut self, node: &str, action: &Action, answer: Answer, now: Moment) {
        self.with(node, |node, limits| {
            node.written(action, answer, limits, now)
        });
    }

    /// Returns the nodes on which a decision has panicked since the last call, with the panic
    /// message. All images that were open there have failed.
    pub fn take_defects(&mut self) -> Vec<(Box<str>, String)> {
        std::mem::take(&mut self.defects)
    }

    /// Returns what has become final since the last call.
    pub fn news(&mut self) -> Vec<Ended> {
        let mut news = Vec::new();
        for name in self.nodes.with_news() {
            let ended = self.nodes.change(&name, |node| {
                std::mem::take(&mut node.news)
                    .into_iter()
                    .filter_map(|index| node.images[index].ended(&name))
                    .collect::<Vec<_>>()
            });
            news.extend(ended.into_iter().flatten());
        }
        news
    }

    /// Returns true if a kubelet has not reported the pull of an image that is on its node.
    #[must_use]
    pub fn is_told_nothing_of_a_pull(&self) -> bool {
        let is_untold =
            |image: &ImageProgress| image.end == Some(End::Succeeded) && image.pulled.is_none();
        self.nodes
            .iter()
            .flat_map(|(_, node)| &node.images)
            .any(is_untold)
    }

    /// Returns true if everything is final and no pod is left but those being deleted.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.nodes.has_more() && self.nodes.busy().all(|(_, node)| node.is_over())
    }
}
