//! An object of a list or watch, reduced to what is kept of it while it is decoded: the objects of
//! tenants can take a hundred times their size when they are kept whole.

use std::panic::resume_unwind;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::de::{Deserialize, Deserializer, IgnoredAny};

use super::isolated::isolated;
use super::job::OwnerView;
use super::pod::wire::{ALL_RESTART, DISRUPTION};
use super::pod::{KRUISE_POD_READY, PHASE_WRITTEN};
use super::values::bounds;
use super::values::lenient::{
    Integer, Lenient, Object, Objects, Part, Present, Said, Shape, Text, Texts, Time,
};

/// What is kept of an object.
pub trait FromView: Sized {
    /// The kind of the object.
    type Kind: Resource;
    /// The fields that are read.
    type View: Viewed;
    /// True if the API server is asked for the metadata alone.
    const METADATA_ALONE: bool = false;

    /// Reads the object; `None` if nothing is to be kept of it.
    fn of(view: Self::View) -> Option<Self>;
}

/// The fields of an object that are read. Decoding fails only for JSON that is not a Kubernetes
/// object.
pub trait Viewed: for<'a> Deserialize<'a> {
    /// Returns the name, namespace, uid and resourceVersion, for the list or watch.
    fn watched(&self) -> ObjectMeta;
}

/// An object as the API server sends it: of its annotations `A` is read, of its `managedFields` `M`.
#[derive(Clone, Debug)]
pub struct View<S, T, A = Lenient<Texts>, M = IgnoredAny> {
    pub(crate) metadata: MetaView<A, M>,
    pub(crate) spec: S,
    pub(crate) status: T,
    /// `spec` or `status`, if it is no object.
    pub(crate) malformed: Option<&'static str>,
}

/// A part of an object of which nothing is read.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Unread {}

/// `metadata`
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "A: Part, M: Part")
)]
pub(crate) struct MetaView<A, M> {
    pub name: Text,
    pub namespace: Text,
    pub uid: Text,
    pub resource_version: Text,
    pub generation: Integer,
    pub creation_timestamp: Time,
    pub deletion_timestamp: Lenient<Present>,
    pub labels: Lenient<Texts>,
    pub annotations: A,
    pub finalizers: Lenient<Vec<Text>>,
    pub owner_references: Objects<OwnerView>,
    pub managed_fields: M,
}

/// One of `status.conditions`.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConditionView {
    pub r#type: Lenient<Word>,
    pub status: Lenient<Word>,
    pub reason: Text,
    pub message: Lenient<Said, { bounds::RECORD }>,
    pub last_transition_time: Time,
}

impl ConditionView {
    /// Returns true if it is this condition with this status.
    pub fn is(&self, kind: &str, status: &str) -> bool {
        self.is_of(kind) && self.status.value.0 == status
    }

    /// Returns true if it is this condition.
    pub fn is_of(&self, kind: &str) -> bool {
        debug_assert!(WORDS.contains(&kind), "{kind} is never read");
        self.r#type.value.0 == kind
    }
}

/// The types of conditions that are read, and what their status may be.
const WORDS: [&str; 8] = [
    "True",
    "False",
    "Ready",
    "PodScheduled",
    ALL_RESTART,
    DISRUPTION,
    KRUISE_POD_READY,
    PHASE_WRITTEN,
];

/// One of [`WORDS`]; empty for any other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Word(&'static str);

impl Shape for Word {
    fn from_text(text: &str, _: usize) -> Option<Self> {
        let found = WORDS.iter().find(|word| **word == text);
        Some(found.map(|word| Self(word)).unwrap_or_default())
    }
}

/// The parts of an object, each read by itself.
#[derive(Default, serde::Deserialize)]
#[serde(default, bound(deserialize = "M: Part, S: Part, T: Part"))]
struct Parts<M, S, T> {
    metadata: Lenient<Object<M>>,
    spec: Lenient<Object<S>>,
    status: Lenient<Object<T>>,
}

impl<'de, S: Part, T: Part, A: Part, M: Part> Deserialize<'de> for View<S, T, A, M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = Parts::<MetaView<A, M>, S, T>::deserialize(deserializer)?;
        let malformed = parts.spec.malformed.then_some("spec");
        Ok(Self {
            metadata: parts.metadata.value.0,
            spec: parts.spec.value.0,
            status: parts.status.value.0,
            malformed: malformed.or(parts.status.malformed.then_some("status")),
        })
    }
}

impl<S: Part, T: Part, A: Part, M: Part> Viewed for View<S, T, A, M> {
    fn watched(&self) -> ObjectMeta {
        let text = |field: &Text| field.value.as_deref().map(str::to_owned);
        ObjectMeta {
            name: text(&self.metadata.name),
            namespace: text(&self.metadata.namespace),
            uid: text(&self.metadata.uid),
            resource_version: text(&self.metadata.resource_version),
            ..ObjectMeta::default()
        }
    }
}

/// An object of a list or watch, reduced to a `T`. Decoding fails only for JSON that is not a
/// Kubernetes object.
#[derive(Clone, Debug)]
pub struct Item<T> {
    pub(crate) metadata: ObjectMeta,
    /// What is kept, or the message of the panic while it was read.
    object: Result<Option<T>, String>,
}

of_kind!(@impl [T: FromView] Item<T>, T::Kind, metadata, T::METADATA_ALONE);

impl<'de, T: FromView> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let view = T::View::deserialize(deserializer)?;
        Ok(Self {
            metadata: view.watched(),
            object: isolated(|| T::of(view)),
        })
    }
}

impl<T> Item<T> {
    /// Returns the uid, which is there also where nothing is kept.
    pub fn uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    /// Returns the object with something else kept of it.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Item<U> {
        Item {
            metadata: self.metadata,
            object: self.object.map(|object| object.map(change)),
        }
    }

    /// Returns what is kept. A panic that occurred while it was read is raised again here, where it
    /// affects one object only.
    pub fn read(self) -> Option<T> {
        self.object
            .unwrap_or_else(|defect| resume_unwind(Box::new(defect)))
    }
}

/// Returns the objects of a list.
pub(crate) fn items<T, const MOST: usize>(list: &Objects<T, MOST>) -> impl Iterator<Item = &T> {
    list.value.iter().map(|item| &item.value.0)
}

/// Returns true if the list, or one of its items, is malformed.
pub(crate) fn any_malformed<T, const MOST: usize>(list: &Objects<T, MOST>) -> bool {
    list.malformed
        || list
            .value
            .iter()
            .any(|item: &Lenient<Object<T>>| item.malformed)
}
