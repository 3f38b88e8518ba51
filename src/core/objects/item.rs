//! An object of a list or watch, reduced to what is kept of it while it is decoded: the objects of
//! tenants can take a hundred times their size when they are kept whole.

use std::fmt;
use std::marker::PhantomData;
use std::panic::resume_unwind;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::isolated::isolated;
use super::job::OwnerView;
use super::pod::wire::{ALL_RESTART, DISRUPTION};
use super::pod::{KRUISE_POD_READY, PHASE_WRITTEN};
use super::values::bounds;
use super::values::fields::{FromText, List, Present, Said, Text, Texts, Time, or_default, text};
use super::values::whole_object::watched;

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

/// The fields of an object that are read: a [`View`].
pub trait Viewed: for<'a> Deserialize<'a> {
    /// Returns the name, namespace, uid and resourceVersion, for the list or watch.
    fn watched(&self) -> ObjectMeta;
}

/// A part of an object.
pub trait Part: Default + for<'a> Deserialize<'a> {}

impl<T: Default + for<'a> Deserialize<'a>> Part for T {}

/// An object as the API server sends it: of its annotations `A` is read, of its `managedFields` `M`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "S: Part, T: Part, A: Part, M: Part"))]
pub struct View<S, T, A = Texts, M = IgnoredAny> {
    #[serde(deserialize_with = "or_default")]
    pub(crate) metadata: MetaView<A, M>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) spec: S,
    #[serde(deserialize_with = "or_default")]
    pub(crate) status: T,
}

/// A part of an object of which nothing is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Unread {}

/// `metadata`
#[derive(Clone, Debug, Default, Deserialize)]
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
    pub generation: Option<i64>,
    pub creation_timestamp: Time,
    pub deletion_timestamp: Present,
    pub labels: Texts,
    #[serde(deserialize_with = "or_default")]
    pub annotations: A,
    pub finalizers: List<Text>,
    pub owner_references: List<OwnerView>,
    pub managed_fields: M,
}

/// One of `status.conditions`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConditionView {
    #[serde(deserialize_with = "text")]
    pub r#type: Word,
    #[serde(deserialize_with = "text")]
    pub status: Word,
    pub reason: Text,
    pub message: Said<{ bounds::RECORD }>,
    pub last_transition_time: Time,
}

impl ConditionView {
    /// Returns true if it is this condition with this status.
    pub fn is(&self, kind: &str, status: &str) -> bool {
        self.is_of(kind) && self.status.0 == status
    }

    /// Returns true if it is this condition.
    pub fn is_of(&self, kind: &str) -> bool {
        debug_assert!(WORDS.contains(&kind), "{kind} is never read");
        self.r#type.0 == kind
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

impl FromText for Word {
    fn from_text(text: &str) -> Self {
        let found = WORDS.iter().find(|word| **word == text);
        found.map(|word| Self(word)).unwrap_or_default()
    }
}

impl<S, T, A, M> View<S, T, A, M> {
    /// Takes the object apart: metadata, spec and status.
    pub(crate) fn parts(self) -> (MetaView<A, M>, S, T) {
        (self.metadata, self.spec, self.status)
    }
}

impl<S: Part, T: Part, A: Part, M: Part> Viewed for View<S, T, A, M> {
    fn watched(&self) -> ObjectMeta {
        let meta = &self.metadata;
        let fields = [
            &meta.name,
            &meta.namespace,
            &meta.uid,
            &meta.resource_version,
        ];
        watched(fields.map(|field| field.as_deref().map(str::to_owned)))
    }
}

/// An object of a list or watch, reduced to a `T`.
#[derive(Clone, Debug)]
pub struct Item<T> {
    pub(crate) metadata: ObjectMeta,
    /// What is kept, or the message of the panic while it was read.
    object: Result<Option<T>, String>,
}

of_kind!(@impl [T: FromView] Item<T>, T::Kind, metadata, T::METADATA_ALONE);

impl<'de, T: FromView> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader(PhantomData))
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: FromView> Visitor<'de> for Reader<T> {
    type Value = Item<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let view = T::View::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Item {
            metadata: view.watched(),
            object: isolated(|| T::of(view)),
        })
    }

    /// Reads what a list gives for an object that cannot be decoded: its name, namespace, uid and
    /// resourceVersion. Nothing is kept of it.
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Self::Value, A::Error> {
        let fields = Deserialize::deserialize(SeqAccessDeserializer::new(array))?;
        Ok(Item {
            metadata: watched(fields),
            object: Ok(None),
        })
    }
}

impl<T> Item<T> {
    /// Returns an object with this metadata, of which this is kept.
    pub const fn of(metadata: ObjectMeta, object: T) -> Self {
        Self {
            metadata,
            object: Ok(Some(object)),
        }
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
