//! JSON patches of pods.

use serde_json::{Value, json};

use crate::api_server::operation::{JSON_PATCH, Operation, Resource};
use crate::shared::random::Random;

const PODS: Resource = Resource::Pods;

pub fn json_patch(random: &mut Random, name: &str) -> Operation {
    if random.percent(45) {
        return swap(random, name);
    }
    let patches = [patches_of_metadata(), patches_of_the_rest()].concat();
    Operation::patch(JSON_PATCH, PODS, name, random.pick(&patches))
}

fn one(op: &str, path: &str, value: Value) -> Value {
    json!([{"op": op, "path": path, "value": value}])
}

/// Patches of metadata, of what is not there, and such as are none.
fn patches_of_metadata() -> Vec<Value> {
    vec![
        one("test", "/metadata/uid", json!("{uid}")),
        one("test", "/metadata/resourceVersion", json!("{stale}")),
        one("test", "/metadata/nothing", json!(null)),
        one("test", "/metadata/nothing", json!("x")),
        one("test", "/spec/nothing/deep", json!("x")),
        one("add", "/metadata/labels/app", json!("y")),
        one("add", "/metadata/labels/new~1key", json!("")),
        one("add", "/metadata/labels", json!({"run": "§run"})),
        one("add", "/metadata/annotations/x", json!("y")),
        one(
            "add",
            "/metadata/annotations",
            json!({"example.com/x": "y"}),
        ),
        one("add", "/metadata/labels/bad key", json!("y")),
        json!([{"op": "remove", "path": "/metadata/labels/app"}]),
        json!([{"op": "remove", "path": "/spec/nothing"}]),
        json!([{"op": "remove", "path": "/spec/containers/0"}]),
        json!([{"op": "remove", "path": "/spec/tolerations/0"}]),
        json!([{"op": "remove", "path": "/metadata/finalizers"}]),
        json!([{"op": "remove", "path": "/metadata/uid"}]),
        json!([{"op": "copy", "from": "/metadata/labels/run", "path": "/metadata/labels/copy"}]),
        json!([{"op": "move", "from": "/metadata/labels/run", "path": "/metadata/labels/moved"}]),
        json!([{"op": "frob", "path": "/spec/containers/0/image", "value": "x"}]),
        json!([]),
        json!({"op": "add"}),
    ]
}

fn patches_of_the_rest() -> Vec<Value> {
    vec![
        one("replace", "/spec/containers/9/image", json!("x")),
        one("replace", "/spec/containers/-/image", json!("x")),
        one("replace", "/spec/containers/-1/image", json!("last:1")),
        one("replace", "/spec/containers/00/image", json!("zero:1")),
        one("replace", "", json!({})),
        one("test", "", json!({})),
        one("replace", "spec/containers/0/image", json!("x")),
        one("replace", "/spec/nothing", json!("x")),
        one("replace", "/spec/containers/0/image", json!(5)),
        one("replace", "/spec/containers/0/name", json!("other")),
        one("add", "/spec/containers/0/command", json!(["x"])),
        one(
            "add",
            "/spec/containers/0/env",
            json!([{"name": "X", "value": "y"}]),
        ),
        one(
            "add",
            "/spec/containers/-",
            json!({"name": "third", "image": "t:1"}),
        ),
        one("replace", "/spec/initContainers/0/image", json!("init:2")),
        one("replace", "/spec/restartPolicy", json!("Always")),
        one("add", "/spec/activeDeadlineSeconds", json!(50)),
        one("add", "/spec/activeDeadlineSeconds", json!(500)),
        one("add", "/spec/activeDeadlineSeconds", json!(0)),
        one(
            "add",
            "/spec/tolerations/-",
            json!({"key": "new", "operator": "Exists"}),
        ),
        one("replace", "/spec/tolerations/0/tolerationSeconds", json!(7)),
        one("add", "/spec/nodeName", json!("elsewhere")),
        one("add", "/spec/terminationGracePeriodSeconds", json!(1)),
        one("add", "/metadata/finalizers", json!(["example.com/new"])),
        one("add", "/status/phase", json!("Running")),
        one("replace", "/metadata/name", json!("§other")),
        one("replace", "/kind", json!("ConfigMap")),
    ]
}

/// The patch that swaplet lives by: guarded, of one image.
fn swap(random: &mut Random, name: &str) -> Operation {
    let index = random.weighted(&[(45, 0), (45, 1), (10, 2)]);
    let image = random.pick(&["exit:1", "exit:2", "main:1", "side:1", "", " x", "UPPER:1"]);
    let path = format!("/spec/containers/{index}/image");
    let mut operations = Vec::new();
    for (chance, path, value) in [
        (
            40,
            path.as_str(),
            json!(random.pick(&["main:1", "side:1", "exit:1"])),
        ),
        (
            20,
            "/metadata/resourceVersion",
            json!(random.pick(&["{version}", "{version}", "{stale}"])),
        ),
        (
            20,
            "/metadata/uid",
            json!(random.pick(&["{uid}", "{uid}", "other"])),
        ),
        (15, "/spec/containers/0/name", json!("main")),
    ] {
        if random.percent(chance) {
            operations.push(json!({"op": "test", "path": path, "value": value}));
        }
    }
    operations.push(
        json!({"op": random.pick(&["replace", "replace", "add"]), "path": path, "value": image}),
    );
    Operation::patch(JSON_PATCH, PODS, name, operations.into())
}
