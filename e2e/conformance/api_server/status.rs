//! Writes to the status of pods, as kubelets, virtual nodes and broken ones make them.

use serde_json::{Value, json};

use super::operation::{JSON_PATCH, MERGE_PATCH, Operation, Resource, STRATEGIC_PATCH};
use super::parts::name;
use super::pods;
use crate::shared::random::Random;

const PODS: Resource = Resource::Pods;

pub fn operation(random: &mut Random) -> Operation {
    let name = name(PODS, random);
    match random.below(100) {
        0..65 => containers(random, name),
        65..85 => other(random, name).on_status(),
        85..90 => Operation::get(PODS, name).on_status(),
        _ => pods::operation(random),
    }
}

/// A time before swaplet, so that it is compared.
const THEN: &str = "2001-01-01T00:00:00Z";

fn state(random: &mut Random) -> Value {
    random.pick(&[
        json!({"waiting": {"reason": "ContainerCreating"}}),
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}),
        json!({"running": {"startedAt": THEN}}),
        json!({"running": {}}),
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": THEN}}),
        json!({"terminated": {"exitCode": 1, "reason": "Error"}}),
        json!({"terminated": {"exitCode": 143}}),
        json!({}),
    ])
}

fn container(random: &mut Random, name: &str) -> Value {
    let state = state(random);
    let restarts = random.below(2);
    let mut status = json!({"name": name, "state": state, "image": format!("{name}:1"), "imageID": "", "ready": false, "restartCount": restarts});
    if random.percent(20) {
        status["lastState"] = self::state(random);
    }
    if random.percent(20) {
        status["started"] = random.percent(50).into();
    }
    status
}

fn containers(random: &mut Random, name: &str) -> Operation {
    let mut statuses = vec![container(random, "main")];
    statuses.extend(random.percent(50).then(|| container(random, "side")));
    let mut status = json!({"containerStatuses": statuses});
    if random.percent(30) {
        status["initContainerStatuses"] =
            json!([container(random, "init"), container(random, "native")]);
    }
    if random.percent(50) {
        status["phase"] = random
            .pick(&["Pending", "Running", "Succeeded", "Failed"])
            .into();
    }
    let operation = match random.below(10) {
        0..4 => Operation::patch(MERGE_PATCH, PODS, name, json!({"status": status})),
        4..7 => Operation::patch(STRATEGIC_PATCH, PODS, name, json!({"status": status})),
        7..8 => {
            let one = state(random);
            let patch = json!([{"op": "replace", "path": "/status/containerStatuses/0/state", "value": one}]);
            Operation::patch(JSON_PATCH, PODS, name, patch)
        }
        _ => Operation::update(PODS, name, json!({"/status/containerStatuses": statuses})),
    };
    operation.on_status()
}

/// What a status write must not touch.
fn patches_beside_the_status() -> Vec<(&'static str, Value)> {
    vec![
        (MERGE_PATCH, json!({"status": null})),
        (
            MERGE_PATCH,
            json!({"metadata": {"labels": {"app": "y"}}, "status": {"reason": "x"}}),
        ),
        (
            MERGE_PATCH,
            json!({"metadata": {"annotations": {"via": "status"}}}),
        ),
        (MERGE_PATCH, json!({"metadata": {"finalizers": null}})),
        (
            MERGE_PATCH,
            json!({"metadata": {"resourceVersion": "{stale}"}, "status": {"reason": "y"}}),
        ),
        (
            STRATEGIC_PATCH,
            json!({"metadata": {"uid": "{uid}"}, "status": {"reason": "z"}}),
        ),
        (
            STRATEGIC_PATCH,
            json!({"metadata": {"uid": "other"}, "status": {"reason": "z"}}),
        ),
        (
            STRATEGIC_PATCH,
            json!({"spec": {"containers": [{"name": "main", "image": "main:9"}]}}),
        ),
        (
            MERGE_PATCH,
            json!({"spec": {"nodeName": "elsewhere"}, "status": {"message": "m"}}),
        ),
    ]
}

/// Everything in the status besides containers, and what a status write must not touch.
fn other(random: &mut Random, name: &str) -> Operation {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": THEN});
    let patches = [
        (
            MERGE_PATCH,
            json!({"status": {"phase": random.pick(&["Running", "Failed", "Unknown", "Nonsense"])}}),
        ),
        (
            MERGE_PATCH,
            json!({"status": {"conditions": [ready, {"type": "Other", "status": "False", "reason": "R", "message": ""}]}}),
        ),
        (
            STRATEGIC_PATCH,
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        ),
        (
            STRATEGIC_PATCH,
            json!({"status": {"conditions": [{"type": "New", "status": "True"}, {"type": "Ready", "$patch": "delete"}]}}),
        ),
        (
            JSON_PATCH,
            json!([{"op": "add", "path": "/status/conditions", "value": [ready]}]),
        ),
        (
            JSON_PATCH,
            json!([{"op": "add", "path": "/status/nothing", "value": 1}]),
        ),
        (MERGE_PATCH, json!({"status": {"qosClass": "Guaranteed"}})),
        (
            MERGE_PATCH,
            json!({"status": {"reason": "Evicted", "message": "", "startTime": THEN}}),
        ),
        (
            MERGE_PATCH,
            json!({"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "hostIP": "10.0.0.1"}}),
        ),
        (
            MERGE_PATCH,
            // Not 0, which keeps what there is: but who gave it gives it up, and so managedFields change,
            // which we do not keep.
            json!({"status": {"observedGeneration": random.pick(&[1, 5])}}),
        ),
    ];
    let patches = [&patches[..], &patches_beside_the_status()].concat();
    if random.percent(15) {
        let edits = [
            json!({}),
            json!({"/status/reason": "Put"}),
            json!({"/status/reason": "Old", "/metadata/resourceVersion": "{stale}"}),
        ];
        return Operation::update(PODS, name, random.pick(&edits));
    }
    let (content, patch) = random.pick(&patches);
    Operation::patch(content, PODS, name, patch)
}
