//! A pod reduced to labels, images and readiness. Pods listed by a user's selector are read as
//! this: the objects of tenants can take a hundred times their size when they are read whole.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use crate::objects::node::ConditionWire;
use crate::objects::values::lenient::{self, Lenient, Objects, Present, Text, Texts};
use crate::objects::values::parts::Parts;

/// A pod, reduced to these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodBrief {
    /// `metadata.uid`; empty if there is none.
    pub uid: Box<str>,
    /// `metadata.labels`
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// True if `status.phase` is Succeeded or Failed.
    pub is_over: bool,
    /// True if its condition `Ready` is true.
    pub ready: bool,
    /// The image of each container by its name, also of init containers.
    pub images: BTreeMap<Box<str>, Box<str>>,
}

/// A pod of a list or watch, read at once. As for pods, decoding fails only on JSON that is no
/// Kubernetes object at all.
#[derive(Clone, Debug)]
pub struct PodBriefWire {
    metadata: ObjectMeta,
    pod: PodBrief,
}

of_kind!(PodBriefWire, k8s_openapi::api::core::v1::Pod);

type TopWire = Parts<MetaWire, SpecWire, StatusWire>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
    labels: Lenient<Texts>,
    deletion_timestamp: Lenient<Present>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    init_containers: Objects<ContainerWire>,
    containers: Objects<ContainerWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusWire {
    phase: Text,
    conditions: Objects<ConditionWire>,
}

/// A container of a pod or of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerWire {
    name: Text,
    image: Text,
}

impl<'de> Deserialize<'de> for PodBriefWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let top = TopWire::deserialize(deserializer)?;
        let (meta, spec, status) = (top.metadata.value.0, top.spec.value.0, top.status.value.0);
        let metadata = ObjectMeta {
            uid: meta.uid.value.as_deref().map(str::to_owned),
            ..lenient::watched(&meta.name, &meta.namespace, &meta.resource_version)
        };
        let conditions = status.conditions.value.iter();
        let pod = PodBrief {
            uid: meta.uid.value.unwrap_or_default(),
            labels: meta.labels.value.0,
            deleting: meta.deletion_timestamp.value.0,
            is_over: matches!(status.phase.value.as_deref(), Some("Succeeded" | "Failed")),
            ready: conditions
                .into_iter()
                .any(|condition| condition.value.0.is("Ready", "True")),
            images: images(&spec.init_containers, &spec.containers),
        };
        Ok(Self { metadata, pod })
    }
}

impl PodBriefWire {
    /// Returns the pod that was read.
    #[must_use]
    pub fn read(self) -> PodBrief {
        self.pod
    }
}

/// Returns the image of each container by its name, without those whose name or image is
/// unreadable.
pub(crate) fn images(
    init_containers: &Objects<ContainerWire>,
    containers: &Objects<ContainerWire>,
) -> BTreeMap<Box<str>, Box<str>> {
    let all = init_containers.value.iter().chain(&containers.value);
    all.filter_map(|container| {
        let ContainerWire { name, image } = &container.value.0;
        Some((name.value.clone()?, image.value.clone()?))
    })
    .collect()
}
