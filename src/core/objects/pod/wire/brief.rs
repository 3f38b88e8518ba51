//! A pod of which little matters: its labels, the images of its containers, and whether it is
//! Ready. What is listed by somebody's selector is read as this, for the objects of tenants can
//! take a hundred times their size where they are read whole.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use crate::objects::node::ConditionWire;
use crate::objects::values::lenient::{Lenient, Object, Objects, Present, Text, Texts};

/// Such a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodBrief {
    /// `metadata.uid`; empty where there is none.
    pub uid: Box<str>,
    /// `metadata.labels`
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether `status.phase` is Succeeded or Failed.
    pub is_over: bool,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// The image of each container by its name, init containers too.
    pub images: BTreeMap<Box<str>, Box<str>>,
}

/// A pod of a list or watch, read at once. As for pods, only JSON that is no object of Kubernetes
/// at all cannot be decoded.
#[derive(Clone, Debug)]
pub struct PodBriefWire {
    metadata: ObjectMeta,
    pod: PodBrief,
}

of_kind!(PodBriefWire, k8s_openapi::api::core::v1::Pod);

#[derive(Default, Deserialize)]
#[serde(default)]
struct TopWire {
    metadata: Lenient<Object<MetaWire>>,
    spec: Lenient<Object<SpecWire>>,
    status: Lenient<Object<StatusWire>>,
}

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
        let text = |field: &Text| field.value.as_deref().map(str::to_owned);
        let metadata = ObjectMeta {
            name: text(&meta.name),
            namespace: text(&meta.namespace),
            uid: text(&meta.uid),
            resource_version: text(&meta.resource_version),
            ..ObjectMeta::default()
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
    /// What was read.
    #[must_use]
    pub fn read(self) -> PodBrief {
        self.pod
    }
}

/// The image of each container by its name; what cannot be pulled is left out.
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
