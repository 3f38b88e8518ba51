//! Operations on pods.

mod json_patch;

use serde_json::{Value, json};

use super::operation::{MERGE_PATCH, Operation, Resource, STRATEGIC_PATCH};
use super::parts::{labels, list, name};
use crate::shared::random::Random;
use json_patch::json_patch;

const PODS: Resource = Resource::Pods;

pub fn operation(random: &mut Random) -> Operation {
    let name = name(PODS, random);
    match random.below(100) {
        0..8 => Operation::create(PODS, legal(random, name)),
        8..14 => Operation::create(PODS, illegal(random, name)),
        14..20 => Operation::get(PODS, name),
        20..28 => list(PODS, random),
        28..52 => json_patch(random, name),
        52..64 => merge_patch(random, name),
        64..74 => strategic_patch(random, name),
        74..82 => update(random, name),
        82..88 => bind(random, name),
        _ => delete(PODS, random, name),
    }
}

/// A pod that the server takes, with some of what pods can have.
pub fn legal(random: &mut Random, name: &str) -> Value {
    let policy = random.pick(&["Always", "OnFailure", "Never"]);
    let mut containers = vec![json!({"name": "main", "image": "main:1"})];
    containers.extend(random.percent(70).then(|| container(random)));
    let mut spec = json!({"containers": containers, "restartPolicy": policy, "schedulerName": "nobody", "automountServiceAccountToken": false});
    for (chance, field, value) in [
        (35, "nodeName", json!("§node")),
        (
            20,
            "initContainers",
            json!([{"name": "init", "image": "init:1"}]),
        ),
        (
            15,
            "initContainers",
            json!([{"name": "init", "image": "init"}, {"name": "native", "image": "native:1", "restartPolicy": "Always"}]),
        ),
        (
            15,
            "terminationGracePeriodSeconds",
            json!(random.pick(&[0, 5])),
        ),
        (10, "activeDeadlineSeconds", json!(100)),
        (
            10,
            "tolerations",
            json!([{"key": "k", "operator": "Exists"}]),
        ),
        (8, "schedulingGates", json!([{"name": "example.com/gate"}])),
        (8, "priority", json!(0)),
        (8, "hostNetwork", json!(random.percent(50))),
        (8, "shareProcessNamespace", json!(false)),
        (
            8,
            "volumes",
            json!([{"name": "v"}, {"name": "e", "emptyDir": {"medium": "Memory"}}]),
        ),
    ] {
        if random.percent(chance) {
            spec[field] = value;
        }
    }
    if spec["schedulingGates"].is_array() {
        spec.as_object_mut().unwrap().remove("nodeName");
    }
    let mut metadata = json!({"name": name, "labels": labels(random)});
    for (chance, field, value) in [
        (20, "annotations", json!({"a": "b", "e": ""})),
        (12, "finalizers", json!(["example.com/hold"])),
    ] {
        if random.percent(chance) {
            metadata[field] = value;
        }
    }
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    if random.percent(5) {
        pod["status"] = json!({"phase": "Running"});
    }
    pod
}

