//! The decoder of pods: the type that is listed and watched.

mod statuses;
pub mod stored;
mod weight;

pub(crate) use self::statuses::StateWire;
use self::statuses::{ContainerStatusWire, StatusList};
use std::collections::BTreeMap;
use std::panic::resume_unwind;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use self::weight::{drop_unused_facts, within_bounds};
use super::annotations::Written;
use super::container_wire::{ContainerSpecWire, PodSpecWire, Surroundings, policy};
use super::{ACS, ACS_CLASS, Container, PHASE_WRITTEN, Phase, Pod, RestartPolicy, RestartRule};
use crate::objects::command::ContainerFacts;
use crate::objects::isolated::isolated;
use crate::objects::job::OwnerWire;
use crate::objects::runs_on::RunsOn;
use crate::objects::values::bounds;
use crate::objects::values::env::Mark;
use crate::objects::values::lenient::{
    Integer, Lenient, Object, Objects, Present, Text, Texts, Time,
};
use crate::objects::values::parts::Parts;

/// The type of the condition of a pod that somebody ends: by preemption, a taint, the eviction API,
/// the garbage collector or its kubelet. Not all of them set `status.reason`.
const DISRUPTION: &str = "DisruptionTarget";
/// The type of the condition of a pod whose containers are all started again.
const ALL_RESTART: &str = "AllContainersRestarting";

/// A pod of a list or watch, read at once, so that a page of a list holds little more than what is
/// cached: for pods with several containers also the labels, by which policies select them, and the
/// facts about exit images.
/// Decoding fails only on JSON that is no Kubernetes object at all: not an object, or with a
/// duplicate key among those that are read.
#[derive(Clone, Debug)]
pub struct PodWire {
    pub(crate) metadata: ObjectMeta,
    labels: BTreeMap<String, String>,
    /// The pod, or the message of the panic while it was read.
    pod: Result<Option<Pod>, String>,
}

of_kind!(PodWire, k8s_openapi::api::core::v1::Pod);

type TopWire = Parts<MetaWire, SpecWire, StatusWire>;

/// Metadata without its expensive parts, `managedFields` and annotations; of these only the needed
/// ones are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
    creation_timestamp: Time,
    deletion_timestamp: Lenient<Present>,
    owner_references: Objects<OwnerWire>,
    labels: Lenient<Texts>,
    annotations: Lenient<Object<Written>>,
}

type SpecWire = PodSpecWire<ContainerWire>;

/// A container of a listed pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ContainerSpecWire")]
struct ContainerWire {
    name: Text,
    image: Text,
    restart_policy: Text,
    restart_rules: Vec<RestartRule>,
    is_malformed: bool,
    mark: Mark,
    all: Box<ContainerSpecWire>,
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
            all: Box::new(all),
            mark,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    phase: Text,
    reason: Text,
    start_time: Time,
    conditions: Objects<ConditionWire>,
    init_container_statuses: Objects<ContainerStatusWire>,
    container_statuses: Objects<ContainerStatusWire>,
}

/// The fields of a condition that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConditionWire {
    #[serde(rename = "type")]
    kind: Text,
    status: Text,
    reason: Text,
    last_transition_time: Time,
}

impl ConditionWire {
    fn is_true(&self, kind: &str) -> bool {
        self.kind.value.as_deref() == Some(kind) && self.status.value.as_deref() == Some("True")
    }
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
            created_at: meta.creation_timestamp.value,
            deleting: meta.deletion_timestamp.value.0,
            owners: meta.owner_references,
            annotations: meta.annotations.value.0,
            on_acs: {
                let labels = &meta.labels.value.0;
                labels.get(ACS).is_some_and(|value| &**value == "true")
                    || labels.contains_key(ACS_CLASS)
            },
            spec: top.spec,
            status: top.status,
        };
        let pod = isolated(|| read.read());
        let has_labels = matches!(&pod, Ok(Some(pod)) if may_have_rules(pod));
        let labels = meta.labels.value.0.into_iter().filter(|_| has_labels);
        Ok(Self {
            labels: labels
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            metadata,
            pod,
        })
    }
}

impl PodWire {
    /// Returns the pod in the form that is cached. `None` if name, namespace or uid are missing:
    /// such an object cannot be addressed, so nothing can be decided about it. A panic that
    /// occurred while it was read is raised again here, where it affects one object only.
    #[must_use]
    pub fn read(self) -> Option<Pod> {
        self.read_with(|_, _| ())
    }

    /// Like [`Self::read`], after `rules` has changed the pod: it gets the pod and its labels, if
    /// the pod has more than one container and does not restart always.
    #[must_use]
    pub fn read_with(self, rules: impl FnOnce(&mut Pod, &BTreeMap<String, String>)) -> Option<Pod> {
        let mut pod = self
            .pod
            .unwrap_or_else(|defect| resume_unwind(Box::new(defect)))?;
        if may_have_rules(&pod) {
            rules(&mut pod, &self.labels);
        }
        drop_unused_facts(&mut pod);
        Some(pod)
    }

