//! The objects that can be protected, as the API server sends them, reduced to the bounded fields
//! that are read.

use std::marker::PhantomData;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use crate::objects::values::lenient::{Flag, Lenient, Object, Objects, Present, Text, Texts};

/// The label that protects an object, OpenKruise's.
pub const LABEL: &str = "policy.kruise.io/delete-protection";
/// The annotation with the counted contents of an object.
pub const HOLDS: &str = "swaplet.io/holds";

/// The mode of protection; any other value of the label is no protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Protected as long as it has the label.
    Always,
    /// Protected as long as there is something in it.
    Cascading,
}

impl Mode {
    /// Parses the value of the label; `None` for any other value.
    #[must_use]
    pub fn of(value: &str) -> Option<Self> {
        [Self::Always, Self::Cascading]
            .into_iter()
            .find(|mode| mode.as_str() == value)
    }

    /// Returns the value of the label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::Cascading => "Cascading",
        }
    }
}

/// The kinds whose contents are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardedKind {
    /// `v1`
    Namespace,
    /// `apiextensions.k8s.io/v1`
    CustomResourceDefinition,
}

impl GuardedKind {
    /// Returns the plural name of the resource.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::CustomResourceDefinition => "customresourcedefinitions",
        }
    }

    /// Returns the name of the kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::CustomResourceDefinition => "CustomResourceDefinition",
        }
    }
}

