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

pub mod evidence;
mod node;
mod step;
mod table;

pub use self::node::LEAVE;
pub(crate) use self::node::SLOW;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::node::NodeProgress;
use self::table::Table;
use crate::cluster::node_class::{NodeClass, Recognised};
use crate::objects::moment::Moment;
use crate::objects::node::Node;
use crate::objects::runs_on::{is_linux, is_ours};
use crate::objects::values::backoff::Backoff;
use crate::objects::values::go_duration::duration;
use crate::report::write_error::WriteError;
use crate::warm::pod::{Shape, WarmerPod};

/// How long Events are waited for when all else is final; they arrive a little after the status.
const LATE_EVENTS: Duration = Duration::from_secs(2);

/// The same images on a set of nodes, and the progress on each.
#[derive(Debug)]
pub struct Warming {
    images: Vec<Arc<str>>,
    limits: Limits,
    /// How many more nodes may begin in the next step, whatever the limits.
    pub room: usize,
    nodes: Table,
    skipped: BTreeMap<Box<str>, String>,
    /// Nodes on which a decision has panicked, with the panic message.
    defects: Vec<(Box<str>, String)>,
    /// The node of each known pod, by the uid of the pod.
    pods: BTreeMap<Box<str>, Box<str>>,
    waits: Waits,
    /// Since when everything is final; `None` while it is not.
    over_since: Option<Moment>,
    /// Set when the state may have changed since it was last queried.
    changed: bool,
}

impl Warming {
    /// Creates the state for these images, in this order, without a node.
    pub fn new(images: Vec<Box<str>>, limits: Limits) -> Self {
        Self {
            images: images.into_iter().map(Arc::from).collect(),
            limits,
            room: usize::MAX,
            nodes: Table::new(),
            skipped: BTreeMap::new(),
            defects: Vec::new(),
            pods: BTreeMap::new(),
            waits: Waits::default(),
            over_since: None,
            changed: true,
        }
    }

    /// Returns the images, in their order.
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
    pub fn has(&self, node: &str) -> bool {
        self.nodes.get(node).is_some()
    }

