//! Alibaba ECI's `ImageCache`: a snapshot of a disk with images, from which its provider starts the
//! machines of pods. Fields and phases are those of its documentation ("kubernetes ImageCache API",
//! "Manage ImageCaches", and `Status` of `DescribeImageCaches`).

use std::collections::BTreeSet;

use kube_core::ApiResource;
use serde_json::{Value, json};

use crate::objects::values::bounded_object::BoundedObject;
use crate::objects::values::bounds::{ITEMS, MESSAGE, cut};

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
#[must_use]
pub fn resource() -> ApiResource {
    let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: API_VERSION.to_owned(),
        kind: "ImageCache".to_owned(),
        plural: IMAGE_CACHES.to_owned(),
    }
}

impl ImageCache {
    /// Reads a cache; `None` if its name is missing: such an object cannot be addressed.
    #[must_use]
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
    #[must_use]
    pub fn object(&self) -> Value {
        let mut spec = json!({"images": self.images, "imageCacheSize": self.size, "retentionDays": self.retention_days});
        if !self.pull_secrets.is_empty() {
            spec["imagePullSecrets"] = json!(self.pull_secrets);
        }
        let metadata = json!({"name": self.name, "labels": {IMAGE_CACHE: self.namespace}});
        json!({"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": metadata, "spec": spec})
    }
}
