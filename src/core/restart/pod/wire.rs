//! The pod whose containers are to be restarted, as it comes over the wire.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{Details, NativeSidecar, RestartPod};
use crate::objects::command::ContainerFacts;
use crate::objects::job::OwnerWire;
use crate::objects::pod::RestartPolicy;
use crate::objects::pod::container_spec::{ContainerSpec, PodSpec};
use crate::objects::pod::container_wire::{ContainerSpecWire, PodSpecWire};
use crate::objects::pod::readiness::{GateCondition, KRUISE_POD_READY, PodReadiness};
use crate::objects::pod::wire::PodWire;
use crate::objects::values::bounded_value::BoundedValue;
use crate::objects::values::bounds;
use crate::objects::values::lenient::{Integer, Lenient, Object, Objects, Present, Text, Time};
use crate::objects::values::parts::Parts;
use crate::restart::parked::Parked;

/// A pod of a list or watch, decoded for restarts.
#[derive(Clone, Debug)]
pub struct RestartPodWire {
    pod: PodWire,
    natives: PodWire,
    more: TopWire,
    facts: Vec<ContainerFacts>,
}

type TopWire = Parts<MetaWire, SpecWire, StatusWire>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    generation: Integer,
    creation_timestamp: Time,
    owner_references: Objects<OwnerWire>,
    annotations: Lenient<Object<AnnotationsWire>>,
    managed_fields: Objects<ManagedWire>,
}

