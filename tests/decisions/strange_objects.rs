//! Objects of every watch with anything in any of their fields that the API server accepts there:
//! none makes decoding fail, for one that does is left alone.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::sample::Index;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use swaplet_core::cluster::daemon_pod::DaemonPodWire;
use swaplet_core::cluster::node_images::NodeImagesWire;
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::recreate_request::RecreateRequestWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::restart::on_config::pod::ConfiguredPodWire;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::request::RestartRequestWire;
use swaplet_core::warm::image_waits::ImageWaitWire;
use swaplet_core::warm::pod::{CONTAINER, INIT_CONTAINER, WarmerPodWire};
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};

use crate::properties::{Odd, anything, odd};

fn metadata(more: Value) -> Value {
    let mut metadata = json!({"name": "n", "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o", "controller": true}]});
    metadata
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    metadata
}

/// A pod with every field that any of the watches of pods reads.
fn pod() -> Value {
    let annotations = json!({"swaplet.io/parked": "{}", "swaplet.io/restart-on": "warmer=configmap/a", "swaplet.io/warm-node": "n", "swaplet.io/warm-image": "i"});
    let labels = json!({"swaplet.io/warm": "r", "swaplet.io/pull-job": "j", "swaplet.io/pull-job-namespace": "d"});
    let env = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}, {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}]);
    let container = json!({"name": CONTAINER, "image": "app:1", "command": ["/bin/sh"], "args": ["-c", "true"], "workingDir": "/", "env": env,
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "a"}}], "imagePullPolicy": "Always", "restartPolicy": "Always",
        "restartPolicyRules": [{"action": "Restart"}], "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}],
        "startupProbe": {"exec": {}}, "lifecycle": {"preStop": {}}, "ports": [{"containerPort": 1, "hostPort": 1}], "securityContext": {"runAsUser": 1}});
    let state = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "m", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:00Z", "containerID": "c"}});
    let status = json!({"name": CONTAINER, "image": "app:1", "imageID": "i", "containerID": "c", "ready": true, "restartCount": 1,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}, "waiting": {"reason": "r", "message": "m"}}, "lastState": state});
    let mut init = status.clone();
    init["name"] = INIT_CONTAINER.into();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(json!({"annotations": annotations, "labels": labels})),
        "spec": {"restartPolicy": "OnFailure", "nodeName": "n", "terminationGracePeriodSeconds": 30, "shareProcessNamespace": false,
            "containers": [container.clone()], "initContainers": [container], "readinessGates": [{"conditionType": "c"}],
            "volumes": [{"name": "v", "configMap": {"name": "a"}, "secret": {"secretName": "a"}, "projected": {"sources": [{"configMap": {"name": "a"}}]}}]},
        "status": {"phase": "Running", "reason": "r", "message": "m", "observedGeneration": 3, "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "message": "m", "reason": "r"}],
            "containerStatuses": [status.clone()], "initContainerStatuses": [init]}})
}

fn node() -> Value {
    json!({"metadata": metadata(json!({"annotations": {"a": "b"}})), "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "message": "m"}], "nodeInfo": {"kubeletVersion": "v1.34.1"}, "images": [{"names": ["a:1"]}]}})
}

fn request() -> Value {
    let strategy = json!({"failurePolicy": "Fail", "orderedRecreate": true, "forceRecreate": true, "terminationGracePeriodSeconds": 1, "unreadyGracePeriodSeconds": 1, "minStartedSeconds": 1});
    let container =
        json!({"name": "app", "statusContext": {"containerID": "c", "restartCount": 1}});
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": metadata(json!({"annotations": {"swaplet.io/journal": "{}", "swaplet.io/restart-on": "{}"}, "finalizers": ["f"]})),
        "spec": {"podName": "p", "containers": [container], "strategy": strategy, "activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 1},
        "status": {"phase": "Recreating", "message": "m", "completionTime": "2026-01-01T00:00:00Z",
            "containerRecreateStates": [{"name": "app", "phase": "Failed", "message": "m", "isKilled": true}]}})
}

fn pull_job() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": metadata(json!({})),
        "spec": {"image": "a:1", "images": ["a:1"], "pullSecrets": ["s"], "selector": {"names": ["n"], "matchLabels": {"a": "b"}},
            "podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, "parallelism": "10%", "imagePullPolicy": "Always",
            "pullPolicy": {"timeoutSeconds": 1, "backoffLimit": 1}, "sandboxConfig": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 1}},
        "status": {"observedGeneration": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z"}})
}

