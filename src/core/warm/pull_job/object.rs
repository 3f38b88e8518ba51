//! OpenKruise's `ImagePullJob` and `ImageListPullJob`: what is to be pulled to which nodes, and how
//! far it is. Read as `v1alpha1`, which every release serves.

mod spec;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube_core::{ApiResource, Selector};
use serde::Deserialize;

use self::spec::SpecWire;
use crate::objects::recreate_request::{GROUP, VERSION};
use crate::objects::values::bounded_object::BoundedObject;
use crate::objects::values::bounds::{self, cut};
pub use status::{FailedImage, Failure, ImageCounts, ListStatus, Pinned, PullStatus, Pulls};

/// The annotation that asks for tags to be pinned, with the value `true`. OpenKruise has no field
/// for it.
pub const PIN_TAGS: &str = "swaplet.io/pin-tags";

/// The most images of one job: as many as OpenKruise's webhook lets through.
pub const MOST_IMAGES: usize = 255;

/// OpenKruise puts this finalizer on each job that is not completed, and takes it away when the job
/// is deleted: nobody does where it is gone.
pub const OPENKRUISES_FINALIZER: &str = "apps.kruise.io/deletion-protection";

/// The two kinds of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// One image.
    ImagePullJob,
    /// A list of images.
    ImageListPullJob,
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct PullJob {
    /// Which of the two it is.
    pub kind: JobKind,
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.resourceVersion`: writes of ours are made to this version only.
    pub version: Box<str>,
    /// `metadata.generation`: another one for every change of the spec.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers` without OpenKruise's own, where that is among them.
    pub other_finalizers: Option<Vec<Box<str>>>,
    /// `spec`, or what is wrong with it: the field and the problem.
    pub spec: Result<PullSpec, String>,
    /// `status.observedGeneration`
    pub observed_generation: Option<i64>,
    /// `status.startTime`
    pub started_at: Option<Timestamp>,
    /// `status.completionTime`
    pub completed_at: Option<Timestamp>,
    /// `status.pinned`, as far as it can be read.
    pub pinned: Vec<Pinned>,
}

/// `spec`
#[derive(Clone, Debug, PartialEq)]
pub struct PullSpec {
    /// The images, each once, in their order.
    pub images: Vec<Box<str>>,
    /// Where they are wanted.
    pub targets: Targets,
    /// How many nodes may pull at a time.
    pub parallelism: Parallelism,
    /// `pullPolicy.timeoutSeconds`
    pub timeout_seconds: u32,
    /// `pullPolicy.backoffLimit`
    pub backoff_limit: u32,
    /// When it is over.
    pub completion: Completion,
    /// What the pods that pull have to be like.
    pub pods: PodWishes,
    /// Whether each tag is pulled by the digest that it has when the job begins ([`PIN_TAGS`]).
    pub pin_tags: bool,
}

/// What decides how the pods of a job are made: jobs that differ in it cannot share a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodWishes {
    /// `pullSecrets`: names of Secrets of the job's namespace.
    pub pull_secrets: Vec<Box<str>>,
    /// Whether `imagePullPolicy` is `Always`.
    pub always_pulls: bool,
    /// `sandboxConfig.labels`
    pub labels: BTreeMap<String, String>,
    /// `sandboxConfig.annotations`
    pub annotations: BTreeMap<String, String>,
    /// Keys of both that are not taken over.
    pub left_out: Vec<Box<str>>,
}

/// The nodes of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// Those with these labels; all of them where nothing is asked for.
    Labels(Selector),
    /// Those of these names that are there.
    Names(BTreeSet<Box<str>>),
    /// Those on which pods of the job's namespace with these labels run.
    Pods(Selector),
}

/// How many nodes may pull at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallelism {
    /// So many; none while it is 0.
    Nodes(u32),
    /// So many of a hundred, rounded up.
    Percent(u32),
}

/// When a job is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// When each node has the images or has failed.
    Always {
        /// `activeDeadlineSeconds`
        deadline_seconds: Option<u32>,
        /// `ttlSecondsAfterFinished`
        ttl_seconds: Option<u32>,
    },
    /// Never: nodes that are new get the images too.
    Never,
}

impl JobKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ImagePullJob, Self::ImageListPullJob];

    /// The kind, as in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ImagePullJob => "ImagePullJob",
            Self::ImageListPullJob => "ImageListPullJob",
        }
    }

    /// The name in URLs.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::ImagePullJob => "imagepulljobs",
            Self::ImageListPullJob => "imagelistpulljobs",
        }
    }

    /// What the client has to know.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        ApiResource {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.as_str().to_owned(),
            plural: self.plural().to_owned(),
        }
    }
}

impl Parallelism {
    /// How many of these nodes; of a percentage that is not 0 at least one.
    #[must_use]
    pub fn of(self, nodes: usize) -> usize {
        match self {
            Self::Nodes(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Self::Percent(percent) => nodes
                .saturating_mul(usize::try_from(percent).unwrap_or(usize::MAX))
                .div_ceil(100),
        }
    }
}

impl PullJob {
    /// Reads a job. `None` where name, namespace or uid are missing: such an object cannot be
    /// addressed.
    #[must_use]
    pub fn read(kind: JobKind, object: BoundedObject) -> Option<Self> {
        let BoundedObject { metadata, mut data } = object;
        let status = &data["status"];
        let time = |field: &str| status[field].as_str().and_then(|text| text.parse().ok());
        let (observed_generation, started_at, completed_at) = (
            status["observedGeneration"].as_i64(),
            time("startTime"),
            time("completionTime"),
        );
        let pins = status["pinned"]
            .as_array()
            .into_iter()
            .flatten()
            .take(MOST_IMAGES)
            .filter_map(|pin| Pinned::deserialize(pin).ok());
        let pinned = pins
            .filter(|pin| pin.image.len().max(pin.digest.len()) <= bounds::TEXT)
            .collect();
        let pin_tags = pin_tags(
            metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(PIN_TAGS)),
        );
        let spec = SpecWire::deserialize(data["spec"].take()).map_err(|error| error.to_string());
        let finalizers = metadata.finalizers.unwrap_or_default();
        let other_finalizers = finalizers
            .iter()
            .any(|name| name == OPENKRUISES_FINALIZER)
            .then(|| {
                finalizers
                    .into_iter()
                    .filter(|name| name != OPENKRUISES_FINALIZER)
                    .map(Into::into)
                    .collect()
            });
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
                .and_then(|spec| spec.read(pin_tags?))
                .map_err(|error| cut(&error, bounds::MESSAGE)),
            observed_generation,
            started_at,
            completed_at,
            pinned,
        })
    }

    /// Whether nothing is done for it any more: it is completed, and its spec is as it was then.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.completed_at.is_some()
            && self
                .observed_generation
                .is_none_or(|observed| observed == self.generation)
    }
}

fn pin_tags(annotation: Option<&String>) -> Result<bool, String> {
    match annotation.map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(format!(
            "annotation {PIN_TAGS} is {other:?}: write \"true\", or remove it"
        )),
    }
}

#[cfg(test)]
mod tests;
