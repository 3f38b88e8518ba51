//! The objects that can be protected, as the API server sends them, reduced to the bounded fields
//! that are read.

use std::marker::PhantomData;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;
use serde::Deserialize;
use strum::{EnumString, IntoStaticStr};

use crate::objects::item::{FromView, Item, Unread, View};
use crate::objects::values::fields::{List, Text, or_default};

/// The label that protects an object, OpenKruise's.
pub const LABEL: &str = "policy.kruise.io/delete-protection";
/// The annotation with the counted contents of an object.
pub const HOLDS: &str = "swaplet.io/holds";

/// The mode of protection; any other value of the label is no protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString)]
pub enum Mode {
    /// Protected as long as it has the label.
    Always,
    /// Protected as long as there is something in it.
    Cascading,
}

/// The kinds whose contents are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
pub enum GuardedKind {
    /// `v1`
    Namespace,
    /// `apiextensions.k8s.io/v1`
    CustomResourceDefinition,
}

impl GuardedKind {
    /// Returns the plural name of the resource.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::CustomResourceDefinition => "customresourcedefinitions",
        }
    }

    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        self.into()
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
pub trait IsGuarded: Resource {
    /// The kind that is read.
    const KIND: GuardedKind;
}

impl IsGuarded for Namespace {
    const KIND: GuardedKind = GuardedKind::Namespace;
}

impl IsGuarded for CustomResourceDefinition {
    const KIND: GuardedKind = GuardedKind::CustomResourceDefinition;
}

/// An object of the kind `K` of a list or watch.
pub type GuardedWire<K> = Item<GuardedOf<K>>;

/// An object of the kind `K` whose contents are counted.
#[derive(Clone, Debug)]
pub struct GuardedOf<K>(pub Guarded, PhantomData<K>);

/// The `spec` of a CRD.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CrdSpecView {
    group: Text,
    #[serde(deserialize_with = "or_default")]
    names: NamesView,
    versions: List<VersionView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NamesView {
    plural: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct VersionView {
    name: Text,
    served: Option<bool>,
}

impl<K: IsGuarded> FromView for GuardedOf<K> {
    type Kind = K;
    type View = View<CrdSpecView, Unread>;

    /// Returns `None` if it has no name or no uid, or more labels or annotations than are read: then
    /// nothing is written, so it cannot be deleted.
    fn of(object: Self::View) -> Option<Self> {
        let meta = object.metadata;
        let labels = meta.labels.all()?;
        let guarded = Guarded {
            kind: K::KIND,
            mode: labels.get(LABEL).and_then(|value| value.parse().ok()),
            name: meta.name.value?,
            uid: meta.uid.value?,
            version: meta.resource_version.value.unwrap_or_default(),
            holds: meta.annotations.all()?.remove(HOLDS),
            deleting: meta.deletion_timestamp.0,
            served: object.spec.served(),
        };
        Some(Self(guarded, PhantomData))
    }
}

impl CrdSpecView {
    fn served(self) -> Option<Served> {
        let versions = self.versions.items.into_iter();
        let mut served = versions.filter(|version| version.served == Some(true));
        Some(Served {
            version: served.find_map(|version| version.name.value)?,
            group: self.group.value?,
            plural: self.names.plural.value?,
        })
    }
}

/// Something that a protected object contains: its uid, and whether it counts.
pub type Content = (Box<str>, bool);

/// An object of which the API server sends the metadata alone. It is not kube's
/// `PartialObjectMeta`, which cannot be decoded where a time in `managedFields` is one that only
/// Kubernetes can read. Everybody may write such a time into an object, which would then not be
/// counted.
pub type MetadataWire<K> = Item<MetadataOf<K>>;

/// The content of the kind `K`, which counts unless it is being deleted.
#[derive(Clone, Debug)]
pub struct MetadataOf<K>(pub Content, PhantomData<K>);

impl<K: Resource> FromView for MetadataOf<K> {
    type Kind = K;
    type View = View<Unread, Unread>;
    const METADATA_ALONE: bool = true;

    fn of(object: Self::View) -> Option<Self> {
        let meta = object.metadata;
        let counts = !meta.deletion_timestamp.0;
        Some(Self(
            (meta.uid.value.unwrap_or_default(), counts),
            PhantomData,
        ))
    }
}

/// A PersistentVolumeClaim of a list or watch.
pub type ClaimWire = Item<Claim>;

/// A PersistentVolumeClaim, which counts if it is bound and not being deleted.
#[derive(Clone, Debug)]
pub struct Claim(pub Content);

/// `status` of a claim.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct ClaimStatusView {
    phase: Text,
}

impl FromView for Claim {
    type Kind = PersistentVolumeClaim;
    type View = View<Unread, ClaimStatusView>;

    fn of(claim: Self::View) -> Option<Self> {
        let is_bound = claim.status.phase.as_deref() == Some("Bound");
        let meta = claim.metadata;
        let counts = is_bound && !meta.deletion_timestamp.0;
        Some(Self((meta.uid.value.unwrap_or_default(), counts)))
    }
}