/// The places of all values in an object.
fn places(value: &Value, place: &str, found: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        _ => Vec::new(),
    };
    for (key, member) in members {
        let place = format!("{place}/{key}");
        places(member, &place, found);
        found.push(place);
    }
}

/// The object with something else in up to three places.
fn strange<T>(object: &Value, changes: Vec<(Index, T)>, put: fn(T, &mut Value, &str)) -> Value {
    let mut object = object.clone();
    for (index, value) in changes {
        let mut found = Vec::new();
        places(&object, "", &mut found);
        if !found.is_empty() {
            let place = index.get(&found).clone();
            put(value, &mut object, &place);
        }
    }
    object
}

fn decoded<T: DeserializeOwned + Debug>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{object}: {error}"))
}

/// Twice: an object may also come as text.
fn reads(object: &Value, changes: Vec<(Index, Odd)>, read: impl Fn(&Value)) {
    let object = strange(object, changes, |odd, object, place| {
        odd.replace(object, place)
    });
    read(&object);
    read(&serde_json::from_str(&object.to_string()).unwrap());
}

fn changes() -> impl Strategy<Value = Vec<(Index, Odd)>> {
    prop::collection::vec((any::<Index>(), odd()), 1..4)
}

/// Without a change each of them is read: else the properties would hold for nothing.
#[test]
fn the_samples_are_whole() {
    assert!(decoded::<PodWire>(&pod()).read().is_some());
    assert!(decoded::<RestartPodWire>(&pod()).read().is_some());
    assert!(decoded::<ConfiguredPodWire>(&pod()).read().is_some());
    assert!(decoded::<WarmerPodWire>(&pod()).read().is_some());
    assert!(decoded::<ImageWaitWire>(&pod()).read().is_some());
    assert!(decoded::<NodeWire>(&node()).read().is_some());
    assert!(decoded::<NodeImagesWire>(&node()).read().is_some());
    assert!(decoded::<RestartRequestWire>(&request()).read().is_some());
    assert!(
        decoded::<JobWire>(&json!({"metadata": metadata(json!({})), "spec": {"backoffLimit": 6}}))
            .read()
            .is_some()
    );
    assert!(PullJob::read(JobKind::ImagePullJob, decoded::<BoundedObject>(&pull_job())).is_some());
}

proptest! {
    #[test]
    fn a_pod_can_be_read_whatever_is_in_it(changes in changes()) {
        reads(&pod(), changes, |pod| {
            drop(decoded::<PodWire>(pod).read());
            drop(decoded::<RestartPodWire>(pod).read());
            drop(decoded::<ConfiguredPodWire>(pod).read());
            drop(decoded::<WarmerPodWire>(pod).read());
            drop(decoded::<ImageWaitWire>(pod).read());
            drop(decoded::<DaemonPodWire>(pod).read());
        });
    }

    #[test]
    fn a_node_can_be_read_whatever_is_in_it(changes in changes()) {
        reads(&node(), changes, |node| {
            drop(decoded::<NodeWire>(node).read());
            drop(decoded::<NodeImagesWire>(node).read());
        });
    }

    #[test]
    fn a_request_can_be_read_whatever_is_in_it(changes in changes()) {
        reads(&request(), changes, |request| {
            drop(decoded::<RestartRequestWire>(request).read());
            drop(decoded::<RecreateRequestWire>(request).read());
        });
    }

    #[test]
    fn a_job_can_be_read_whatever_is_in_it(changes in changes()) {
        reads(&json!({"metadata": metadata(json!({})), "spec": {"backoffLimit": 6}}), changes, |job| drop(decoded::<JobWire>(job).read()));
    }

    /// The API server checks the metadata of a custom resource as that of any other object; the
    /// rest may be anything.
    #[test]
    fn a_job_that_pulls_images_can_be_read_whatever_is_in_it(changes in prop::collection::vec((any::<Index>(), anything()), 1..4)) {
        let sample = pull_job();
        let mut job = strange(&sample, changes, |value, object, place| {
            *object.pointer_mut(place).unwrap() = value;
        });
        job["metadata"] = sample["metadata"].clone();
        drop(PullJob::read(JobKind::ImagePullJob, decoded::<BoundedObject>(&job)));
    }
}
