//! Warming: images are pulled to nodes before pods need them, without a daemon.
//!
//! A node gets one *warmer pod*, whose container runs the park program from a volume, so that
//! nothing of an image ever runs. Its image is swapped from one to the next ([`node`]); that an
//! image is there is believed only from the pod's status ([`evidence`]). Where that does not work,
//! a pod has a container for each of several images and a command that no image has ([`shape`]).
//! [`nodes`] says where nothing can be warmed, and [`pulled`] reads what the kubelet tells of a
//! pull.
//!
//! [`Warming`] knows all nodes and answers with at most one [`Action`] per node. Time comes in as
//! an argument, as everywhere here.

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
use std::time::Duration;

pub use self::action::{Action, Answer, Elsewhere, End, Ended, Limits};
pub use self::image::ImageProgress;
use self::node::NodeProgress;
pub(crate) use self::node::SLOW;
use self::pulled::Pulled;
use self::shape::Shapes;
use self::table::Table;
pub use self::waits::Waits;
use crate::warm::pod::WarmerPod;

/// The same images on all of these nodes.
#[derive(Debug)]
pub struct Warming {
    images: Vec<Box<str>>,
    limits: Limits,
    nodes: Table,
    skipped: BTreeMap<Box<str>, String>,
    /// Nodes about which a decision has panicked, with what the panic says.
    defects: Vec<(Box<str>, String)>,
    /// The node of each pod that was seen, by its uid.
    pods: BTreeMap<Box<str>, Box<str>>,
    waits: Waits,
    /// What is known may be other than when this was asked the last time.
    changed: bool,
}

impl Warming {
    /// These images in this order, on no node yet.
    #[must_use]
    pub const fn new(images: Vec<Box<str>>, limits: Limits) -> Self {
        Self {
            images,
            limits,
            nodes: Table::new(),
            skipped: BTreeMap::new(),
            defects: Vec::new(),
            pods: BTreeMap::new(),
            waits: Waits::new(),
            changed: true,
        }
    }

    /// The images, in their order.
    #[must_use]
    pub fn images(&self) -> &[Box<str>] {
        &self.images
    }

    /// Adds a node on which images can be warmed, by pods of these shapes.
    pub fn add(&mut self, node: &str, shapes: Shapes, ready: bool, now: Duration) {
        self.changed = true;
        self.skipped.remove(node);
        self.forget(node);
        self.nodes
            .insert(node, NodeProgress::new(&self.images, shapes, ready, now));
    }

    /// Adds a node on which none can, and why.
    pub fn skip(&mut self, node: &str, why: String) {
        self.changed = true;
        self.forget(node);
        self.skipped.insert(node.into(), why);
    }

    /// Forgets a node; a pod that is there is left to whoever asks this.
    pub fn leave(&mut self, node: &str) {
        self.changed = true;
        self.forget(node);
        self.skipped.remove(node);
    }

    /// Whether images are warmed on this node.
    #[must_use]
    pub fn has(&self, node: &str) -> bool {
        self.nodes.get(node).is_some()
    }

    /// Whether a pod is of use on its node; not where a defect has ended the work there.
    #[must_use]
    pub fn needs(&self, pod: &WarmerPod) -> bool {
        self.nodes
            .get(&pod.node)
            .is_some_and(|node| !node.is_broken)
    }

    /// What bounds the work from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The images from now on; what is known of those that stay is kept.
    pub fn set_images(&mut self, images: Vec<Box<str>>) {
        (self.images, self.changed) = (images, true);
        self.nodes.change_all(|node| node.set_images(&self.images));
    }

    /// Nothing more is tried: what is open has failed.
    pub fn give_up(&mut self, why: &str) {
        self.changed = true;
        self.nodes.change_all(|node| node.fail_all(why));
    }

    /// Somebody else has proved that an image is on a node.
    pub fn found(&mut self, node: &str, image: &str, pulled: Option<&Pulled>) {
        let found = self.nodes.change(node, |node| node.found(image, pulled));
        self.changed |= found.unwrap_or_default();
    }

    /// Images that have failed on a node get another chance.
    pub fn try_again(&mut self, node: &str, ready: bool, now: Duration) {
        let images = std::mem::take(&mut self.images);
        self.with(node, |node, _| node.try_again(&images, ready, now));
        self.images = images;
    }

    /// Whether a node may be pulling.
    #[must_use]
    pub fn is_active(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(NodeProgress::is_active)
    }

    /// The nodes that may be pulling.
    pub fn active(&self) -> impl Iterator<Item = &str> {
        self.nodes
            .busy()
            .filter(|(_, node)| node.is_active())
            .map(|(name, _)| name)
    }

