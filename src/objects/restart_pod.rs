//! A pod whose containers are to be restarted: what is kept of every pod, and besides it what a restart has to know. Few pods at a time
//! are read so.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::container_spec::{ContainerSpec, PodSpec};
use super::container_wire::{ContainerSpecWire, Objects, PodSpecWire, Text};
use super::lenient::{Lenient, Object, Present};
use super::parked::Parked;
use super::pod::{Container, Pod, RestartPolicy};
use super::pod_readiness::{GateCondition, KRUISE_POD_READY, PodReadiness};
use super::wire::PodWire;
use crate::decide::command::ContainerFacts;

type Integer = Lenient<Option<i64>>;

/// A pod with what a restart has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartPod {
    /// What is kept of every pod.
    pub pod: Pod,
    /// `metadata.generation`; absent before Kubernetes 1.33.
    pub generation: Option<i64>,
    /// `status.observedGeneration`: up to where the node has seen the spec. Absent on older and on virtual nodes.
    pub observed_generation: Option<i64>,
    /// Of each of `pod.containers`, in the same order.
    pub details: Vec<Details>,
    /// Those of `spec.initContainers` that are native sidecars (their `restartPolicy` is `Always`).
    pub native_sidecars: Vec<NativeSidecar>,
    /// The names of the other `spec.initContainers`.
    pub init_containers: Vec<Box<str>>,
    /// Its readiness, where it has the readiness gate `KruisePodReady`.
    pub readiness: Option<PodReadiness>,
    /// Which containers are parked, by the annotation of [`Parked`]; `None` where it was not written for this pod.
    pub parked: Option<Parked>,
}

/// A native sidecar, as if it were one of `spec.containers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSidecar {
    /// Position in `spec.initContainers`.
    pub index: usize,
    /// What is kept of every container.
    pub container: Container,
    /// What a restart has to know of it.
    pub details: Details,
}

/// What a restart has to know of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Whether `imagePullPolicy` is `Always`: each start asks the registry.
    pub pulls_always: bool,
    /// Whether there is a `startupProbe`.
    pub has_startup_probe: bool,
    /// `imageID` of the status: a repository with a digest, a bare digest, or empty.
    pub image_id: Box<str>,
    /// `ready` of the status.
    pub ready: bool,
    /// Whether it is one of `spec.initContainers`.
    pub is_native_sidecar: bool,
    /// Which program another image would be started with, whatever the restart policy; `None` where it was not read.
    pub facts: Option<Box<ContainerFacts>>,
    /// `lifecycle.preStop`, as far as requests know it (`exec`, `httpGet`, `tcpSocket`).
    pub pre_stop: Option<Value>,
    /// `ports`, where `preStop` has an `httpGet`, which may name one of them.
    pub ports: Option<Value>,
}

impl RestartPod {
    /// A container or native sidecar, with its position in its list.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(usize, &Container, &Details)> {
        let Some((index, container)) = self.pod.containers.iter().enumerate().find(|(_, container)| &*container.name == name) else {
            let native = self.native_sidecars.iter().find(|native| &*native.container.name == name)?;
            return Some((native.index, &native.container, &native.details));
        };
        Some((index, container, self.details.get(index)?))
    }
}

/// Such a pod of a list or watch.
#[derive(Clone, Debug)]
pub struct RestartPodWire {
    pod: PodWire,
    natives: PodWire,
    more: TopWire,
    facts: Vec<ContainerFacts>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TopWire {
    metadata: Lenient<Object<MetaWire>>,
    spec: Lenient<Object<SpecWire>>,
    status: Lenient<Object<StatusWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MetaWire {
    generation: Integer,
    annotations: Lenient<Object<AnnotationsWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationsWire {
    #[serde(rename = "swaplet.io/parked")]
    parked: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    containers: Objects<ContainerWire>,
    init_containers: Objects<ContainerWire>,
    readiness_gates: Objects<ReadinessGateWire>,
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
    message: Text,
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
        let mut object = Value::deserialize(deserializer)?;
        let more = TopWire::deserialize(&object).map_err(serde::de::Error::custom)?;
        let pod = PodWire::deserialize(&object).map_err(serde::de::Error::custom)?;
        let facts = object.get("spec").map(facts).unwrap_or_default();
        init_containers_alone(&mut object);
        let natives = PodWire::deserialize(object).map_err(serde::de::Error::custom)?;
        Ok(Self { pod, natives, more, facts })
    }
}

/// Native sidecars are read as containers are.
fn init_containers_alone(object: &mut Value) {
    for (part, list, init_list) in [("spec", "containers", "initContainers"), ("status", "containerStatuses", "initContainerStatuses")] {
        if let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) {
            let init = part.remove(init_list).unwrap_or_default();
            part.insert(list.to_owned(), init);
        }
    }
}

/// Of each container. A container is parked under every restart policy, so none of them is an obstacle.
fn facts(spec: &Value) -> Vec<ContainerFacts> {
    let Ok(spec) = Lenient::<Object<PodSpecWire<ContainerSpecWire>>>::deserialize(spec) else { return Vec::new() };
    let mut spec = spec.value.0;
    let containers = std::mem::take(&mut spec.containers.value);
    let around = spec.read();
    let pod = PodSpec { restart_policy: None, ..around.pod.clone() };
    let facts =
        |wire| ContainerFacts::of(&pod, &ContainerSpec { restart_policy: None, restart_rules: Vec::new(), ..around.container(wire) });
    containers.into_iter().map(facts).collect()
}

impl Resource for RestartPodWire {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        PodWire::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        PodWire::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        PodWire::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        PodWire::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        self.pod.meta()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.pod.meta_mut()
    }
}

