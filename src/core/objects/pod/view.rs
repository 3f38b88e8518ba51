//! A pod as the API server sends it: the fields that the loops beside the one of sidecars read,
//! decoded once. Each loop keeps what it needs of a pod, and the rest is dropped with each item of a
//! list: the objects of tenants can take a hundred times their size when they are kept whole.

use std::collections::BTreeMap;
use std::panic::resume_unwind;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::wire::StateWire;
use crate::objects::isolated::isolated;
use crate::objects::job::OwnerWire;
use crate::objects::node::ConditionWire;
use crate::objects::values::bounds;
use crate::objects::values::lenient::{
    self, Flag, Integer, Lenient, Member, Object, Objects, Present, Said, Text, Texts,
};
use crate::objects::values::parts::Parts;

/// What a loop keeps of a pod.
pub trait OfPod: Sized {
    /// Reads the pod; `None` if it is of no use to the loop.
    fn of(pod: PodView) -> Option<Self>;
}

/// A pod of a list or watch, reduced to a `T` while it is decoded. Decoding fails only for JSON that
/// is not a Kubernetes object.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "PodView", bound = "T: OfPod")]
pub struct PodOf<T> {
    metadata: ObjectMeta,
    /// The pod, or the message of the panic while it was read.
    pod: Result<Option<T>, String>,
}

of_kind!(@impl [T] PodOf<T>, k8s_openapi::api::core::v1::Pod, metadata, false);

impl<T: OfPod> From<PodView> for PodOf<T> {
    fn from(pod: PodView) -> Self {
        let meta = &pod.metadata;
        let metadata = ObjectMeta {
            uid: meta.uid.value.as_deref().map(str::to_owned),
            ..lenient::watched(&meta.name, &meta.namespace, &meta.resource_version)
        };
        let pod = isolated(|| T::of(pod));
        Self { metadata, pod }
    }
}

impl<T> PodOf<T> {
    /// Returns the uid, which is there also where the pod is of no use.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    /// Returns what is kept of the pod. A panic that occurred while it was read is raised again
    /// here, where it affects one object only.
    #[must_use]
    pub fn read(self) -> Option<T> {
        self.pod
            .unwrap_or_else(|defect| resume_unwind(Box::new(defect)))
    }
}

/// A pod.
#[derive(Debug, Deserialize)]
#[serde(from = "Parts<MetaView, SpecView, StatusView>")]
pub struct PodView {
    pub(crate) metadata: MetaView,
    pub(crate) spec: SpecView,
    pub(crate) status: StatusView,
}

impl From<Parts<MetaView, SpecView, StatusView>> for PodView {
    fn from(parts: Parts<MetaView, SpecView, StatusView>) -> Self {
        Self {
            metadata: parts.metadata.value.0,
            spec: parts.spec.value.0,
            status: parts.status.value.0,
        }
    }
}

/// `metadata`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetaView {
    pub name: Text,
    pub namespace: Text,
    pub uid: Text,
    pub resource_version: Text,
    pub generation: Integer,
    pub deletion_timestamp: Lenient<Present>,
    pub labels: Lenient<Texts>,
    pub annotations: Lenient<Texts>,
    pub owner_references: Objects<OwnerWire>,
}

/// `spec`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpecView {
    pub node_name: Text,
    pub init_containers: Objects<ContainerView>,
    pub containers: Objects<ContainerView>,
    pub volumes: Objects<VolumeView>,
}

/// A container of a pod or of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerView {
    pub name: Text,
    pub image: Text,
    pub env: Objects<VariableView, { bounds::VARIABLES }>,
    pub env_from: Objects<EnvFromView>,
    pub volume_mounts: Objects<MountView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VariableView {
    pub value_from: Member<ValueFromView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ValueFromView {
    pub config_map_key_ref: Member<SourceView>,
    pub secret_key_ref: Member<SourceView>,
    pub field_ref: Member<FieldView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FieldView {
    pub field_path: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MountView {
    pub name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvFromView {
    pub config_map_ref: Member<SourceView>,
    pub secret_ref: Member<SourceView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeView {
    pub name: Text,
    pub config_map: Member<SourceView>,
    pub secret: Member<SourceView>,
    pub projected: Member<ProjectedView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProjectedView {
    pub sources: Objects<ProjectionView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProjectionView {
    pub config_map: Member<SourceView>,
    pub secret: Member<SourceView>,
}

/// A mention of a `ConfigMap` or `Secret`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SourceView {
    pub name: Text,
    pub secret_name: Text,
    pub optional: Flag,
}

/// `status`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatusView {
    pub phase: Text,
    pub reason: Text,
    pub message: Lenient<Said>,
    pub conditions: Objects<ConditionWire>,
    pub init_container_statuses: Objects<ContainerStatusView>,
    pub container_statuses: Objects<ContainerStatusView>,
}

/// The status of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatusView {
    pub name: Text,
    pub image: Text,
    #[serde(rename = "imageID")]
    pub image_id: Text,
    #[serde(rename = "containerID")]
    pub container_id: Text,
    pub started: Flag,
    pub restart_count: Integer,
    pub state: Lenient<Object<StateWire>>,
    pub last_state: Lenient<Object<StateWire>>,
}

impl StatusView {
    /// Returns true if the phase is Succeeded or Failed.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase.value.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Returns the condition of this kind, if it has this status.
    pub(crate) fn condition(&self, kind: &str, status: &str) -> Option<&ConditionWire> {
        let mut conditions = items(&self.conditions);
        conditions.find(|condition| condition.is(kind, status))
    }

    /// Returns true if the condition `Ready` is true.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready", "True").is_some()
    }
}

/// Returns the objects of a list.
pub(crate) fn items<T, const MOST: usize>(list: &Objects<T, MOST>) -> impl Iterator<Item = &T> {
    list.value.iter().map(|item| &item.value.0)
}

/// Returns the image of each container by its name, without those whose name or image is
/// unreadable.
pub(crate) fn images(
    init_containers: &Objects<ContainerView>,
    containers: &Objects<ContainerView>,
) -> BTreeMap<Box<str>, Box<str>> {
    let all = items(init_containers).chain(items(containers));
    all.filter_map(|one| Some((one.name.value.clone()?, one.image.value.clone()?)))
        .collect()
}
