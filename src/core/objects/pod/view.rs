//! A pod as the API server sends it: the fields that the loops beside the one of sidecars read.
//! Each loop keeps what it needs of it (see [`crate::objects::item`]).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::wire::StateWire;
use crate::objects::item::{View, items};
use crate::objects::node::ConditionWire;
use crate::objects::values::bounds;
use crate::objects::values::lenient::{
    Flag, Integer, Lenient, Member, Object, Objects, Said, Text,
};

/// A pod.
pub(crate) type PodView = View<SpecView, StatusView>;

/// `spec`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpecView {
    pub(crate) node_name: Text,
    pub(crate) init_containers: Objects<ContainerView>,
    pub(crate) containers: Objects<ContainerView>,
    pub(crate) volumes: Objects<VolumeView>,
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
pub struct StatusView {
    pub(crate) phase: Text,
    pub(crate) reason: Text,
    pub(crate) message: Lenient<Said>,
    pub(crate) conditions: Objects<ConditionWire>,
    pub(crate) init_container_statuses: Objects<ContainerStatusView>,
    pub(crate) container_statuses: Objects<ContainerStatusView>,
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