impl RestartPodWire {
    /// Reads the pod; `None` as for [`PodWire::read`].
    #[must_use]
    pub fn read(self) -> Option<RestartPod> {
        let pod = self.pod.read()?;
        let natives = self.natives.read()?;
        let metadata = self.more.metadata.value.0;
        let spec = self.more.spec.value.0;
        let status = self.more.status.value.0;
        let readiness = spec.has_gate().then(|| readiness(&status.conditions));
        let statuses = read_all(status.container_statuses);
        let facts = self.facts.into_iter().map(|facts| Some(Box::new(facts))).chain(std::iter::repeat(None));
        let details = read_all(spec.containers).into_iter().zip(facts);
        let init_statuses = read_all(status.init_container_statuses);
        let init_details = read_all(spec.init_containers).into_iter().map(|container| container.read_native(&init_statuses));
        let (mut native_sidecars, mut init_containers) = (Vec::new(), Vec::new());
        for (index, (container, details)) in natives.containers.into_iter().zip(init_details).enumerate() {
            match container.restart_policy {
                Some(RestartPolicy::Always) => native_sidecars.push(NativeSidecar { index, container, details }),
                _ => init_containers.push(container.name),
            }
        }
        let annotation = metadata.annotations.value.0.parked.value;
        Some(RestartPod {
            parked: annotation.and_then(|value| Parked::read(&value, &pod.uid)),
            generation: metadata.generation.value,
            observed_generation: status.observed_generation.value,
            readiness,
            details: details.map(|(container, facts)| Details { facts, ..container.read(&statuses) }).collect(),
            native_sidecars,
            init_containers,
            pod,
        })
    }
}

impl SpecWire {
    fn has_gate(&self) -> bool {
        self.readiness_gates.value.iter().any(|gate| gate.value.0.condition_type.value.as_deref() == Some(KRUISE_POD_READY))
    }
}

