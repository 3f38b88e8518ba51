//! OpenKruise's `ImagePullJob` and `ImageListPullJob`: which images to pull to which nodes, and the
//! progress so far. Read as `v1alpha1`, which every release serves.

mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::spec::SpecWire;
use crate::objects::recreate_request::{GROUP, VERSION};
use crate::objects::values::amount::Amount;
use crate::objects::values::bounded_object::BoundedObject;
use crate::objects::values::bounds::{self, cut};
use jiff::Timestamp;
use kube_core::{ApiResource, GroupVersionKind, Selector};
use serde::{Deserialize, Serialize, Serializer};

/// The annotation that made earlier versions pull the digests of tags. A job that has it must not
/// pull what a tag names now.
const PIN_TAGS: &str = "swaplet.io/pin-tags";

/// The most images of one job: OpenKruise's webhook allows no more.
pub const MOST_IMAGES: usize = 255;

/// The finalizer that OpenKruise puts on each job that is not completed, and removes when the job
/// is deleted. Where OpenKruise is gone, nothing else removes it.
pub const OPENKRUISES_FINALIZER: &str = "apps.kruise.io/deletion-protection";

/// The two kinds of pull jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
pub enum JobKind {
    /// A job for one image.
    ImagePullJob,
    /// A job for a list of images.
    ImageListPullJob,
}

/// A pull job, as read from the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct PullJob {
    /// The kind of the job.
    pub kind: JobKind,
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.resourceVersion`: our writes apply to this version only.
    pub version: Box<str>,
    /// `metadata.generation`: it increases with every change of the spec.
    pub generation: i64,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers` without OpenKruise's own; `None` if that is not among them.
    pub other_finalizers: Option<Vec<Box<str>>>,
    /// `spec`, or an error that names the field and the problem.
    pub spec: Result<PullSpec, String>,
    /// `spec.completionPolicy.ttlSecondsAfterFinished`, which also holds for a job whose spec cannot
    /// be used.
    pub ttl_seconds: Option<u32>,
    /// `status.observedGeneration`
    pub observed_generation: Option<i64>,
    /// `status.startTime`
    pub started_at: Option<Timestamp>,
    /// `status.completionTime`
    pub completed_at: Option<Timestamp>,
}

/// `spec` of a pull job, with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct PullSpec {
    /// The images, each once, in the order of the spec.
    pub images: Vec<Box<str>>,
    /// The nodes on which the images are wanted.
    pub targets: Targets,
    /// How many nodes may pull at a time.
    pub parallelism: Amount,
    /// `pullPolicy.timeoutSeconds`
    pub timeout_seconds: u32,
    /// `pullPolicy.backoffLimit`
    pub backoff_limit: u32,
    /// When the job is over.
    pub completion: Completion,
    /// How the pods that pull are made.
    pub pods: PodWishes,
}

/// The settings by which a job's pods are made. Jobs that differ in them cannot share a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodWishes {
    /// `pullSecrets`: names of Secrets of the job's namespace.
    pub pull_secrets: Vec<Box<str>>,
    /// True if `imagePullPolicy` is `Always`.
    pub always_pulls: bool,
    /// `sandboxConfig.labels`
    pub labels: BTreeMap<String, String>,
    /// `sandboxConfig.annotations`
    pub annotations: BTreeMap<String, String>,
    /// The keys of `sandboxConfig` that are not copied to the pods.
    pub left_out: Vec<Box<str>>,
}

/// The nodes of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// Nodes with these labels; all nodes if the selector is empty.
    Labels(Selector),
    /// Nodes with these names, if they exist.
    Names(BTreeSet<Box<str>>),
    /// Nodes on which pods of the job's namespace with these labels run.
    Pods(Selector),
}

/// When a job is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// When each node has the images or has failed.
    Always {
        /// `activeDeadlineSeconds`
        deadline_seconds: Option<u32>,
    },
    /// Never: new nodes get the images too.
    Never,
}

impl JobKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::ImagePullJob, Self::ImageListPullJob];

    /// Returns the kind as manifests spell it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the plural, as URLs spell it.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::ImagePullJob => "imagepulljobs",
            Self::ImageListPullJob => "imagelistpulljobs",
        }
    }

    /// Returns the API resource of the kind, for the client.
    pub fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, VERSION, self.as_str());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }
}

impl PullJob {
    /// Reads a job; `None` if name, namespace or uid are missing: such an object cannot be
    /// addressed.
    pub fn read(kind: JobKind, object: BoundedObject) -> Option<Self> {
        let BoundedObject { metadata, mut data } = object;
        let status = &data["status"];
        let time = |field: &str| status[field].as_str().and_then(|text| text.parse().ok());
        let (observed_generation, started_at, completed_at) = (
            status["observedGeneration"].as_i64(),
            time("startTime"),
            time("completionTime"),
        );
        let annotations = metadata.annotations.unwrap_or_default();
        let pins = annotations.get(PIN_TAGS).filter(|value| *value != "false");
        let ttl = data["spec"]["completionPolicy"]["ttlSecondsAfterFinished"].as_i64();
        let spec = SpecWire::deserialize(data["spec"].take()).map_err(|error| error.to_string());
        let finalizers = metadata.finalizers.unwrap_or_default();
        let (theirs, others): (Vec<_>, Vec<_>) = finalizers
            .into_iter()
            .partition(|name| name == OPENKRUISES_FINALIZER);
        let other_finalizers =
            (!theirs.is_empty()).then(|| others.into_iter().map(Into::into).collect());
        Some(Self {
            kind,
            namespace: metadata.namespace?.into(),
            name: metadata.name?.into(),
            uid: metadata.uid?.into(),
            version: metadata.resource_version.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            other_finalizers,
            spec: spec
                .and_then(|spec| pins.map_or_else(|| spec.read(), |_| Err(no_pins())))
                .map_err(|error| cut(&error, bounds::MESSAGE)),
            ttl_seconds: ttl.map(bounds::seconds),
            observed_generation,
            started_at,
            completed_at,
        })
    }

    /// Returns true if the job is completed and its spec has not changed since.
    pub fn is_completed(&self) -> bool {
        self.completed_at.is_some()
            && self
                .observed_generation
                .is_none_or(|observed| observed == self.generation)
    }
}

fn no_pins() -> String {
    format!(
        "tags are no longer pinned: remove the annotation {PIN_TAGS}, and write the digest into the image, as app:v1@sha256:..."
    )
}

// `status` of both kinds, as swaplet writes it.

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

#[cfg(test)]
mod tests;
