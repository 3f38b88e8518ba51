//! A pod whose containers are to be restarted: what is kept of every pod, and the additional fields
//! that a restart needs. Few pods at a time are read so.

use super::parked::Parked;
use crate::objects::command::ContainerFacts;
use crate::objects::item::{FromView, Item};
use crate::objects::job::OwnerView;
use crate::objects::pod::container_spec::{ContainerSpec, PodSpec};
use crate::objects::pod::view::{ContainerStatusView, ContainerView, StatusList, StatusView};
use crate::objects::pod::wire::ListedView;
use crate::objects::pod::{Container, GateCondition, KRUISE_POD_READY, Pod, PodReadiness};
use crate::objects::values::bounded_value::BoundedValue;
use crate::objects::values::bounds;
use crate::objects::values::fields::{List, Text};
use k8s_openapi::api::core::v1;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A pod with the fields that a restart needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartPod {
    /// The fields that are kept of every pod.
    pub pod: Pod,
    /// `metadata.generation`; absent before Kubernetes 1.33.
    pub generation: Option<i64>,
    /// `metadata.creationTimestamp`, by the API server's clock.
    pub created_at: Option<jiff::Timestamp>,
    /// The kind and name of the controlling owner, which counts how the pod ends.
    pub controller: Option<Box<str>>,
    /// `status.observedGeneration`: the latest generation that the node has observed. Absent on
    /// older and on virtual nodes.
    pub observed_generation: Option<i64>,
    /// True if there are `imagePullSecrets`, of the pod's own or its ServiceAccount's.
    pub has_pull_secrets: bool,
    /// The details of each of `pod.containers`, in the same order.
    pub details: Vec<Details>,
    /// The native sidecars: those of `spec.initContainers` whose `restartPolicy` is `Always`.
    pub native_sidecars: Vec<NativeSidecar>,
    /// The names of the other `spec.initContainers`.
    pub init_containers: Vec<Box<str>>,
    /// The readiness of the pod; `None` if it has no readiness gate `KruisePodReady`.
    pub readiness: Option<PodReadiness>,
    /// The parked containers, by the annotation of [`Parked`]; `None` if it is missing or was not
    /// written for this pod.
    pub parked: Option<Parked>,
    /// True if that annotation was written through `pods/status`, according to `managedFields`,
    /// whose content the writer chooses. Swaplet never does so, and changing a status takes fewer
    /// rights than changing a pod.
    pub parked_through_status: bool,
}

/// A native sidecar, as if it were one of `spec.containers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSidecar {
    /// The position in `spec.initContainers`.
    pub index: usize,
    /// The fields that are kept of every container.
    pub container: Container,
    /// The details that a restart needs.
    pub details: Details,
}

/// The details of a container that a restart needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// True if `imagePullPolicy` is `Always`: each start queries the registry.
    pub pulls_always: bool,
    /// True if there is a `startupProbe`.
    pub has_startup_probe: bool,
    /// `imageID` of the status: a repository with a digest, a bare digest, or empty.
    pub image_id: Box<str>,
    /// `ready` of the status.
    pub ready: bool,
    /// True for one of `spec.initContainers`.
    pub is_native_sidecar: bool,
    /// The program that another image would be started with, whatever the restart policy; `None` if
    /// it was not read.
    pub facts: Option<Box<ContainerFacts>>,
    /// `lifecycle.preStop`, as far as requests know it (`exec`, `httpGet`, `tcpSocket`).
    pub pre_stop: Option<Value>,
    /// `ports`, if `preStop` has an `httpGet`, which may name one of them.
    pub ports: Option<Value>,
}

impl RestartPod {
    /// Finds a container or native sidecar by name, with its position in its own list of the spec.
    pub fn find(&self, name: &str) -> Option<(usize, &Container, &Details)> {
        let Some((index, container)) = self
            .pod
            .containers
            .iter()
            .enumerate()
            .find(|(_, container)| &*container.name == name)
        else {
            let native = self
                .native_sidecars
                .iter()
                .find(|native| &*native.container.name == name)?;
            return Some((native.index, &native.container, &native.details));
        };
        Some((index, container, self.details.get(index)?))
    }
}

// How the pod whose containers are to be restarted is read.

/// A pod of a list or watch, decoded for restarts.
pub type RestartPodWire = Item<RestartPod>;

/// An entry of `managedFields`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ManagedView {
    subresource: Text,
    #[serde(rename = "fieldsV1")]
    fields: BoundedValue<true>,
}

impl ManagedView {
    fn parked_through_status(&self) -> bool {
        let parked = &self.fields.0["f:metadata"]["f:annotations"]["f:swaplet.io/parked"];
        self.subresource.as_deref() == Some("status") && !parked.is_null()
    }
}

impl FromView for RestartPod {
    type Kind = v1::Pod;
    type View = ListedView<BoundedValue, List<ManagedView>>;

