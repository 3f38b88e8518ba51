//! A pod whose containers are to be restarted: what is kept of every pod, and the additional fields
//! that a restart needs. Few pods at a time are read so.

mod wire;

use serde_json::Value;

pub use self::wire::RestartPodWire;
use super::parked::Parked;
use crate::objects::command::ContainerFacts;
use crate::objects::pod::readiness::PodReadiness;
use crate::objects::pod::{Container, Pod};

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
    #[must_use]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::pod::readiness::{GateCondition, KRUISE_POD_READY};
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
            pod(&gates, &json!([1, {"type": 2}])),
            Some(PodReadiness::default())
        );
        assert_eq!(
            pod(&json!([{"conditionType": "other"}, 3]), &conditions),
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
    fn what_has_a_wrong_type_is_absent() {
        for strange in [json!(1), json!("x"), json!([1]), json!(null)] {
            let pod = read(json!({
                "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": strange, "creationTimestamp": strange,
                    "ownerReferences": strange},
                "spec": {"containers": [{"name": "app", "imagePullPolicy": strange, "startupProbe": null}], "initContainers": strange},
                "status": {"observedGeneration": strange, "containerStatuses": [strange, {"name": "app", "ready": strange}]},
            }))
            .unwrap();
            assert!(
                pod.find("app")
                    .is_some_and(|(_, _, details)| !details.ready && !details.has_startup_probe),
                "{strange}"
            );
        }
    }
}