    /// Returns true if the pod's node is warmed, and no defect has ended the work there.
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
    pub const fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Returns true if the state may have changed since the last call.
    pub const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }

    /// Returns true if one more node may begin.
    pub fn may_begin(&self) -> bool {
        self.active().count() < self.limits.parallelism
    }

    /// Returns true if a pod is still to be created for a node, now or later.
    pub fn has_more(&self) -> bool {
        self.nodes.has_more()
    }

    /// Returns true if the node waits only for a slot to begin.
    pub fn waits_for(&self, node: &str, now: Moment) -> bool {
        self.nodes
            .get(node)
            .is_some_and(|node| node.wants_slot(now))
    }

    /// Returns true if a pull on the node is held back because pods of others wait for their images
    /// there.
    pub fn is_kept_back(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.kept.is_on())
    }

    /// Returns the nodes that are left out, with the reason.
    pub const fn skipped(&self) -> &BTreeMap<Box<str>, String> {
        &self.skipped
    }

    /// Returns the progress of each node that can be warmed, in the order of names.
    pub fn progress(&self) -> impl Iterator<Item = (&str, &[ImageProgress])> {
        self.nodes.iter().map(|(name, node)| (name, &*node.images))
    }

    /// Returns the progress of a node; `None` if it cannot be warmed.
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

    /// Records what a kubelet reported about a pull of the pod with this uid. Returns how long the
    /// pull took, unless that is known already.
    pub fn handle(&mut self, uid: &str, pulled: &Pulled) -> Option<Duration> {
        let node = self.pods.get(uid)?.clone();
        self.with(&node, |node, _| node.handle(uid, pulled))?
    }

    /// Records the result of a write for this node.
    pub fn written(&mut self, node: &str, action: &Action, answer: Answer, now: Moment) {
        let has_pods = self.nodes.busy().any(|(_, node)| node.has_pod());
        self.with(node, |node, limits| {
            if has_pods {
                node.shares_quota(now);
            }
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
    fn is_told_nothing_of_a_pull(&self) -> bool {
        let is_untold =
            |image: &ImageProgress| image.end == Some(End::Succeeded) && image.pulled.is_none();
        self.nodes
            .iter()
            .flat_map(|(_, node)| &node.images)
            .any(is_untold)
    }

    /// Returns true if everything is final and no pod is left but those being deleted.
    pub fn is_over(&self) -> bool {
        !self.has_more() && self.nodes.busy().all(|(_, node)| node.is_over())
    }

    /// Returns true if everything is final, which the caller says, and kubelets have had time to
    /// report the pulls.
    pub fn has_ended(&mut self, is_over: bool, now: Moment) -> bool {
        self.over_since = is_over.then(|| self.over_since.unwrap_or(now));
        self.over_since
            .is_some_and(|since| now >= since + LATE_EVENTS || !self.is_told_nothing_of_a_pull())
    }

    /// Returns true if the end depends on time, because kubelets may still report pulls.
    pub const fn waits_for_its_end(&self) -> bool {
        self.over_since.is_some()
    }
}

// What the kubelet reports about a pull in its Event `Pulled`: how long it took, and the size of
// the image. Events may be lost, so nothing depends on them; only [`evidence`](super::evidence)
// uses one as a proof where a status alone is unclear.

/// A pull, as the kubelet reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The image, as the spec of the pod has it.
    pub image: Arc<str>,
    /// The duration of the pull, without waiting for other pulls of the node; `None` if the image
    /// was there already.
    pub took: Option<Duration>,
    /// The size of the image, in bytes; kubelets before 1.30 do not report it.
    pub bytes: Option<u64>,
}

impl Pulled {
    /// Reads the message of an Event `Pulled` (`kubelet/images/image_manager.go`), if it is one.
    pub fn read(message: &str) -> Option<Self> {
        if let Some(rest) = message.strip_prefix("Successfully pulled image \"") {
            let (image, rest) = rest.split_once("\" in ")?;
            let took = duration(rest.split_whitespace().next()?.trim_end_matches('.'))?;
            let bytes = rest
                .split_once("Image size: ")
                .and_then(|(_, size)| size.split_whitespace().next()?.parse().ok());
            return Some(Self {
                image: image.into(),
                took: Some(took),
                bytes,
            });
        }
        let (image, rest) = message
            .strip_prefix("Container image \"")?
            .split_once('"')?;
        rest.starts_with(" already present on machine")
            .then(|| Self {
                image: image.into(),
                took: None,
                bytes: None,
            })
    }
}

// The shape of a node's warmer pods, which the node decides.
//
// * On Linux a container whose image is swapped in place, where the park program runs: one image
//   after the other.
//
// * On Windows, where no park program runs, an impossible command: a container for each of up to 8
//   images. The command is a name of 256 bytes, which no file system has, so no image can have it.
//   A container that could not be started (`StartError`) and has an `imageID` is the proof; one
//   that has run, with whatever exit code, is a failure. It is not the shape everywhere, because
//   each image leaves a failed container, and a pull that hangs keeps the others of its pod
//   waiting.

/// Returns the shape of the pods for a node that keeps images.
///
/// # Errors
/// The reason why no pod of ours can pull there.
pub fn shape_on(node: &Node) -> Result<Shape, String> {
    match node.system() {
        Some(system) if is_linux(system) => no_park_program(node).map_or(Ok(Shape::InPlace), Err),
        Some("windows") => Ok(Shape::ImpossibleCommand),
        Some(other) => Err(format!(
            "this node runs {other}, which warmer pods do not support"
        )),
        None => Err(
            "this node says its operating system neither in the label kubernetes.io/os nor in its status"
                .to_owned(),
        ),
    }
}

/// Returns why the park program, which is built for some platforms, cannot run there.
fn no_park_program(node: &Node) -> Option<String> {
    match node.processor() {
        Some(processor) if is_ours(processor) => None,
        Some(processor) => Some(format!("there is no park program for {processor}")),
        None => Some("this node does not say its processor".to_owned()),
    }
}

// The nodes that can be warmed at all.

/// The remedy for nodes whose provider has image caches.
const CACHES: &str = "; for jobs swaplet run --warm --warm-image-caches creates an ImageCache for it, if the CRD of ImageCaches is installed";

/// Returns true if the provider of a node starts its machines from image caches.
pub fn has_image_caches(recognised: &Recognised) -> bool {
    recognised.has(|row| row.eci_image_caches)
}

/// Returns the shape of the warmer pods for a node.
///
/// On a virtual node there is no place where an image could wait for the next pod: each pod gets a
/// machine of its own, or runs elsewhere. A status from such a node would
/// prove nothing.
///
/// # Errors
/// The reason why images cannot be warmed there.
pub fn shape(node: &Node, recognised: &Recognised) -> Result<Shape, String> {
    let provider = recognised.provider().unwrap_or("a virtual node");
    let why = &recognised.why;
    if recognised.class == NodeClass::Unknown {
        return Err(format!(
            "it is not known whether this virtual node keeps images ({why}); label it swaplet.io/node-class=Kubelet if it does"
        ));
    }
    if !recognised.class.is_kubelet() {
        let caches = if has_image_caches(recognised) {
            CACHES
        } else {
            ""
        };
        return Err(format!(
            "{provider} keeps no images for later pods ({why}){caches}"
        ));
    }
    if recognised.has(|row| row.machine_per_pod) {
        return Err(format!(
            "{provider} runs each pod on a machine of its own, which keeps no images for later pods ({why})"
        ));
    }
    shape_on(node)
}

// What the nodes of a job wait for that the job itself does not cause.

/// The number of nodes that wait for each cause, with the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Nodes that could begin if others had no pod there.
    pub elsewhere: usize,
    /// Nodes on which pulls are held back for a while because pods of others wait there.
    pub kept: usize,
    /// The first of the nodes in `kept`.
    pub first_kept: Option<Box<str>>,
    /// Nodes that have been pulling for long.
    pub slow: usize,
    /// The first of the nodes in `slow`, with the image.
    pub first_slow: Option<(Box<str>, Box<str>)>,
    /// Nodes with a deleted pod that does not go away.
    pub stuck: usize,
    /// The first of the nodes in `stuck`.
    pub first_stuck: Option<Box<str>>,
    /// Nodes for which the last write was not taken.
    pub untaken: usize,
    /// The first of the nodes in `untaken`, with the reason.
    pub first_untaken: Option<(Box<str>, Box<str>)>,
}