/// An object whose contents are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// The kind of the object.
    pub kind: GuardedKind,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.resourceVersion`
    pub version: Box<str>,
    /// The mode of protection; `None` if it is not protected.
    pub mode: Option<Mode>,
    /// The value of [`HOLDS`]; `None` if it is missing.
    pub holds: Option<Box<str>>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The resource that a CRD serves; `None` if there is none.
    pub served: Option<Served>,
}

/// A resource that a CRD defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// `spec.group`
    pub group: Box<str>,
    /// The first version in `spec.versions` that is served.
    pub version: Box<str>,
    /// `spec.names.plural`
    pub plural: Box<str>,
}

/// A kind whose objects are read as [`Guarded`].
pub trait IsGuarded {
    /// The kind that is read.
    const KIND: GuardedKind;
}

impl IsGuarded for Namespace {
    const KIND: GuardedKind = GuardedKind::Namespace;
}

impl IsGuarded for CustomResourceDefinition {
    const KIND: GuardedKind = GuardedKind::CustomResourceDefinition;
}

/// An object of a list or watch. As for pods, decoding fails only for JSON that is no Kubernetes
/// object at all.
#[derive(Clone, Debug)]
pub struct GuardedWire<K> {
    metadata: ObjectMeta,
    labels: Texts,
    annotations: Texts,
    deleting: bool,
    spec: SpecWire,
    kind: PhantomData<K>,
}

of_kind!(GuardedWire<Namespace>, Namespace);
of_kind!(
    GuardedWire<CustomResourceDefinition>,
    CustomResourceDefinition
);

#[derive(Default, Deserialize)]
#[serde(default)]
struct TopWire {
    metadata: Lenient<Object<MetaWire>>,
    spec: Lenient<Object<SpecWire>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    uid: Text,
    resource_version: Text,
    labels: Lenient<Texts>,
    annotations: Lenient<Texts>,
    deletion_timestamp: Lenient<Present>,
}

/// The `spec` of a CRD.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SpecWire {
    group: Text,
    names: Lenient<Object<NamesWire>>,
    versions: Objects<VersionWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NamesWire {
    plural: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct VersionWire {
    name: Text,
    served: Flag,
}

impl<'de, K> Deserialize<'de> for GuardedWire<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let top = TopWire::deserialize(deserializer)?;
        let meta = top.metadata.value.0;
        let text = |field: Text| field.value.map(String::from);
        Ok(Self {
            metadata: ObjectMeta {
                name: text(meta.name),
                uid: text(meta.uid),
                resource_version: text(meta.resource_version),
                ..ObjectMeta::default()
            },
            labels: meta.labels.value,
            annotations: meta.annotations.value,
            deleting: meta.deletion_timestamp.value.0,
            spec: top.spec.value.0,
            kind: PhantomData,
        })
    }
}

impl<K: IsGuarded> GuardedWire<K> {
    /// Reads the object. Returns `None` if it has no name or no uid.
    #[must_use]
    pub fn read(mut self) -> Option<Guarded> {
        Some(Guarded {
            kind: K::KIND,
            name: self.metadata.name?.into(),
            uid: self.metadata.uid?.into(),
            version: self.metadata.resource_version.unwrap_or_default().into(),
            mode: self.labels.0.get(LABEL).and_then(|value| Mode::of(value)),
            holds: self.annotations.0.remove(HOLDS),
            deleting: self.deleting,
            served: self.spec.served(),
        })
    }
}

impl SpecWire {
    fn served(self) -> Option<Served> {
        let served = self
            .versions
            .value
            .into_iter()
            .map(|version| version.value.0);
        Some(Served {
            group: self.group.value?,
            version: served
                .filter(|version| version.served.value == Some(true))
                .find_map(|version| version.name.value)?,
            plural: self.names.value.0.plural.value?,
        })
    }
}

/// The metadata of what a protected object contains.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContentMetaWire {
    uid: Text,
    resource_version: Text,
    deletion_timestamp: Lenient<Present>,
}

impl ContentMetaWire {
    /// Returns the metadata that is used, and true if the object is being deleted.
    fn read(self) -> (ObjectMeta, bool) {
        let metadata = ObjectMeta {
            uid: self.uid.value.map(String::from),
            resource_version: self.resource_version.value.map(String::from),
            ..ObjectMeta::default()
        };
        (metadata, self.deletion_timestamp.value.0)
    }
}

/// An object of which the API server sends the metadata alone, reduced to whether it counts. It
/// is not kube's `PartialObjectMeta`, which cannot be decoded where a time in `managedFields` is one
/// that only Kubernetes can read. Everybody may write such a time into an object, which would then
/// not be counted.
#[derive(Clone, Debug)]
pub struct MetadataWire<K> {
    metadata: ObjectMeta,
    deleting: bool,
    kind: PhantomData<K>,
}

of_kind!(<K> MetadataWire<K>, alone);

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataTopWire {
    metadata: Lenient<Object<ContentMetaWire>>,
}

impl<'de, K> Deserialize<'de> for MetadataWire<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let top = MetadataTopWire::deserialize(deserializer)?;
        let (metadata, deleting) = top.metadata.value.0.read();
        Ok(Self {
            metadata,
            deleting,
            kind: PhantomData,
        })
    }
}

impl<K> MetadataWire<K> {
    /// Returns the uid, and true if the object counts: it is not being deleted.
    #[must_use]
    pub fn read(self) -> (Box<str>, bool) {
        let uid = self.metadata.uid.unwrap_or_default();
        (uid.into(), !self.deleting)
    }
}

/// A PersistentVolumeClaim of a list or watch, reduced to whether it is bound.
#[derive(Clone, Debug)]
pub struct ClaimWire {
    metadata: ObjectMeta,
    bound: bool,
}

of_kind!(ClaimWire, PersistentVolumeClaim);

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimTopWire {
    metadata: Lenient<Object<ContentMetaWire>>,
    status: Lenient<Object<ClaimStatusWire>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimStatusWire {
    phase: Text,
}

impl<'de> Deserialize<'de> for ClaimWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let top = ClaimTopWire::deserialize(deserializer)?;
        let (metadata, deleting) = top.metadata.value.0.read();
        let phase = top.status.value.0.phase.value;
        Ok(Self {
            metadata,
            bound: phase.as_deref() == Some("Bound") && !deleting,
        })
    }
}

impl ClaimWire {
    /// Returns the uid, and true if the claim counts: it is bound and not being deleted.
    #[must_use]
    pub fn read(self) -> (Box<str>, bool) {
        let uid = self.metadata.uid.unwrap_or_default();
        (uid.into(), self.bound)
    }
}