    /// Returns `None` if name, namespace or uid are missing, or if its hooks are too large.
    fn of(mut view: Self::View) -> Option<Self> {
        let (meta, spec, status) = (&view.metadata, &view.spec, &view.status);
        let around = spec.read();
        // A container is parked under every restart policy, so none is considered.
        let unrestarted = PodSpec {
            restart_policy: None,
            ..around.pod.clone()
        };
        let containers = spec.containers.iter().map(|one| {
            let spec = ContainerSpec {
                restart_policy: None,
                restart_rules: Vec::new(),
                ..around.container(one.clone())
            };
            Details {
                facts: Some(Box::new(ContainerFacts::of(&unrestarted, &spec))),
                ..Details::of(one, &status.container_statuses)
            }
        });
        let containers: Vec<Details> = containers.collect();
        let statuses = &status.init_container_statuses;
        let mut init_statuses = StatusList(statuses.to_vec());
        let (mut native_sidecars, mut init_containers) = (Vec::new(), Vec::new());
        for (index, one) in spec.init_containers.iter().enumerate() {
            if one.is_native_sidecar() {
                native_sidecars.push(NativeSidecar {
                    index,
                    details: Details {
                        is_native_sidecar: true,
                        ..Details::of(one, statuses)
                    },
                    container: one.clone().with_status(&around, false, &mut init_statuses),
                });
            } else {
                init_containers.push(one.name.value.clone().unwrap_or_default());
            }
        }
        let natives = native_sidecars.iter().map(|native| &native.details);
        if containers
            .iter()
            .chain(natives)
            .map(Details::size)
            .sum::<usize>()
            > bounds::POD
        {
            return None;
        }
        let mut gates = spec.readiness_gates.iter();
        let has_gate = gates.any(|gate| gate.condition_type.as_deref() == Some(KRUISE_POD_READY));
        let uid = meta.uid.as_deref()?;
        let parked = meta.annotations.parked.as_deref();
        let mut managed = meta.managed_fields.iter();
        // What is too long to be read may say so.
        let parked_through_status =
            meta.managed_fields.too_long || managed.any(ManagedView::parked_through_status);
        Some(Self {
            parked_through_status,
            parked: parked.and_then(|value| Parked::read(value, uid)),
            generation: meta.generation,
            created_at: meta.creation_timestamp.0,
            controller: OwnerView::controller(&meta.owner_references),
            observed_generation: status.observed_generation,
            has_pull_secrets: !spec.image_pull_secrets.is_empty(),
            readiness: has_gate.then(|| readiness(status)),
            details: containers,
            native_sidecars,
            init_containers,
            pod: Pod::of(&mut view)?,
        })
    }
}

fn readiness(status: &StatusView) -> PodReadiness {
    let mut conditions = status.conditions.iter();
    let gate = conditions.find(|one| one.is_of(KRUISE_POD_READY));
    PodReadiness {
        gate: gate.map(|gate| GateCondition {
            is_true: gate.is(KRUISE_POD_READY, "True"),
            message: gate.message.0.clone(),
        }),
        is_ready: status.is_ready(),
    }
}

impl Details {
    fn of(container: &ContainerView<BoundedValue>, statuses: &[ContainerStatusView]) -> Self {
        let mut statuses = statuses.iter();
        let status = statuses.find(|status| status.name.value == container.name.value);
        let lifecycle = container.lifecycle.as_ref();
        let pre_stop = lifecycle.and_then(|lifecycle| known_hook(&lifecycle.pre_stop.0));
        let is_http = pre_stop
            .as_ref()
            .is_some_and(|hook| hook.get("httpGet").is_some());
        Self {
            pre_stop,
            ports: Some(container.ports.0.clone()).filter(|ports| is_http && ports.is_array()),
            pulls_always: container.image_pull_policy.as_deref() == Some("Always"),
            has_startup_probe: container.startup_probe.0,
            image_id: status
                .and_then(|status| status.image_id.value.clone())
                .unwrap_or_default(),
            ready: status.is_some_and(|status| status.ready == Some(true)),
            ..Self::default()
        }
    }

    /// Returns the bytes of its hook and ports as text, which take about thirty times that in memory.
    fn size(&self) -> usize {
        let values = [&self.pre_stop, &self.ports].into_iter().flatten();
        values.map(|value| value.to_string().len()).sum()
    }
}

