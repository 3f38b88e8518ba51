//! The pod as it comes over the wire: the type that is listed and watched.

pub mod brief;
mod statuses;

pub(crate) use self::statuses::StateWire;
use self::statuses::{ContainerStatusWire, StatusList};
use std::panic::resume_unwind;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::container_wire::{ContainerSpecWire, Objects, PodSpecWire, Surroundings, Text, policy};
use super::{Container, PHASE_WRITTEN, Phase, Pod, RestartPolicy, RestartRule};
use crate::isolated::isolated;
use crate::objects::command::ContainerFacts;
use crate::objects::job::OwnerWire;
use crate::objects::values::bounds;
use crate::objects::values::env::Mark;
use crate::objects::values::lenient::{Lenient, Object, Present};

type Integer = Lenient<Option<i64>>;
type Time = Lenient<Option<jiff::Timestamp>>;

/// A pod of a list or watch, read at once, so that a page of a list holds what is kept and no more.
/// Decoding fails only on JSON that is no object of Kubernetes at all: not an object, or with a key
/// of ours twice.
#[derive(Clone, Debug)]
pub struct PodWire {
    metadata: ObjectMeta,
    /// Or the words of the defect that has kept it from being read.
    pod: Result<Option<Pod>, String>,
}

of_kind!(PodWire, k8s_openapi::api::core::v1::Pod);

#[derive(Default, Deserialize)]
#[serde(default)]
struct TopWire {
    metadata: Lenient<Object<MetaWire>>,
    spec: Lenient<Object<SpecWire>>,
    status: Lenient<Object<StatusWire>>,
}

/// `managedFields`, labels and annotations are the expensive part of metadata; none of them is
/// needed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
    deletion_timestamp: Lenient<Present>,
    owner_references: Objects<OwnerWire>,
}

type SpecWire = PodSpecWire<ContainerWire>;

/// A container of a listed pod: of a sidecar everything, of any other no more than what says
/// whether it is done.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ContainerSpecWire")]
struct ContainerWire {
    name: Text,
    image: Text,
    restart_policy: Text,
    restart_rules: Vec<RestartRule>,
    is_malformed: bool,
    mark: Mark,
    sidecar: Option<Box<ContainerSpecWire>>,
}

impl From<ContainerSpecWire> for ContainerWire {
    fn from(all: ContainerSpecWire) -> Self {
        let mark = all.mark();
        let is_malformed = all.name.value.is_none() || all.image.malformed || all.env.malformed;
        Self {
            name: all.name.clone(),
            image: all.image.clone(),
            restart_policy: all.restart_policy.clone(),
            restart_rules: all.restart_rules(),
            is_malformed,
            sidecar: mark.is_sidecar().then(|| Box::new(all)),
            mark,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    phase: Text,
    reason: Text,
    conditions: Objects<ConditionWire>,
    init_container_statuses: Objects<RestartsWire>,
    container_statuses: Objects<ContainerStatusWire>,
}

/// All that counts of a condition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ConditionWire {
    #[serde(rename = "type")]
    kind: Text,
}

/// All that counts of the status of an init container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RestartsWire {
    restart_count: Integer,
}

impl<'de> Deserialize<'de> for PodWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let top = TopWire::deserialize(deserializer)?;
        let meta = top.metadata.value.0;
        let text = |field: Text| field.value.map(String::from);
        let metadata = ObjectMeta {
            name: text(meta.name),
            namespace: text(meta.namespace),
            uid: text(meta.uid),
            resource_version: text(meta.resource_version),
            ..ObjectMeta::default()
        };
        let read = Read {
            metadata: &metadata,
            deleting: meta.deletion_timestamp.value.0,
            owners: meta.owner_references,
            spec: top.spec,
            status: top.status,
        };
        let pod = isolated(|| read.read());
        Ok(Self { metadata, pod })
    }
}

impl PodWire {
    /// The pod in the form that is kept. `None` where name, namespace or uid are missing: such an
    /// object cannot be addressed, so nothing can be decided about it. A defect that was met while
    /// it was read is met again here, where one object pays for it.
    #[must_use]
    pub fn read(self) -> Option<Pod> {
        self.pod
            .unwrap_or_else(|defect| resume_unwind(Box::new(defect)))
    }

    /// What its end is told with: who it is, and whose.
    #[must_use]
    pub fn without_containers(&self) -> Self {
        let pod = self.pod.clone().map(|pod| {
            pod.map(|pod| Pod {
                containers: Vec::new(),
                ..pod
            })
        });
        Self {
            metadata: self.metadata.clone(),
            pod,
        }
    }
}

