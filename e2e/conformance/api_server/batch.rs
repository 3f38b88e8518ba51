//! Operations on jobs. Nobody manages them, so what is compared is storage and validation.

use serde_json::{Value, json};

use super::operation::{JSON_PATCH, MERGE_PATCH, Operation, Resource, STRATEGIC_PATCH};
use super::parts::{labels, list, name};
use super::pods;
use crate::shared::random::Random;

const JOBS: Resource = Resource::Jobs;

pub fn operation(random: &mut Random) -> Operation {
    let name = name(JOBS, random);
    match random.below(100) {
        0..10 => Operation::create(JOBS, legal(random, name)),
        10..20 => Operation::create(JOBS, illegal(random, name)),
        20..26 => Operation::get(JOBS, name),
        26..36 => list(JOBS, random),
        36..66 => patch(random, name),
        66..76 => update(random, name),
        76..90 => status(random, name).on_status(),
        _ => pods::delete(JOBS, random, name),
    }
}

pub fn legal(random: &mut Random, name: &str) -> Value {
    let policy = random.pick(&["OnFailure", "Never"]);
    let template = json!({"spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "main:1"}]}});
    let mut spec = json!({"template": template, "managedBy": "example.com/nobody"});
    for (chance, field, value) in [
        (25, "parallelism", json!(random.pick(&[0, 2]))),
        (25, "completions", json!(random.pick(&[1, 3]))),
        (25, "backoffLimit", json!(random.pick(&[0, 2]))),
        (20, "suspend", json!(true)),
        (15, "ttlSecondsAfterFinished", json!(100)),
        (15, "activeDeadlineSeconds", json!(100)),
        (10, "podReplacementPolicy", json!("Failed")),
        (10, "completionMode", json!("Indexed")),
    ] {
        if random.percent(chance) {
            spec[field] = value;
        }
    }
    if spec["completionMode"] == "Indexed" {
        spec["completions"] = 3.into();
    }
    if random.percent(25) {
        spec["template"]["metadata"] =
            json!({"labels": {"of": "template"}, "annotations": {"a": "b"}});
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels(random)}, "spec": spec})
}

fn illegal(random: &mut Random, name: &str) -> Value {
    let mut job = legal(random, name);
    let changes = [
        ("/spec", "completions", json!(-1)),
        ("/spec", "parallelism", json!(-1)),
        ("/spec", "backoffLimit", json!(-1)),
        ("/spec", "activeDeadlineSeconds", json!(-1)),
        ("/spec", "completionMode", json!("Odd")),
        ("/spec", "template", json!({})),
        ("/spec/template/spec", "restartPolicy", json!("Always")),
        ("/spec/template/spec", "restartPolicy", json!("Odd")),
        ("/spec/template/spec", "containers", json!([])),
        ("/spec", "selector", json!({"matchLabels": {"a": "b"}})),
        ("/spec", "manualSelector", json!(true)),
        ("/spec", "backoffLimit", json!("many")),
        ("/metadata", "name", json!("Bad_Name")),
    ];
    let (parent, field, value) = random.pick(&changes);
    job.pointer_mut(parent).unwrap()[field] = value;
    job
}

fn patch(random: &mut Random, name: &str) -> Operation {
    let patches = [
        (
            MERGE_PATCH,
            json!({"spec": {"parallelism": random.pick(&[0, 1, 5])}}),
        ),
        (MERGE_PATCH, json!({"spec": {"parallelism": -1}})),
        (MERGE_PATCH, json!({"spec": {"completions": 5}})),
        (
            MERGE_PATCH,
            json!({"spec": {"completions": 5, "parallelism": 5}}),
        ),
        (MERGE_PATCH, json!({"spec": {"backoffLimit": 1}})),
        (
            MERGE_PATCH,
            json!({"spec": {"suspend": random.percent(50)}}),
        ),
        (
            MERGE_PATCH,
            json!({"spec": {"ttlSecondsAfterFinished": null}}),
        ),
        (
            MERGE_PATCH,
            json!({"spec": {"managedBy": "example.com/other"}}),
        ),
        (MERGE_PATCH, json!({"spec": {"completionMode": "Indexed"}})),
        (MERGE_PATCH, json!({"metadata": {"labels": {"app": "y"}}})),
        (
            MERGE_PATCH,
            json!({"metadata": {"resourceVersion": "{stale}", "labels": {"app": "y"}}}),
        ),
        (
            MERGE_PATCH,
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        ),
        (MERGE_PATCH, json!({"metadata": {"finalizers": null}})),
        (MERGE_PATCH, json!({"status": {"active": 1}})),
    ];
    let patches = [&patches[..], &patches_of_the_template()].concat();
    let (content, patch) = random.pick(&patches);
    Operation::patch(content, JOBS, name, patch)
}

/// Patches of the template and of the selector, and such as test first.
fn patches_of_the_template() -> Vec<(&'static str, Value)> {
    vec![
        (
            STRATEGIC_PATCH,
            json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "main:2"}]}}}}),
        ),
        (
            STRATEGIC_PATCH,
            json!({"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}),
        ),
        (
            JSON_PATCH,
            json!([{"op": "test", "path": "/spec/suspend", "value": true}, {"op": "replace", "path": "/spec/suspend", "value": false}]),
        ),
        (
            JSON_PATCH,
            json!([{"op": "replace", "path": "/spec/template/spec/restartPolicy", "value": "Never"}]),
        ),
        (
            JSON_PATCH,
            json!([{"op": "remove", "path": "/spec/selector"}]),
        ),
    ]
}

fn update(random: &mut Random, name: &str) -> Operation {
    let edits = [
        json!({}),
        json!({"/spec/parallelism": 4}),
        json!({"/spec/parallelism": null}),
        json!({"/spec/parallelism": 4, "/metadata/resourceVersion": "{stale}"}),
        json!({"/spec/parallelism": 6, "/metadata/resourceVersion": null}),
        json!({"/spec/selector": null}),
        json!({"/metadata/labels": null}),
        json!({"/spec/template/spec/containers/0/image": "main:3"}),
    ];
    Operation::update(JOBS, name, random.pick(&edits))
}

fn status(random: &mut Random, name: &str) -> Operation {
    const THEN: &str = "2001-01-01T00:00:00Z";
    let patches = [
        json!({"status": {"active": random.pick(&[0, 1, 2])}}),
        json!({"status": {"startTime": THEN}}),
        json!({"status": {"ready": random.pick(&[0, 1])}}),
        json!({"status": {"terminating": 0, "uncountedTerminatedPods": {}}}),
        json!({"status": {"failed": 1, "startTime": THEN}}),
        json!({"status": {"succeeded": 1, "startTime": THEN}}),
        json!({"status": {"conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": THEN}]}}),
        json!({"metadata": {"labels": {"app": "y"}}, "spec": {"parallelism": 9}}),
        json!({"metadata": {"resourceVersion": "{stale}"}, "status": {"active": 1}}),
        json!({"status": {"active": -1}}),
    ];
    Operation::patch(
        random.pick(&[MERGE_PATCH, STRATEGIC_PATCH]),
        JOBS,
        name,
        random.pick(&patches),
    )
}