    /// Returns the pod without containers and labels, enough to report its deletion.
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
            labels: BTreeMap::new(),
            pod,
        }
    }
}

/// Returns true if rules may apply: a lone container is no sidecar, and pods that restart always
/// are not ended.
fn may_have_rules(pod: &Pod) -> bool {
    pod.containers.len() > 1 && pod.restart_policy != RestartPolicy::Always
}

/// A pod that is being read.
struct Read<'a> {
    metadata: &'a ObjectMeta,
    created_at: Option<jiff::Timestamp>,
    deleting: bool,
    owners: Objects<OwnerWire>,
    annotations: Written,
    on_acs: bool,
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
        let clock_behind = self.clock_behind();
        let (mut spec, status) = (self.spec.value.0, self.status.value.0);
        let conditions = || status.conditions.value.iter().map(|c| &c.value.0);
        let mut inits = StatusList::read(status.init_container_statuses.value);
        let init_restarts = inits.restarts().fold(0, i64::saturating_add);
        let init_containers = std::mem::take(&mut spec.init_containers.value);
        let (ended, restarter) = inits.restart_all(init_containers);
        let reason = || {
            let disrupted = conditions().find(|condition| condition.is_true(DISRUPTION))?;
            disrupted.reason.value.clone()
        };
        let mut statuses = StatusList::read(status.container_statuses.value);
        let containers = std::mem::take(&mut spec.containers.value);
        let node = spec.node_name.value.take().unwrap_or_default();
        let grace = spec.termination_grace_period_seconds.value;
        let around = spec.read();
        let policy = RestartPolicy::read(spec.restart_policy.value.as_deref());
        let several = containers.len() > 1 && policy != RestartPolicy::Always;
        let containers = containers
            .into_iter()
            .map(|c| c.value.0.read(&around, several, &mut statuses))
            .collect();
        let mut pod = Pod {
            namespace: boxed(&self.metadata.namespace)?,
            name: boxed(&self.metadata.name)?,
            uid: boxed(&self.metadata.uid)?,
            version: boxed(&self.metadata.resource_version).unwrap_or_default(),
            deleting: self.deleting,
            job: OwnerWire::job(&self.owners.value),
            owner: OwnerWire::other(&self.owners.value),
            restart_policy: policy,
            grace_seconds: grace.filter(|seconds| *seconds >= 0).map(bounds::seconds),
            node,
            phase: Phase::read(status.phase.value.as_deref()),
            phase_was_written: conditions()
                .any(|condition| condition.kind.value.as_deref() == Some(PHASE_WRITTEN)),
            reason: status.reason.value.or_else(reason).unwrap_or_default(),
            all_restart: ended || conditions().any(|c| c.is_true(ALL_RESTART)),
            restarter,
            on_acs: self.on_acs,
            platform_ends_sidecars: false,
            node_runs_on: RunsOn::default(),
            containers,
            other_restarts: statuses.restarts().fold(init_restarts, i64::saturating_add),
            clock_behind,
            annotation_problem: None,
            refused_policy: None,
            outranked_policies: Box::default(),
            malformed,
        };
        self.annotations.apply(&mut pod);
        Some(within_bounds(pod))
    }

    /// Returns the seconds by which the node's clock is behind. A kubelet notices a pod after the
    /// API server has stored it and a scheduler has given it a node: if it reports an earlier time,
    /// its clock is behind. The time to notice, and the rounding to whole seconds, are added.
    fn clock_behind(&self) -> u32 {
        const NOTICED: i64 = 2;
        let status = &self.status.value.0;
        let scheduled = status
            .conditions
            .value
            .iter()
            .map(|condition| &condition.value.0)
            .filter(|condition| condition.kind.value.as_deref() == Some("PodScheduled"))
            .filter_map(|condition| condition.last_transition_time.value);
        let given = scheduled.chain(self.created_at).max();
        let behind = given
            .zip(status.start_time.value)
            .map_or(0, |(given, noticed)| {
                given.as_second() - noticed.as_second()
            });
        if behind > 0 {
            bounds::seconds(behind + NOTICED)
        } else {
            0
        }
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
                init.value.iter().any(ContainerStatusWire::malformed),
                "status.initContainerStatuses[*]",
            ),
        ];
        fields
            .iter()
            .find(|(malformed, _)| *malformed)
            .map(|(_, field)| *field)
    }
}

impl ContainerWire {
    fn malformed(container: &Lenient<Object<Self>>) -> bool {
        container.malformed || container.value.0.is_malformed
    }

    fn read(
        self,
        around: &Surroundings<'_>,
        with_facts: bool,
        statuses: &mut StatusList,
    ) -> Container {
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
            facts: (with_facts || self.mark.is_sidecar()).then(|| facts(self.all)),
            mark: self.mark,
            rule: None,
            name,
        }
    }
}