/// An entry of `managedFields`, reduced to whether it owns the annotation of parked containers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ManagedWire {
    subresource: Text,
    #[serde(rename = "fieldsV1")]
    fields: Lenient<Object<FieldsWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct FieldsWire {
    #[serde(rename = "f:metadata")]
    metadata: Lenient<Object<MetaFieldsWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MetaFieldsWire {
    #[serde(rename = "f:annotations")]
    annotations: Lenient<Object<AnnotationFieldsWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationFieldsWire {
    #[serde(rename = "f:swaplet.io/parked")]
    parked: Lenient<Present>,
}

impl ManagedWire {
    fn parked_through_status(&self) -> bool {
        self.subresource.value.as_deref() == Some("status")
            && self
                .fields
                .value
                .0
                .metadata
                .value
                .0
                .annotations
                .value
                .0
                .parked
                .value
                .0
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationsWire {
    #[serde(rename = "swaplet.io/parked")]
    parked: Text<{ bounds::RECORD }>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    containers: Objects<ContainerWire>,
    init_containers: Objects<ContainerWire>,
    readiness_gates: Objects<ReadinessGateWire>,
    image_pull_secrets: Lenient<Present>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadinessGateWire {
    condition_type: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ConditionWire {
    r#type: Text,
    status: Text,
    message: Text<{ bounds::RECORD }>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerWire {
    name: Text,
    image_pull_policy: Text,
    startup_probe: Lenient<Present>,
    lifecycle: Option<Value>,
    ports: Option<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    observed_generation: Integer,
    container_statuses: Objects<ContainerStatusWire>,
    conditions: Objects<ConditionWire>,
    init_container_statuses: Objects<ContainerStatusWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatusWire {
    name: Text,
    #[serde(rename = "imageID")]
    image_id: Text,
    ready: Lenient<Option<bool>>,
}

impl<'de> Deserialize<'de> for RestartPodWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = BoundedValue::deserialize(deserializer)?.0;
        let more = TopWire::deserialize(&object).map_err(serde::de::Error::custom)?;
        let pod = PodWire::deserialize(&object).map_err(serde::de::Error::custom)?;
        let facts = object.get("spec").map(facts).unwrap_or_default();
        init_containers_alone(&mut object);
        let natives = PodWire::deserialize(object).map_err(serde::de::Error::custom)?;
        Ok(Self {
            pod,
            natives,
            more,
            facts,
        })
    }
}

/// Puts the init containers in the place of the containers, so that both are read alike.
fn init_containers_alone(object: &mut Value) {
    for (part, list, init_list) in [
        ("spec", "containers", "initContainers"),
        ("status", "containerStatuses", "initContainerStatuses"),
    ] {
        if let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) {
            let init = part.remove(init_list).unwrap_or_default();
            part.insert(list.to_owned(), init);
        }
    }
}

/// Returns the facts about each container's command; empty if the spec cannot be read. A container
/// is parked under every restart policy, so none is considered.
fn facts(spec: &Value) -> Vec<ContainerFacts> {
    let Ok(spec) = Lenient::<Object<PodSpecWire<ContainerSpecWire>>>::deserialize(spec) else {
        return Vec::new();
    };
    let mut spec = spec.value.0;
    let containers = std::mem::take(&mut spec.containers.value);
    let around = spec.read();
    let pod = PodSpec {
        restart_policy: None,
        ..around.pod.clone()
    };
    let facts = |wire| {
        ContainerFacts::of(
            &pod,
            &ContainerSpec {
                restart_policy: None,
                restart_rules: Vec::new(),
                ..around.container(wire)
            },
        )
    };
    containers.into_iter().map(facts).collect()
}

of_kind!(RestartPodWire, PodWire, pod);

impl RestartPodWire {
    /// Reads the pod. Returns `None` in the same cases as [`PodWire::read`].
    #[must_use]
    pub fn read(self) -> Option<RestartPod> {
        let pod = self.pod.read()?;
        let natives = self.natives.read()?;
        let metadata = self.more.metadata.value.0;
        let spec = self.more.spec.value.0;
        let status = self.more.status.value.0;
        let readiness = spec.has_gate().then(|| readiness(&status.conditions));
        let statuses = read_all(status.container_statuses);
        let facts = self
            .facts
            .into_iter()
            .map(|facts| Some(Box::new(facts)))
            .chain(std::iter::repeat(None));
        let details = read_all(spec.containers).into_iter().zip(facts);
        let init_statuses = read_all(status.init_container_statuses);
        let init_details = read_all(spec.init_containers)
            .into_iter()
            .map(|container| container.read_native(&init_statuses));
        let (mut native_sidecars, mut init_containers) = (Vec::new(), Vec::new());
        for (index, (container, details)) in
            natives.containers.into_iter().zip(init_details).enumerate()
        {
            match container.restart_policy {
                Some(RestartPolicy::Always) => native_sidecars.push(NativeSidecar {
                    index,
                    container,
                    details,
                }),
                _ => init_containers.push(container.name),
            }
        }
        let annotation = metadata.annotations.value.0.parked.value;
        Some(RestartPod {
            parked_through_status: metadata
                .managed_fields
                .value
                .iter()
                .any(|entry| entry.value.0.parked_through_status()),
            parked: annotation.and_then(|value| Parked::read(&value, &pod.uid)),
            generation: metadata.generation.value,
            created_at: metadata.creation_timestamp.value,
            controller: OwnerWire::controller(&metadata.owner_references.value),
            observed_generation: status.observed_generation.value,
            has_pull_secrets: spec.image_pull_secrets.value.0,
            readiness,
            details: details
                .map(|(container, facts)| Details {
                    facts,
                    ..container.read(&statuses)
                })
                .collect(),
            native_sidecars,
            init_containers,
            pod,
        })
    }
}

impl SpecWire {
    fn has_gate(&self) -> bool {
        self.readiness_gates
            .value
            .iter()
            .any(|gate| gate.value.0.condition_type.value.as_deref() == Some(KRUISE_POD_READY))
    }
}

fn readiness(conditions: &Objects<ConditionWire>) -> PodReadiness {
    let find = |kind: &str| {
        conditions
            .value
            .iter()
            .map(|one| &one.value.0)
            .find(|one| one.r#type.value.as_deref() == Some(kind))
    };
    let is_true = |condition: &ConditionWire| condition.status.value.as_deref() == Some("True");
    // Entries of others that cannot be read must not be written over, as if there were none.
    let message = |gate: &ConditionWire| {
        if gate.message.malformed {
            "?".into()
        } else {
            gate.message.value.clone().unwrap_or_default()
        }
    };
    let gate = find(KRUISE_POD_READY).map(|gate| GateCondition {
        is_true: is_true(gate),
        message: message(gate),
    });
    PodReadiness {
        gate,
        is_ready: find("Ready").is_some_and(is_true),
    }
}

fn read_all<T>(list: Objects<T>) -> Vec<T> {
    list.value.into_iter().map(|item| item.value.0).collect()
}

impl ContainerWire {
    fn read(self, statuses: &[ContainerStatusWire]) -> Details {
        let status = statuses
            .iter()
            .find(|status| status.name.value == self.name.value);
        let pre_stop = self.lifecycle.as_ref().and_then(pre_stop);
        let ports = pre_stop
            .as_ref()
            .is_some_and(|hook| hook.get("httpGet").is_some())
            .then_some(self.ports)
            .flatten();
        Details {
            pre_stop,
            ports,
            pulls_always: self.image_pull_policy.value.as_deref() == Some("Always"),
            has_startup_probe: self.startup_probe.value.0,
            image_id: status
                .and_then(|status| status.image_id.value.clone())
                .unwrap_or_default(),
            ready: status.is_some_and(|status| status.ready.value == Some(true)),
            is_native_sidecar: false,
            facts: None,
        }
    }

    fn read_native(self, statuses: &[ContainerStatusWire]) -> Details {
        Details {
            is_native_sidecar: true,
            ..self.read(statuses)
        }
    }
}

fn pre_stop(lifecycle: &Value) -> Option<Value> {
    let hook = lifecycle.get("preStop")?;
    let known = ["exec", "httpGet", "tcpSocket"]
        .iter()
        .filter_map(|kind| Some(((*kind).to_owned(), hook.get(kind)?.clone())));
    let known: Map<String, Value> = known.collect();
    (!known.is_empty()).then_some(Value::Object(known))
}
