//! Image caches of Alibaba ECI. Its nodes keep no images, but their provider does, in an
//! `ImageCache`: a job creates one for all of these nodes, and its status holds for each of them.
//!
//! A cache is a snapshot that is billed. So it is created only if the administrator wants it, once
//! for the same images, and always with an end (`retentionDays`). It is not deleted when the job is
//! over or gone, just as images stay on nodes: pods are to start from it then.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::objects::values::bounded_object::BoundedObject;
use crate::objects::values::bounds::{ITEMS, MESSAGE, cut};
use crate::objects::values::short_digest::short_digest;
use crate::warm::pull_job::object::{Completion, PullJob, PullSpec};
use kube_core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// The most images of a cache, and the most Secrets: the provider accepts no more images, and
/// `deploy/leash.yaml` lets no more of either be created.
const MOST: usize = 20;
/// The most characters of a provider's message that are reported.
const MESSAGE_CHARS: usize = 300;

/// The administrator's settings for image caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// The exit image: a container that is swapped to it profits only if it was in the cache that
    /// its pod started from.
    pub exit_image: Option<Box<str>>,
    /// The size of a cache, in GiB.
    pub size: u32,
    /// The number of days after which the provider deletes a cache.
    pub retention_days: u32,
}

/// The state of the cache of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// It is not ready yet, for this reason.
    Waits(String),
    /// Its status reports that it is ready.
    Ready,
    /// It will not become ready, for this reason.
    Failed(String),
}

/// The nodes of a job that use an image cache, and the state of that cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The names of the nodes.
    pub nodes: BTreeSet<Box<str>>,
    /// The state of the cache.
    pub state: CacheState,
}

impl Default for Cached {
    fn default() -> Self {
        Self {
            nodes: BTreeSet::new(),
            state: CacheState::Waits(String::new()),
        }
    }
}

impl Cached {
    /// Returns true if the job has such nodes and their cache may still become ready.
    pub fn waits(&self) -> bool {
        !self.nodes.is_empty() && matches!(self.state, CacheState::Waits(_))
    }
}

/// Returns the cache for the images of a job.
///
/// # Errors
/// Returns the state of a job that wants none: it waits while the job is paused. It has failed if
/// it has more images than one cache can have: each pod starts from one, so several would not help.
pub fn wanted(
    job: &PullJob,
    spec: &PullSpec,
    options: &CacheOptions,
) -> Result<NewImageCache, CacheState> {
    if spec.parallelism.is_none() {
        return Err(CacheState::Waits("no ImageCache is created yet".to_owned()));
    }
    let images = spec.images.iter().chain(&options.exit_image);
    let images: BTreeSet<Box<str>> = images.cloned().collect();
    let secrets = spec.pods.pull_secrets.iter();
    let pull_secrets: BTreeSet<Box<str>> = secrets
        .map(|name| format!("{}:{name}", job.namespace).into())
        .collect();
    if let Some(why) = too_many(images.len(), pull_secrets.len()) {
        return Err(CacheState::Failed(why));
    }
    let name = format!(
        "swaplet-{}",
        short_digest(format!("{images:?} {pull_secrets:?} {}", options.size), 10)
    );
    let pull_secrets = pull_secrets.into_iter().collect();
    Ok(NewImageCache {
        name: name.into(),
        namespace: job.namespace.clone(),
        images,
        pull_secrets,
        size: options.size,
        retention_days: options.retention_days,
    })
}

/// Returns why there can be no cache with this many images, the exit image included, and Secrets;
/// `None` if there can.
fn too_many(images: usize, secrets: usize) -> Option<String> {
    if images > MOST {
        return Some(format!(
            "an ImageCache has at most {MOST} images, and this one would have {images}, the exit image included: divide spec.images among several jobs"
        ));
    }
    (secrets > MOST).then(|| {
        format!("an ImageCache has at most {MOST} Secrets, and spec.pullSecrets has {secrets}: remove some")
    })
}

/// Returns the state of the wanted cache; `found` is the object of its name, if it exists. Only its
/// status proves anything.
pub fn state(wanted: &NewImageCache, found: Option<&ImageCache>) -> CacheState {
    let name = &wanted.name;
    let Some(found) = found else {
        return CacheState::Waits(format!("ImageCache {name} is being created"));
    };
    if found.images != wanted.images {
        return CacheState::Failed(format!(
            "ImageCache {name} exists with other images: delete it"
        ));
    }
    match &*found.phase {
        _ if found.deleting => CacheState::Waits(format!("ImageCache {name} is being deleted")),
        "Ready" => CacheState::Ready,
        phase @ ("Failed" | "UpdateFailed") => {
            let why: String = found.message.chars().take(MESSAGE_CHARS).collect();
            CacheState::Failed(format!(
                "ImageCache {name} is {phase}: {why}; delete it to have it created again"
            ))
        }
        phase => CacheState::Waits(
            format!("ImageCache {name} is {phase} {}", found.progress)
                .trim_end()
                .to_owned(),
        ),
    }
}