/// A pod that is being read.
struct Read<'a> {
    metadata: &'a ObjectMeta,
    deleting: bool,
    owners: Objects<OwnerWire>,
    spec: Lenient<Object<SpecWire>>,
    status: Lenient<Object<StatusWire>>,
}

impl Read<'_> {
    fn read(self) -> Option<Pod> {
        let boxed = |text: &Option<String>| {
            text.as_deref()
                .filter(|text| !text.is_empty())
                .map(Box::from)
        };
        let malformed = self.malformed();
        let mut spec = self.spec.value.0;
        let status = self.status.value.0;
        let init = status
            .init_container_statuses
            .value
            .iter()
            .map(|init| init.value.0.restart_count.value.unwrap_or_default());
        let mut statuses = StatusList::read(status.container_statuses.value);
        let containers = std::mem::take(&mut spec.containers.value);
        let node = spec.node_name.value.take().unwrap_or_default();
        let around = spec.read();
        let containers = containers
            .into_iter()
            .map(|c| c.value.0.read(&around, &mut statuses))
            .collect();
        let pod =
            Pod {
                namespace: boxed(&self.metadata.namespace)?,
                name: boxed(&self.metadata.name)?,
                uid: boxed(&self.metadata.uid)?,
                version: boxed(&self.metadata.resource_version).unwrap_or_default(),
                deleting: self.deleting,
                job: OwnerWire::job(&self.owners.value),
                owner: OwnerWire::other(&self.owners.value),
                restart_policy: RestartPolicy::read(spec.restart_policy.value.as_deref()),
                grace_seconds: spec
                    .termination_grace_period_seconds
                    .value
                    .filter(|seconds| *seconds >= 0)
                    .map(bounds::seconds),
                node,
                phase: Phase::read(status.phase.value.as_deref()),
                phase_was_written: status.conditions.value.iter().any(|condition| {
                    condition.value.0.kind.value.as_deref() == Some(PHASE_WRITTEN)
                }),
                reason: status.reason.value.unwrap_or_default(),
                platform_ends_eci_sidecars: false,
                containers,
                other_restarts: init.chain(statuses.restarts()).fold(0, i64::saturating_add),
                malformed,
            };
        Some(if pod.weight() > bounds::POD {
            without_containers(pod)
        } else {
            pod
        })
    }

    fn malformed(&self) -> Option<&'static str> {
        let spec = &self.spec.value.0;
        let status = &self.status.value.0;
        let containers = &spec.containers;
        let init = &status.init_container_statuses;
        let fields = [
            (
                self.owners.malformed || self.owners.value.iter().any(|owner| owner.malformed),
                "metadata.ownerReferences",
            ),
            (self.spec.malformed, "spec"),
            (self.status.malformed, "status"),
            (spec.restart_policy.malformed, "spec.restartPolicy"),
            (containers.malformed, "spec.containers"),
            (
                containers.value.iter().any(ContainerWire::malformed),
                "spec.containers[*]",
            ),
            (status.phase.malformed, "status.phase"),
            (
                status.container_statuses.malformed,
                "status.containerStatuses",
            ),
            (
                status
                    .container_statuses
                    .value
                    .iter()
                    .any(ContainerStatusWire::malformed),
                "status.containerStatuses[*]",
            ),
            (init.malformed, "status.initContainerStatuses"),
            (
                init.value
                    .iter()
                    .any(|s| s.malformed || s.value.0.restart_count.malformed),
                "status.initContainerStatuses[*]",
            ),
        ];
        fields
            .iter()
            .find(|(malformed, _)| *malformed)
            .map(|(_, field)| *field)
    }
}

/// What is too large to be kept is left alone, and told; its restarts count.
fn without_containers(pod: Pod) -> Pod {
    Pod {
        other_restarts: pod.restarts(),
        containers: Vec::new(),
        malformed: Some("spec.containers"),
        ..pod
    }
}

impl ContainerWire {
    fn malformed(container: &Lenient<Object<Self>>) -> bool {
        container.malformed || container.value.0.is_malformed
    }

    fn read(self, around: &Surroundings<'_>, statuses: &mut StatusList) -> Container {
        let name = self.name.value.unwrap_or_default();
        let facts = |all: Box<ContainerSpecWire>| {
            let all = around.container(Lenient {
                value: Object(*all),
                malformed: false,
            });
            Box::new(ContainerFacts::of(&around.pod, &all))
        };
        Container {
            status: statuses.take(&name),
            image: self.image.value.unwrap_or_default(),
            restart_policy: policy(&self.restart_policy),
            restart_rules: self.restart_rules,
            mark: self.mark,
            facts: self.sidecar.map(facts),
            name,
        }
    }
}