fn readiness(conditions: &Objects<ConditionWire>) -> PodReadiness {
    let find = |kind: &str| conditions.value.iter().map(|one| &one.value.0).find(|one| one.r#type.value.as_deref() == Some(kind));
    let is_true = |condition: &ConditionWire| condition.status.value.as_deref() == Some("True");
    let gate = find(KRUISE_POD_READY)
        .map(|gate| GateCondition { is_true: is_true(gate), message: gate.message.value.clone().unwrap_or_default() });
    PodReadiness { gate, is_ready: find("Ready").is_some_and(is_true) }
}

fn read_all<T>(list: Objects<T>) -> Vec<T> {
    list.value.into_iter().map(|item| item.value.0).collect()
}

impl ContainerWire {
    fn read(self, statuses: &[ContainerStatusWire]) -> Details {
        let status = statuses.iter().find(|status| status.name.value == self.name.value);
        let pre_stop = self.lifecycle.as_ref().and_then(pre_stop);
        let ports = pre_stop.as_ref().is_some_and(|hook| hook.get("httpGet").is_some()).then_some(self.ports).flatten();
        Details {
            pre_stop,
            ports,
            pulls_always: self.image_pull_policy.value.as_deref() == Some("Always"),
            has_startup_probe: self.startup_probe.value.0,
            image_id: status.and_then(|status| status.image_id.value.clone()).unwrap_or_default(),
            ready: status.is_some_and(|status| status.ready.value == Some(true)),
            is_native_sidecar: false,
            facts: None,
        }
    }

    fn read_native(self, statuses: &[ContainerStatusWire]) -> Details {
        Details { is_native_sidecar: true, ..self.read(statuses) }
    }
}

fn pre_stop(lifecycle: &Value) -> Option<Value> {
    let hook = lifecycle.get("preStop")?;
    let known = ["exec", "httpGet", "tcpSocket"].iter().filter_map(|kind| Some(((*kind).to_owned(), hook.get(kind)?.clone())));
    let known: Map<String, Value> = known.collect();
    (!known.is_empty()).then_some(Value::Object(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::parked::PARKED;
    use serde_json::json;

    fn read(pod: Value) -> Option<RestartPod> {
        serde_json::from_value::<RestartPodWire>(pod).unwrap().read()
    }

    #[test]
    fn details_are_joined_with_their_status_by_name() {
        let pod = read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 4},
            "spec": {"restartPolicy": "Always", "initContainers": [{"name": "setup"}], "containers": [
                {"name": "app", "image": "app:1", "imagePullPolicy": "Always", "startupProbe": {"httpGet": {"port": 1}}},
                {"name": "log", "image": "log:1"},
            ]},
            "status": {"observedGeneration": 3, "containerStatuses": [
                {"name": "log", "ready": true, "imageID": "r.example/log@sha256:1"}, {"name": "app", "ready": false},
            ]},
        }))
        .unwrap();
        assert_eq!((pod.generation, pod.observed_generation, &*pod.init_containers[0]), (Some(4), Some(3), "setup"));
        let (index, container, details) = pod.find("log").unwrap();
        assert_eq!((index, &*container.image, details.ready, &*details.image_id), (1, "log:1", true, "r.example/log@sha256:1"));
        assert!(pod.details[0].pulls_always && pod.details[0].has_startup_probe && !pod.details[1].pulls_always);
        assert!(pod.details.iter().all(|details| details.facts.is_some()));
        assert_eq!(pod.find("setup"), None);
    }

    #[test]
    fn a_hook_is_read_with_the_ports_that_it_may_name() {
        let details = |pre_stop: Value| {
            let container = json!({"name": "app", "lifecycle": {"preStop": pre_stop}, "ports": [{"containerPort": 80, "name": "web"}]});
            let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [container]}});
            let details = read(pod).unwrap().details.remove(0);
            (details.pre_stop, details.ports)
        };
        let (exec, http) = (json!({"exec": {"command": ["a"]}}), json!({"httpGet": {"port": "web"}}));
        assert_eq!(details(exec.clone()), (Some(exec), None));
        assert_eq!(details(http.clone()), (Some(http), Some(json!([{"containerPort": 80, "name": "web"}]))));
        for unknown in [json!({"sleep": {"seconds": 3}}), json!(3), json!(null)] {
            assert_eq!(details(unknown), (None, None));
        }
    }

    #[test]
    fn readiness_is_read_where_the_gate_is() {
        let conditions = json!([{"type": "Ready", "status": "True"}, {"type": KRUISE_POD_READY, "status": "False", "message": "[]"}]);
        let pod = |gates: &Value, conditions: &Value| {
            let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"readinessGates": gates, "containers": []},
                "status": {"conditions": conditions}});
            read(pod).unwrap().readiness
        };
        let gates = json!([{"conditionType": "other"}, {"conditionType": KRUISE_POD_READY}]);
        let gate = Some(GateCondition { is_true: false, message: "[]".into() });
        assert_eq!(pod(&gates, &conditions), Some(PodReadiness { gate, is_ready: true }));
        assert_eq!(pod(&gates, &json!([1, {"type": 2}])), Some(PodReadiness::default()));
        assert_eq!(pod(&json!([{"conditionType": "other"}, 3]), &conditions), None);
    }

    #[test]
    fn a_native_sidecar_is_read_with_its_own_status() {
        let pod = read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"containers": [{"name": "app", "image": "app:1"}],
                "initContainers": [{"name": "setup", "image": "setup:1"}, {"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"}]},
            "status": {"containerStatuses": [{"name": "app", "restartCount": 1}], "initContainerStatuses": [
                {"name": "setup", "restartCount": 2}, {"name": "mesh", "restartCount": 3, "ready": true, "imageID": "mesh@sha256:1"}]},
        }))
        .unwrap();
        let (index, container, details) = pod.find("mesh").unwrap();
        assert_eq!((index, &*container.image, container.status.as_ref().unwrap().restart_count), (1, "mesh:1", 3));
        assert!(details.is_native_sidecar && details.ready && &*details.image_id == "mesh@sha256:1");
        assert_eq!((pod.init_containers, pod.pod.containers.len()), (vec!["setup".into()], 1));
        assert_eq!(pod.pod.containers[0].status.as_ref().unwrap().restart_count, 1);
    }

    #[test]
    fn what_is_parked_is_read_where_it_was_written_for_this_pod() {
        let pod = |uid: &str| {
            let parked = Parked { pod: "u".into(), park: "park:1".into(), ..Parked::default() };
            read(json!({"metadata": {"name": "p", "namespace": "ns", "uid": uid, "annotations": {PARKED: parked.as_text(), "other": 1}}}))
        };
        assert_eq!(pod("u").unwrap().parked.map(|parked| parked.park), Some("park:1".into()));
        assert_eq!(pod("another").unwrap().parked, None);
    }

    #[test]
    fn what_has_a_wrong_type_is_absent() {
        for strange in [json!(1), json!("x"), json!([1]), json!(null)] {
            let pod = read(json!({
                "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": strange},
                "spec": {"containers": [{"name": "app", "imagePullPolicy": strange, "startupProbe": null}], "initContainers": strange},
                "status": {"observedGeneration": strange, "containerStatuses": [strange, {"name": "app", "ready": strange}]},
            }))
            .unwrap();
            assert!(pod.find("app").is_some_and(|(_, _, details)| !details.ready && !details.has_startup_probe), "{strange}");
        }
    }
}