/// A second container.
fn container(random: &mut Random) -> Value {
    let mut container = json!({"name": "side", "image": random.pick(&["side:1", "side", "side:latest", "r.example/side@sha256:1"])});
    for (chance, field, value) in [
        (
            30,
            "env",
            json!([{"name": "A", "value": "1"}, {"name": "E", "value": ""}]),
        ),
        (
            15,
            "env",
            json!([{"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        ),
        (15, "resources", json!({"limits": {"cpu": "1"}})),
        (
            10,
            "resources",
            json!({"requests": {"memory": "1Mi"}, "limits": {"memory": "1Mi", "cpu": "100m"}}),
        ),
        (10, "ports", json!([{"containerPort": 80}])),
        (10, "command", json!(["x"])),
        (
            8,
            "readinessProbe",
            json!({"httpGet": {"path": "/", "port": 80}}),
        ),
        (
            8,
            "lifecycle",
            json!({"preStop": {"exec": {"command": ["x"]}}}),
        ),
        (8, "imagePullPolicy", json!("Never")),
        (8, "stdin", json!(false)),
    ] {
        if random.percent(chance) {
            container[field] = value;
        }
    }
    container
}

/// A pod that the server refuses.
fn illegal(random: &mut Random, name: &str) -> Value {
    let mut pod = legal(random, name);
    let a = json!({"name": "a", "image": "b:1"});
    let changes = [
        ("/metadata", "name", json!("Bad_Name")),
        ("/metadata", "name", json!("")),
        ("/metadata", "labels", json!({"a b": "c"})),
        ("/metadata", "namespace", json!("other")),
        ("/metadata", "resourceVersion", json!("5")),
        ("/spec", "containers", json!([])),
        ("/spec", "containers", json!([{"name": "a"}])),
        ("/spec", "containers", json!([{"image": "a"}])),
        ("/spec", "containers", json!([{"name": "A_", "image": "a"}])),
        ("/spec", "containers", json!([a, a])),
        ("/spec", "containers", json!([{"name": "a", "image": " a"}])),
        (
            "/spec",
            "containers",
            json!([{"name": "a", "image": "b", "imagePullPolicy": "Sometimes"}]),
        ),
        (
            "/spec",
            "containers",
            json!([{"name": "a", "image": "b", "volumeMounts": [{"name": "none", "mountPath": "/x"}]}]),
        ),
        ("/spec", "containers", json!("none")),
        (
            "/spec",
            "initContainers",
            json!([{"name": "main", "image": "b"}]),
        ),
        ("/spec", "restartPolicy", json!("Sometimes")),
        ("/spec", "activeDeadlineSeconds", json!("soon")),
        ("/spec", "activeDeadlineSeconds", json!(0)),
        ("", "kind", json!("ConfigMap")),
        ("", "apiVersion", json!("v2")),
        ("", "spec", json!(null)),
    ];
    let (parent, field, value) = random.pick(&changes);
    pod.pointer_mut(parent).unwrap()[field] = value;
    pod
}

fn merge_patch(random: &mut Random, name: &str) -> Operation {
    let patches = [
        json!({"metadata": {"labels": {"app": "y"}}}),
        json!({"metadata": {"labels": {"app": null}}}),
        json!({"metadata": {"labels": {"app": "x", "run": "§run"}, "resourceVersion": "{version}"}}),
        json!({"metadata": {"labels": {"app": "z"}, "resourceVersion": "{stale}"}}),
        json!({"metadata": {"labels": {"app": "z"}, "uid": "{uid}"}}),
        json!({"metadata": {"labels": {"app": "z"}, "uid": "other"}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"annotations": {"a": "c"}}}),
        json!({"metadata": {"finalizers": null}}),
        json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "§p9"}]}}),
        json!({"metadata": {"generation": 77}}),
        json!({"metadata": {"creationTimestamp": null}}),
        json!({"metadata": {"deletionGracePeriodSeconds": 3}}),
        json!({"spec": {"activeDeadlineSeconds": 60}}),
        json!({"spec": {"activeDeadlineSeconds": null}}),
        json!({"spec": {"tolerations": []}}),
        json!({"spec": {"schedulingGates": null}}),
        json!({"spec": {"containers": [{"name": "main", "image": "main:3"}]}}),
        json!({"spec": {"nothing": 1}}),
        json!({"spec": {"priorityClassName": "x"}}),
        json!({"spec": {"hostNetwork": true}}),
        json!({"status": {"phase": "Failed"}}),
        json!({}),
        json!([]),
        json!("{"),
    ];
    Operation::patch(MERGE_PATCH, PODS, name, random.pick(&patches))
}