impl Waits {
    /// Counts the node if its pulls have been held back for a while.
    pub(crate) fn note_kept(&mut self, name: &str, node: &NodeProgress, now: Moment) {
        if node.kept.is_long(now) {
            self.kept += 1;
            self.first_kept.get_or_insert_with(|| name.into());
        }
    }

    pub(crate) fn note(&mut self, name: &str, node: &NodeProgress, now: Moment) {
        if let Some(image) = node.slow(now) {
            self.slow += 1;
            self.first_slow
                .get_or_insert_with(|| (name.into(), image.into()));
        }
        if node.is_stuck(now) {
            self.stuck += 1;
            self.first_stuck.get_or_insert_with(|| name.into());
        }
        if let Some(untaken) = &node.untaken {
            self.untaken += 1;
            self.first_untaken
                .get_or_insert_with(|| (name.into(), untaken.why.clone()));
        }
    }
}

// One image on one node: its failed tries, and when the next may begin.
//
// An image is tried again a little later than the kubelet would (after 12 s instead of 10):
// sooner, the kubelet only repeats its last report. `CrashLoopBackOff` does not show that an image
// was pulled: after a failed pull the kubelet reports it for the previous container (measured).

/// The back-off between tries of an image. It is a little longer than the kubelet's own (10 s,
/// doubled up to 300 s), so that each of our tries is a real pull.
const RETRY: Backoff = Backoff::seconds(12, 330);

/// The progress of one image on one node.
#[derive(Clone, Debug, Default)]
pub struct ImageProgress {
    /// The image, as it was requested; one text for all nodes, because there are many.
    pub image: Arc<str>,
    /// The final result; `None` until it is known.
    pub end: Option<End>,
    /// What the kubelet reported about the pull.
    pub pulled: Option<Pulled>,
    failures: u32,
    /// True if the failure that the status shows is counted. A kubelet shows it until its next pull
    /// has ended.
    pub(crate) is_counted: bool,
    /// The earliest time of the next try.
    pub(crate) not_before: Moment,
    /// How long this try took before others had their turn on the node.
    pub(crate) spent: Duration,
}

impl ImageProgress {
    pub(crate) fn new(image: Arc<str>) -> Self {
        Self {
            image,
            ..Self::default()
        }
    }

    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.end.is_none() && now >= self.not_before
    }

    /// Returns the final result on this node; `None` until it is known.
    pub(crate) fn ended(&self, node: &str) -> Option<Ended> {
        Some(Ended {
            node: node.into(),
            image: self.image.clone(),
            end: self.end.clone()?,
            pulled: self.pulled.clone(),
        })
    }

    /// Records what the kubelet reported about the pull.
    pub(crate) fn was_pulled(&mut self, pulled: &Pulled) {
        let is_same = *pulled.image == *self.image;
        let image = if is_same { &self.image } else { &pulled.image };
        self.pulled = Some(Pulled {
            image: image.clone(),
            ..*pulled
        });
    }

    /// Records a failed try and sets the back-off. Returns true if another try is allowed.
    pub(crate) fn may_try_again(&mut self, backoff_limit: u32, now: Moment) -> bool {
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        self.is_counted = true;
        (self.not_before, self.spent) = (now + wait, Duration::ZERO);
        self.failures <= backoff_limit
    }
}

// The writes for a node, their results, and the limits of the work.

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