/// Returns how long a job waits for a cache: the timeout of all tries together. `None` if the job
/// has a deadline, or is of type `Never`.
pub fn patience(spec: &PullSpec) -> Option<Duration> {
    let Completion::Always {
        deadline_seconds: None,
        ..
    } = spec.completion
    else {
        return None;
    };
    Some(Duration::from_secs(
        u64::from(spec.timeout_seconds) * (u64::from(spec.backoff_limit) + 1),
    ))
}

// Alibaba ECI's `ImageCache`: a snapshot of a disk with images, from which its provider starts the
// machines of pods. Fields and phases are those of its documentation ("kubernetes ImageCache API",
// "Manage ImageCaches", and `Status` of `DescribeImageCaches`).

/// The group and version of `ImageCache`.
pub const API_VERSION: &str = "eci.alibabacloud.com/v1";
/// The plural, as URLs spell it.
pub const IMAGE_CACHES: &str = "imagecaches";
/// The label of the caches that swaplet has created; its value is the namespace of the job that
/// each was created for. Caches belong to no namespace, but each namespace has a share of them.
pub const IMAGE_CACHE: &str = "swaplet.io/image-cache";

/// An `ImageCache` that swaplet has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageCache {
    /// `metadata.name`
    pub name: Box<str>,
    /// The label [`IMAGE_CACHE`].
    pub namespace: Box<str>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.images`
    pub images: BTreeSet<Box<str>>,
    /// `status.phase`; empty until the provider has reported one.
    pub phase: Box<str>,
    /// `status.progress`, such as `30%`.
    pub progress: Box<str>,
    /// The message of the last of `status.events`.
    pub message: Box<str>,
}

/// An `ImageCache` that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewImageCache {
    /// The name: the same for the same images, secrets and size, so that two requests share one
    /// object.
    pub name: Box<str>,
    /// The namespace of the job; jobs of other namespaces share the cache, too.
    pub namespace: Box<str>,
    /// The images, sorted.
    pub images: BTreeSet<Box<str>>,
    /// The Secrets to pull with, as `NAMESPACE:NAME`; the provider reads them, swaplet does not.
    pub pull_secrets: Vec<Box<str>>,
    /// The size of its disk, in GiB.
    pub size: u32,
    /// The number of days after which the provider deletes the snapshot.
    pub retention_days: u32,
}

/// Returns the API resource of `ImageCache`, for the client.
pub fn resource() -> ApiResource {
    let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
    let kind = GroupVersionKind::gvk(group, version, "ImageCache");
    ApiResource::from_gvk_with_plural(&kind, IMAGE_CACHES)
}

impl ImageCache {
    /// Reads a cache; `None` if its name is missing: such an object cannot be addressed.
    pub fn read(object: BoundedObject) -> Option<Self> {
        let BoundedObject { metadata, data } = object;
        let text = |value: &Value| Box::from(cut(value.as_str().unwrap_or_default(), MESSAGE));
        let images = data["spec"]["images"]
            .as_array()
            .into_iter()
            .flatten()
            .take(ITEMS)
            .map(text)
            .collect();
        let last = data["status"]["events"]
            .as_array()
            .and_then(|events| events.last())
            .unwrap_or(&Value::Null);
        let label = metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(IMAGE_CACHE));
        Some(Self {
            namespace: cut(label.map_or("", String::as_str), MESSAGE).into(),
            name: metadata.name?.into(),
            deleting: metadata.deletion_timestamp.is_some(),
            images,
            phase: text(&data["status"]["phase"]),
            progress: text(&data["status"]["progress"]),
            message: text(&last["message"]),
        })
    }
}

impl NewImageCache {
    /// Returns the object as it is sent to the API server.
    pub fn object(&self) -> Value {
        let mut spec = json!({"images": self.images, "imageCacheSize": self.size, "retentionDays": self.retention_days});
        if !self.pull_secrets.is_empty() {
            spec["imagePullSecrets"] = json!(self.pull_secrets);
        }
        let metadata = json!({"name": self.name, "labels": {IMAGE_CACHE: self.namespace}});
        json!({"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": metadata, "spec": spec})
    }
}
