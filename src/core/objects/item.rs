//! An object of a list or watch, reduced to what is kept of it while it is decoded: the objects of
//! tenants can take a hundred times their size when they are kept whole.

use std::panic::resume_unwind;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::de::{Deserialize, Deserializer};

use super::isolated::isolated;
use super::job::OwnerWire;
use super::values::lenient::{self, Integer, Lenient, Objects, Present, Text, Texts, Time};
use super::values::parts::{Part, Parts};

/// What is kept of an object.
pub trait FromView: Sized {
    /// The kind of the object.
    type Kind: Resource;
    /// The fields of `spec` that are read.
    type Spec: Part;
    /// The fields of `status` that are read.
    type Status: Part;

    /// Reads the object; `None` if nothing is to be kept of it.
    fn of(view: View<Self::Spec, Self::Status>) -> Option<Self>;
}

/// An object as the API server sends it: the fields that are read.
#[derive(Debug)]
pub struct View<S, T> {
    pub(crate) metadata: MetaView,
    pub(crate) spec: S,
    pub(crate) status: T,
}

/// A part of an object of which nothing is read.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Unread {}

/// `metadata`
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetaView {
    pub name: Text,
    pub namespace: Text,
    pub uid: Text,
    pub resource_version: Text,
    pub generation: Integer,
    pub creation_timestamp: Time,
    pub deletion_timestamp: Lenient<Present>,
    pub labels: Lenient<Texts>,
    pub annotations: Lenient<Texts>,
    pub finalizers: Lenient<Vec<Text>>,
    pub owner_references: Objects<OwnerWire>,
}

/// An object of a list or watch, reduced to a `T`. Decoding fails only for JSON that is not a
/// Kubernetes object.
#[derive(Clone, Debug)]
pub struct Item<T> {
    metadata: ObjectMeta,
    /// What is kept, or the message of the panic while it was read.
    object: Result<Option<T>, String>,
}

of_kind!(@impl [T: FromView] Item<T>, T::Kind, metadata, false);

impl<'de, T: FromView> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = Parts::<MetaView, T::Spec, T::Status>::deserialize(deserializer)?;
        let view = View {
            metadata: parts.metadata.value.0,
            spec: parts.spec.value.0,
            status: parts.status.value.0,
        };
        let meta = &view.metadata;
        let metadata = ObjectMeta {
            uid: meta.uid.value.as_deref().map(str::to_owned),
            ..lenient::watched(&meta.name, &meta.namespace, &meta.resource_version)
        };
        let object = isolated(|| T::of(view));
        Ok(Self { metadata, object })
    }
}

impl<T> Item<T> {
    /// Returns the uid, which is there also where nothing is kept.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    /// Returns what is kept. A panic that occurred while it was read is raised again here, where it
    /// affects one object only.
    #[must_use]
    pub fn read(self) -> Option<T> {
        self.object
            .unwrap_or_else(|defect| resume_unwind(Box::new(defect)))
    }
}

/// Returns the objects of a list.
pub(crate) fn items<T, const MOST: usize>(list: &Objects<T, MOST>) -> impl Iterator<Item = &T> {
    list.value.iter().map(|item| &item.value.0)
}