fn strategic_patch(random: &mut Random, name: &str) -> Operation {
    let patches = [
        json!({"spec": {"containers": [{"name": "main", "image": "main:4"}]}}),
        json!({"spec": {"containers": [{"name": "side", "image": "side:4"}]}}),
        json!({"spec": {"containers": [{"name": "third", "image": "third:1"}]}}),
        json!({"spec": {"containers": [{"image": "third:1"}]}}),
        json!({"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}], "containers": [{"name": "main", "image": "main:5"}]}}),
        json!({"spec": {"initContainers": [{"name": "init", "image": "init:5"}]}}),
        json!({"spec": {"containers": [{"name": "main", "env": [{"name": "X", "value": "y"}]}]}}),
        json!({"spec": {"tolerations": [{"key": "t", "operator": "Exists"}]}}),
        json!({"spec": {"schedulingGates": [{"name": "example.com/gate", "$patch": "delete"}]}}),
        json!({"metadata": {"labels": {"app": "x", "tier": null}}}),
        json!({"metadata": {"labels": {"$patch": "replace", "run": "§run"}}}),
        json!({"metadata": {"finalizers": ["example.com/set"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/hold"]}}),
        json!({"metadata": {"annotations": {"a": "d"}, "uid": "{uid}"}}),
        json!({"metadata": {"resourceVersion": "{stale}", "annotations": {"a": "e"}}}),
        json!({"status": {"phase": "Failed"}}),
    ];
    Operation::patch(STRATEGIC_PATCH, PODS, name, random.pick(&patches))
}

fn update(random: &mut Random, name: &str) -> Operation {
    let edits = [
        json!({}),
        json!({"/spec/containers/0/image": "main:6"}),
        json!({"/spec/containers/0/image": "main:7", "/metadata/resourceVersion": "{stale}"}),
        json!({"/spec/containers/0/image": "main:8", "/metadata/resourceVersion": null}),
        json!({"/metadata/labels/app": "y"}),
        json!({"/metadata/labels": null}),
        json!({"/metadata/uid": "other"}),
        json!({"/metadata/uid": null, "/metadata/labels/app": "x"}),
        json!({"/metadata/name": "§other"}),
        json!({"/metadata/name": null}),
        json!({"/spec/nodeName": "elsewhere"}),
        json!({"/spec/containers/0/imagePullPolicy": null, "/spec/containers/0/image": "main"}),
        json!({"/spec/dnsPolicy": null, "/spec/schedulerName": null}),
        json!({"/status": null, "/metadata/annotations": null}),
        json!({"/status/phase": "Running"}),
    ];
    Operation::update(PODS, name, random.pick(&edits))
}

fn bind(random: &mut Random, name: &str) -> Operation {
    let bodies = [
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": "§node"}}),
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": "{uid}"}, "target": {"kind": "Node", "name": "§node"}}),
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": ""}}),
    ];
    let operation = Operation::new("bind", "POST", PODS, name);
    Operation {
        body: random.pick(&bodies),
        subresource: "binding",
        ..operation
    }
}

/// Deletions: with grace and without, by query and by body, with conditions that hold or not.
pub fn delete(resource: Resource, random: &mut Random, name: &str) -> Operation {
    let options = |fields: Value| {
        let mut body =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        fields
            .as_object()
            .unwrap()
            .iter()
            .for_each(|(field, value)| body[field] = value.clone());
        body
    };
    let background = "propagationPolicy=Background";
    let (query, body) = random.pick(&[
        (background, Value::Null),
        (background, Value::Null),
        ("gracePeriodSeconds=0&propagationPolicy=Background", Value::Null),
        ("gracePeriodSeconds=7&propagationPolicy=Background", Value::Null),
        ("", options(json!({"gracePeriodSeconds": 0}))),
        ("", options(json!({"gracePeriodSeconds": 20}))),
        ("", options(json!({"preconditions": {"uid": "{uid}"}}))),
        ("", options(json!({"preconditions": {"uid": "other"}}))),
        ("", options(json!({"preconditions": {"resourceVersion": "{version}"}}))),
        ("", options(json!({"preconditions": {"resourceVersion": "{stale}", "uid": "{uid}"}, "gracePeriodSeconds": 0}))),
        ("", options(json!({"dryRun": ["All"]}))),
        ("dryRun=All&propagationPolicy=Background", Value::Null),
    ]);
    Operation::delete(resource, name, query, body)
}
