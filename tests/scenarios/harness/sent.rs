//! What controllers may send.

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Recorded, Verb};

use crate::objects::{DERIVED, EXIT, LISTED};

/// Pods, Jobs and nodes are listed and watched, pods are patched, their status too, Events are
/// created, and what is known of nodes is kept in one ConfigMap; of policies the status is patched,
/// and logs of sidecars are read.
/// Nothing else is ever asked for.
pub fn may_be_sent(request: &Recorded) {
    match (request.verb, &*request.resource, &*request.subresource) {
        (Verb::List | Verb::Watch, "pods" | "jobs" | "nodes", "")
        | (Verb::Create, "events", "")
        | (Verb::Get, "pods", "log") => {}
        (
            Verb::List | Verb::Watch,
            "namespaces" | "sidecarpolicies" | "namespacedsidecarpolicies",
            "",
        )
        | (Verb::Patch, "sidecarpolicies" | "namespacedsidecarpolicies", "status") => {}
        (Verb::Patch, "pods", "") => assert_guarded(request),
        (Verb::Get | Verb::Create | Verb::Patch, "configmaps", "") => {
            assert_eq!(request.namespace, "state")
        }
        (Verb::Patch, "pods", "status") => assert_finish(request),
        _ => panic!("nobody may ask for this: {request:?}"),
    }
}

/// A patch of the status names the uid, and writes phase, condition and nudge and nothing else.
fn assert_finish(request: &Recorded) {
    assert_eq!(
        request.content_type,
        "application/strategic-merge-patch+json"
    );
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let (metadata, status) = (&request.body["metadata"], &request.body["status"]);
    assert_eq!(keys(&request.body), ["metadata", "status"]);
    assert!(metadata["uid"].is_string(), "{}", request.body);
    assert!(
        keys(metadata)
            .iter()
            .all(|key| ["annotations", "resourceVersion", "uid"].contains(&key.as_str())),
        "{}",
        request.body
    );
    // On a virtual node there is none.
    assert!(
        metadata["annotations"].is_null()
            || keys(&metadata["annotations"]) == ["swaplet.io/finished"],
        "{}",
        request.body
    );
    assert_eq!(keys(status), ["conditions", "phase"]);
    assert_eq!(
        (
            status["conditions"].as_array().unwrap().len(),
            &status["conditions"][0]["type"]
        ),
        (1, &json!("SidecarTerminated"))
    );
}

/// A patch tests the uid, then name and image of each container before it replaces the image; and
/// it is small.
fn assert_guarded(request: &Recorded) {
    assert_eq!(request.content_type, "application/json-patch+json");
    assert!(request.body.to_string().len() <= 2048, "{}", request.body);
    let operations = request.body.as_array().unwrap();
    assert_eq!(
        (&operations[0]["op"], &operations[0]["path"]),
        (&json!("test"), &json!("/metadata/uid"))
    );
    assert!(
        operations.len() > 1 && operations[1..].len().is_multiple_of(3),
        "{}",
        request.body
    );
    for swap in operations[1..].chunks(3) {
        let container = swap[1]["path"]
            .as_str()
            .and_then(|path| path.strip_suffix("/image"))
            .unwrap();
        assert!(
            container.starts_with("/spec/containers/"),
            "{}",
            request.body
        );
        assert_eq!(
            (&swap[0]["op"], &swap[0]["path"]),
            (&json!("test"), &json!(format!("{container}/name")))
        );
        assert_eq!(
            (&swap[1]["op"], &swap[2]["op"], &swap[2]["path"]),
            (&json!("test"), &json!("replace"), &swap[1]["path"])
        );
        let to = swap[2]["value"].as_str().unwrap();
        let is_known = [EXIT, LISTED].contains(&to) || to.starts_with(&format!("{DERIVED}@"));
        assert!(is_known, "{to}");
    }
}
