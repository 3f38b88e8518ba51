//! The pod as it comes over the wire.

mod metadata;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::{ConfiguredPod, Life, Use};
use crate::objects::node::ConditionWire;
use crate::objects::values::bounds;
use crate::objects::values::lenient::{
    self, Flag, Integer, Lenient, Member, Object, Objects, Present, Text,
};
use crate::objects::values::parts::Parts;
use crate::restart::on_config::annotation::{RESTART_ON, Reference, ReferenceKind, parse};

type Texts = Lenient<lenient::Texts>;

/// A pod of a list or watch. As for all pods, decoding fails only for JSON that is no Kubernetes
/// object at all.
#[derive(Clone, Debug)]
pub struct ConfiguredPodWire {
    metadata: ObjectMeta,
    meta: MetaWire,
    spec: SpecWire,
    status: StatusWire,
}

of_kind!(ConfiguredPodWire, k8s_openapi::api::core::v1::Pod);

type TopWire = Parts<MetaWire, SpecWire, StatusWire>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
    deletion_timestamp: Lenient<Present>,
    labels: Texts,
    annotations: Texts,
    owner_references: Objects<OwnerWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OwnerWire {
    uid: Text,
    controller: Flag,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    node_name: Text,
    containers: Objects<ContainerWire>,
    volumes: Objects<VolumeWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerWire {
    name: Text,
    env: Objects<EnvWire, { bounds::VARIABLES }>,
    env_from: Objects<EnvFromWire>,
    volume_mounts: Objects<MountWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnvWire {
    value_from: Member<ValueFromWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValueFromWire {
    config_map_key_ref: Member<SourceWire>,
    secret_key_ref: Member<SourceWire>,
    field_ref: Member<FieldWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FieldWire {
    field_path: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnvFromWire {
    config_map_ref: Member<SourceWire>,
    secret_ref: Member<SourceWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MountWire {
    name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeWire {
    name: Text,
    config_map: Member<SourceWire>,
    secret: Member<SourceWire>,
    projected: Member<ProjectedWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectedWire {
    sources: Objects<ProjectionWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProjectionWire {
    config_map: Member<SourceWire>,
    secret: Member<SourceWire>,
}

/// A mention of a `ConfigMap` or `Secret` in the spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SourceWire {
    name: Text,
    secret_name: Text,
    optional: Flag,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    phase: Text,
    conditions: Objects<ConditionWire>,
    container_statuses: Objects<ContainerStatusWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatusWire {
    name: Text,
    restart_count: Integer,
    state: Lenient<Object<StateWire>>,
    last_state: Lenient<Object<StateWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StateWire {
    running: Lenient<Present>,
    terminated: Lenient<Present>,
}

impl<'de> Deserialize<'de> for ConfiguredPodWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let top = TopWire::deserialize(deserializer)?;
        let meta = top.metadata.value.0;
        let metadata = lenient::watched(&meta.name, &meta.namespace, &meta.resource_version);
        Ok(Self {
            metadata,
            meta,
            spec: top.spec.value.0,
            status: top.status.value.0,
        })
    }
}

impl ConfiguredPodWire {
    /// `metadata.uid`
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.meta.uid.value.as_deref()
    }

    /// Reads the pod. Returns `None` if it has no annotation, or lacks a namespace, name or uid.
    #[must_use]
    pub fn read(self) -> Option<ConfiguredPod> {
        let Self {
            meta, spec, status, ..
        } = self;
        let required = |text: Text| text.value.filter(|text| !text.is_empty());
        let annotations = meta.annotations.value.0;
        let text = annotations.get(RESTART_ON)?;
        let containers: Vec<_> = spec
            .containers
            .value
            .iter()
            .filter_map(|container| container.value.0.name.value.clone())
            .collect();
        let labels = meta.labels.value.0;
        let wish = parse(text, &containers);
        let metadata =
            wish.and_then(|wish| Ok((spec.metadata(&wish, &labels, &annotations)?, wish)));
        let (metadata, wish) = match metadata {
            Ok((metadata, wish)) => (metadata, Ok(wish)),
            Err(problem) => (BTreeMap::new(), Err(problem)),
        };
        let owner = meta
            .owner_references
            .value
            .into_iter()
            .map(|owner| owner.value.0)
            .find(|owner| owner.controller.value == Some(true));
        let is_over = matches!(status.phase.value.as_deref(), Some("Succeeded" | "Failed"));
        Some(ConfiguredPod {
            namespace: required(meta.namespace)?,
            name: required(meta.name)?,
            uid: required(meta.uid)?,
            labels: labels
                .into_iter()
                .map(|(key, text)| (key.into(), text.into()))
                .collect(),
            owner: owner.and_then(|owner| required(owner.uid)),
            node: spec.node_name.value.clone().unwrap_or_default(),
            ending: meta.deletion_timestamp.value.0 || is_over,
            ready: status
                .conditions
                .value
                .iter()
                .any(|condition| condition.value.0.is("Ready", "True")),
            wish,
            uses: spec.uses(),
            metadata,
            lives: status
                .container_statuses
                .value
                .into_iter()
                .filter_map(|status| status.value.0.life())
                .collect(),
        })
    }
}

impl SpecWire {
    fn uses(&self) -> BTreeMap<(Box<str>, Reference), Use> {
        let mut uses = BTreeMap::<_, Use>::new();
        for container in self
            .containers
            .value
            .iter()
            .map(|container| &container.value.0)
        {
            let Some(name) = &container.name.value else {
                continue;
            };
            let mounts: BTreeSet<_> = container
                .volume_mounts
                .value
                .iter()
                .filter_map(|mount| mount.value.0.name.value.as_deref())
                .collect();
            let is_mounted = |volume: &&VolumeWire| {
                volume
                    .name
                    .value
                    .as_deref()
                    .is_some_and(|name| mounts.contains(name))
            };
            let volumes = self
                .volumes
                .value
                .iter()
                .map(|volume| &volume.value.0)
                .filter(is_mounted);
            let files = volumes
                .flat_map(VolumeWire::mentions)
                .map(|mention| (mention, true));
            for ((reference, is_required), is_mounted) in container
                .mentions()
                .map(|mention| (mention, false))
                .chain(files)
            {
                let usage = uses.entry((name.clone(), reference)).or_default();
                usage.mounted |= is_mounted;
                usage.required |= is_required;
            }
        }
        uses
    }
}

/// An object that is mentioned, and true if it has to exist.
type Mention = (Reference, bool);

impl ContainerWire {
    fn mentions(&self) -> impl Iterator<Item = Mention> {
        let values = self
            .env
            .value
            .iter()
            .filter_map(|env| env.value.0.value_from.value.as_deref());
        let values =
            values.flat_map(|from| mentions(&from.config_map_key_ref, &from.secret_key_ref));
        let all = self.env_from.value.iter().map(|from| &from.value.0);
        values.chain(all.flat_map(|from| mentions(&from.config_map_ref, &from.secret_ref)))
    }
}

impl VolumeWire {
    fn mentions(&self) -> impl Iterator<Item = Mention> {
        let projected = self
            .projected
            .value
            .iter()
            .flat_map(|projected| &projected.sources.value)
            .map(|source| &source.value.0);
        mentions(&self.config_map, &self.secret)
            .chain(projected.flat_map(|source| mentions(&source.config_map, &source.secret)))
    }
}

fn mentions<'a>(
    config_map: &'a Member<SourceWire>,
    secret: &'a Member<SourceWire>,
) -> impl Iterator<Item = Mention> + 'a {
    [
        (ReferenceKind::ConfigMap, config_map),
        (ReferenceKind::SecretMetadata, secret),
    ]
    .into_iter()
    .filter_map(|(kind, source)| {
        let source = source.value.as_deref()?;
        let name = source
            .name
            .value
            .clone()
            .or_else(|| source.secret_name.value.clone())?;
        Some((
            Reference { kind, name },
            source.optional.value != Some(true),
        ))
    })
}

impl ContainerStatusWire {
    fn life(self) -> Option<(Box<str>, Life)> {
        let (state, last) = (self.state.value.0, self.last_state.value.0);
        let was_there = self.restart_count.value.unwrap_or_default() > 0 || last.terminated.value.0;
        let life = if state.terminated.value.0 {
            Life::Ended
        } else if state.running.value.0 || was_there {
            Life::Alive
        } else {
            Life::Unstarted
        };
        Some((self.name.value?, life))
    }
}