    /// The nodes on which a pod of this is, each with whether its pull takes so long that others
    /// need not wait for it. A pod that is being deleted may hang there for long, and counts no
    /// more after a while.
    pub fn held(&self, now: Duration) -> impl Iterator<Item = (&str, bool)> {
        let held = self
            .nodes
            .busy()
            .filter(move |(_, node)| node.is_active() && !node.hangs(now));
        held.map(move |(name, node)| (name, node.slow(now).is_some()))
    }

    /// What its nodes wait for, as of the last step.
    #[must_use]
    pub const fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Whether what is known may be other than when this was asked the last time.
    pub const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }

    /// Whether one more node may begin.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        self.active().count() < self.limits.parallelism
    }

    /// Whether a node waits for nothing but leave to begin.
    #[must_use]
    pub fn waits_for(&self, node: &str, now: Duration) -> bool {
        self.nodes
            .get(node)
            .is_some_and(|node| node.wants_slot(now))
    }

    /// Whether a pull on the node is kept back, because pods of others wait for their images there.
    #[must_use]
    pub fn is_kept_back(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.kept.is_on())
    }

    /// The nodes that are left out, and why.
    #[must_use]
    pub const fn skipped(&self) -> &BTreeMap<Box<str>, String> {
        &self.skipped
    }

    /// What is known of each node that can be warmed, in the order of names.
    pub fn progress(&self) -> impl Iterator<Item = (&str, &[ImageProgress])> {
        self.nodes.iter().map(|(name, node)| (name, &*node.images))
    }

    /// What is known of a node that can be warmed; nothing of any other.
    #[must_use]
    pub fn progress_on(&self, node: &str) -> Option<&[ImageProgress]> {
        self.nodes.get(node).map(|node| &*node.images)
    }

    /// A node was seen.
    pub fn see_node(&mut self, node: &str, ready: bool, now: Duration) {
        self.with(node, |node, _| node.see_ready(ready, now));
    }

    /// A node is gone.
    pub fn node_is_gone(&mut self, node: &str) {
        self.with(node, |node, _| node.node_is_gone());
    }

    /// Others who were on a node may have left it. Whoever says in a [`step`](Self::step) that a
    /// node is taken says this as soon as that may not be so any more.
    pub fn is_free_again(&mut self, node: &str) {
        self.nodes.is_free_again(node);
    }

    /// A warmer pod was seen.
    pub fn see_pod(&mut self, pod: WarmerPod, now: Duration) {
        let node = pod.node.clone();
        self.with(&node, |node, _| node.see_pod(pod, now));
    }

    /// The pod with this uid is gone.
    pub fn pod_is_gone(&mut self, uid: &str, now: Duration) {
        if let Some(node) = self.pods.get(uid).cloned() {
            self.with(&node, |node, limits| node.pod_is_gone(uid, limits, now));
        }
    }

    /// Does something that may change a node, and remembers which pods are its own.
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

    /// The uids of the pods that are known.
    #[must_use]
    pub fn pods(&self) -> Vec<Box<str>> {
        self.nodes
            .busy()
            .filter_map(|(_, node)| node.pod_uid())
            .collect()
    }

    /// A kubelet has said something of a pull of the pod with this uid; how long it took, where
    /// that is news.
    pub fn hear(&mut self, uid: &str, pulled: &Pulled) -> Option<Duration> {
        let node = self.pods.get(uid)?.clone();
        self.with(&node, |node, _| node.hear(uid, pulled))?
    }

    /// What became of a write for this node.
    pub fn written(&mut self, node: &str, action: &Action, answer: Answer, now: Duration) {
        self.with(node, |node, limits| {
            node.written(action, answer, limits, now)
        });
    }

    /// The nodes about which a decision has panicked since this was asked the last time, with what
    /// the panic says. All images that were open there have failed.
    pub fn take_defects(&mut self) -> Vec<(Box<str>, String)> {
        std::mem::take(&mut self.defects)
    }

    /// What has become final since this was asked the last time.
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

    /// The nodes on which another shape of pods is used since this was asked the last time, and
    /// why.
    pub fn fallbacks(&mut self) -> Vec<(Box<str>, Box<str>)> {
        let mut fallbacks = Vec::new();
        for name in self.nodes.with_news() {
            let why = self.nodes.change(&name, |node| node.fell_back.take());
            fallbacks.extend(why.flatten().map(|why| (name, why)));
        }
        fallbacks
    }

    /// Whether there is an image on a node of whose pull the kubelet has said nothing.
    #[must_use]
    pub fn is_told_nothing_of_a_pull(&self) -> bool {
        let is_untold =
            |image: &ImageProgress| image.end == Some(End::Succeeded) && image.pulled.is_none();
        self.nodes
            .iter()
            .flat_map(|(_, node)| &node.images)
            .any(is_untold)
    }

    /// Whether everything is final and no pod is left but such as are being deleted.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.nodes.has_more() && self.nodes.busy().all(|(_, node)| node.is_over())
    }
}