fn known_hook(hook: &Value) -> Option<Value> {
    let known = ["exec", "httpGet", "tcpSocket"]
        .iter()
        .filter_map(|kind| Some(((*kind).to_owned(), hook.get(kind)?.clone())));
    let known: Map<String, Value> = known.collect();
    (!known.is_empty()).then_some(Value::Object(known))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::pod::{GateCondition, KRUISE_POD_READY};
    use crate::restart::parked::PARKED;

    fn read(pod: Value) -> Option<RestartPod> {
        serde_json::from_value::<RestartPodWire>(pod)
            .unwrap()
            .read()
    }

    #[test]
    fn details_are_joined_with_their_status_by_name() {
        let pod = read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 4, "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"kind": "Other", "name": "o"}, {"kind": "Job", "name": "j", "controller": true}]},
            "spec": {"restartPolicy": "Always", "initContainers": [{"name": "setup"}], "containers": [
                {"name": "app", "image": "app:1", "imagePullPolicy": "Always", "startupProbe": {"httpGet": {"port": 1}}},
                {"name": "log", "image": "log:1"},
            ]},
            "status": {"observedGeneration": 3, "containerStatuses": [
                {"name": "log", "ready": true, "imageID": "r.example/log@sha256:1"}, {"name": "app", "ready": false},
            ]},
        }))
        .unwrap();
        assert_eq!(
            (
                pod.generation,
                pod.observed_generation,
                &*pod.init_containers[0]
            ),
            (Some(4), Some(3), "setup")
        );
        let (index, container, details) = pod.find("log").unwrap();
        assert_eq!(
            (index, &*container.image, details.ready, &*details.image_id),
            (1, "log:1", true, "r.example/log@sha256:1")
        );
        assert!(
            pod.details[0].pulls_always
                && pod.details[0].has_startup_probe
                && !pod.details[1].pulls_always
        );
        assert_eq!(
            (pod.controller.as_deref(), pod.created_at),
            (Some("Job j"), "2026-01-01T00:00:00Z".parse().ok())
        );
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
        let (exec, http) = (
            json!({"exec": {"command": ["a"]}}),
            json!({"httpGet": {"port": "web"}}),
        );
        assert_eq!(details(exec.clone()), (Some(exec), None));
        assert_eq!(
            details(http.clone()),
            (
                Some(http),
                Some(json!([{"containerPort": 80, "name": "web"}]))
            )
        );
        for unknown in [json!({"sleep": {"seconds": 3}}), json!(3), json!(null)] {
            assert_eq!(details(unknown), (None, None));
        }
    }

    #[test]
    fn a8_hooks_that_would_take_too_much_leave_the_pod_alone() {
        let pod = |containers: usize| {
            let ports = vec![json!({"containerPort": 80, "protocol": "TCP"}); 1_000];
            let container = |nth| {
                json!({"name": format!("c{nth}"), "ports": ports,
                "lifecycle": {"preStop": {"httpGet": {"port": 80}}}})
            };
            let containers: Vec<_> = (0..containers).map(container).collect();
            read(
                json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": containers}}),
            )
        };
        assert!(pod(2).is_some());
        assert!(pod(30).is_none());
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
        let gate = Some(GateCondition {
            is_true: false,
            message: "[]".into(),
        });
        assert_eq!(
            pod(&gates, &conditions),
            Some(PodReadiness {
                gate,
                is_ready: true
            })
        );
        assert_eq!(
            pod(&gates, &json!([{"type": null}])),
            Some(PodReadiness::default())
        );
        assert_eq!(
            pod(&json!([{"conditionType": "other"}, {}]), &conditions),
            None
        );
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
        assert_eq!(
            (
                index,
                &*container.image,
                container.status.as_ref().unwrap().restart_count
            ),
            (1, "mesh:1", 3)
        );
        assert!(
            details.is_native_sidecar && details.ready && &*details.image_id == "mesh@sha256:1"
        );
        assert_eq!(
            (pod.init_containers, pod.pod.containers.len()),
            (vec!["setup".into()], 1)
        );
        assert_eq!(
            pod.pod.containers[0].status.as_ref().unwrap().restart_count,
            1
        );
    }

    #[test]
    fn what_is_parked_is_read_where_it_was_written_for_this_pod() {
        let pod = |uid: &str| {
            let parked = Parked {
                pod: "u".into(),
                park: "park:1".into(),
                ..Parked::default()
            };
            read(
                json!({"metadata": {"name": "p", "namespace": "ns", "uid": uid, "annotations": {PARKED: parked.as_text(), "other": 1}}}),
            )
        };
        assert_eq!(
            pod("u").unwrap().parked.map(|parked| parked.park),
            Some("park:1".into())
        );
        assert_eq!(pod("another").unwrap().parked, None);
    }

    #[test]
    fn null_is_absent() {
        let pod = read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": null, "creationTimestamp": null,
                "ownerReferences": null},
            "spec": {"containers": [{"name": "app", "imagePullPolicy": null, "startupProbe": null}], "initContainers": null},
            "status": {"observedGeneration": null, "containerStatuses": [{"name": "app", "ready": null}]},
        }))
        .unwrap();
        let (_, _, details) = pod.find("app").unwrap();
        assert!(!details.ready && !details.has_startup_probe);
    }
}
