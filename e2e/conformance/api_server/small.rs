//! Operations on configmaps, leases and events.

use serde_json::{Value, json};

use super::operation::{JSON_PATCH, MERGE_PATCH, Operation, Resource, STRATEGIC_PATCH};
use super::parts::{labels, list, name};
use super::pods;
use crate::shared::random::Random;

/// Times that are compared.
const THEN: &str = "2001-01-01T00:00:00.000000Z";
const LATER: &str = "2001-01-01T00:00:10.000000Z";

pub fn config_map(random: &mut Random) -> Operation {
    let patches = [
        (MERGE_PATCH, json!({"data": {"k": "w"}})),
        (MERGE_PATCH, json!({"data": {"k": null}})),
        (MERGE_PATCH, json!({"data": {"bad key": "v"}})),
        (MERGE_PATCH, json!({"data": {"k": 5}})),
        (MERGE_PATCH, json!({"immutable": true})),
        (STRATEGIC_PATCH, json!({"data": {"k": "x", "l": ""}})),
        (
            STRATEGIC_PATCH,
            json!({"data": {"$patch": "replace", "m": "n"}}),
        ),
        (
            JSON_PATCH,
            json!([{"op": "add", "path": "/data/k", "value": "y"}]),
        ),
        (
            JSON_PATCH,
            json!([{"op": "test", "path": "/data/k", "value": "v"}, {"op": "remove", "path": "/data/k"}]),
        ),
        (
            MERGE_PATCH,
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        ),
        (MERGE_PATCH, json!({"metadata": {"finalizers": null}})),
        (
            MERGE_PATCH,
            json!({"metadata": {"finalizers": ["bad finalizer"]}}),
        ),
    ];
    let edits = [
        json!({"/data": {"put": "1"}}),
        json!({"/data": {"put": "2"}, "/metadata/resourceVersion": "{stale}"}),
        json!({"/data": {"put": "3"}, "/metadata/resourceVersion": null}),
        json!({"/data": null}),
    ];
    any(Resource::ConfigMaps, random, &patches, &edits)
}

pub fn lease(random: &mut Random) -> Operation {
    let patches = [
        (
            MERGE_PATCH,
            json!({"spec": {"holderIdentity": "b", "leaseTransitions": 1}}),
        ),
        (MERGE_PATCH, json!({"spec": {"renewTime": LATER}})),
        (
            MERGE_PATCH,
            json!({"spec": {"renewTime": "2001-01-01T00:00:00Z"}}),
        ),
        (MERGE_PATCH, json!({"spec": {"renewTime": "yesterday"}})),
        (MERGE_PATCH, json!({"spec": {"leaseDurationSeconds": 0}})),
        (MERGE_PATCH, json!({"spec": {"leaseTransitions": -1}})),
        (MERGE_PATCH, json!({"spec": {"holderIdentity": ""}})),
        (
            MERGE_PATCH,
            json!({"metadata": {"resourceVersion": "{stale}"}, "spec": {"holderIdentity": "c"}}),
        ),
        (
            JSON_PATCH,
            json!([{"op": "test", "path": "/spec/holderIdentity", "value": "a"}, {"op": "replace", "path": "/spec/holderIdentity", "value": "d"}]),
        ),
    ];
    let edits = [
        json!({"/spec/renewTime": LATER}),
        json!({"/spec/renewTime": LATER, "/spec/holderIdentity": "e", "/metadata/resourceVersion": "{stale}"}),
        json!({"/spec": {"holderIdentity": "f"}}),
        json!({"/spec": null}),
    ];
    any(Resource::Leases, random, &patches, &edits)
}

pub fn event(random: &mut Random) -> Operation {
    let resource = random.pick(&[Resource::Events, Resource::Events, Resource::CoreEvents]);
    if random.percent(8) {
        // As the other API shows it.
        return random.pick(&[
            Operation::get(Resource::Events, "§k0"),
            Operation::get(Resource::CoreEvents, "§e0"),
        ]);
    }
    let field = if resource == Resource::Events {
        "note"
    } else {
        "message"
    };
    let mut note = json!({});
    note[field] = "changed".into();
    let patches = [
        (
            MERGE_PATCH,
            json!({"series": {"count": 2, "lastObservedTime": LATER}}),
        ),
        (MERGE_PATCH, json!({"metadata": {"labels": {"app": "y"}}})),
        (MERGE_PATCH, note),
        (MERGE_PATCH, json!({"reason": "Other"})),
        (
            STRATEGIC_PATCH,
            json!({"series": {"count": 3, "lastObservedTime": LATER}}),
        ),
    ];
    any(
        resource,
        random,
        &patches,
        &[
            json!({}),
            json!({"/type": "Warning"}),
            json!({"/metadata/resourceVersion": "{stale}", "/type": "Normal"}),
        ],
    )
}

fn any(
    resource: Resource,
    random: &mut Random,
    patches: &[(&'static str, Value)],
    edits: &[Value],
) -> Operation {
    let name = name(resource, random);
    match random.below(100) {
        0..20 => Operation::create(resource, legal(resource, random, name)),
        20..28 => Operation::create(resource, illegal(resource, random, name)),
        28..36 => Operation::get(resource, name),
        36..46 => list(resource, random),
        46..72 => {
            let (content, patch) = random.pick(patches);
            Operation::patch(content, resource, name, patch)
        }
        72..86 => Operation::update(resource, name, random.pick(edits)),
        _ => pods::delete(resource, random, name),
    }
}

pub fn legal(resource: Resource, random: &mut Random, name: &str) -> Value {
    let mut object = match resource {
        Resource::Leases => lease_body(random),
        Resource::Events => new_event(random),
        Resource::CoreEvents => core_event(random),
        _ => random.pick(&[
            json!({"data": {"k": "v"}}),
            json!({"data": {"k": ""}, "binaryData": {"b": "AAE="}}),
            json!({}),
            json!({"data": {}}),
        ]),
    };
    let (version, kind) = match resource {
        Resource::Leases => ("coordination.k8s.io/v1", "Lease"),
        Resource::Events => ("events.k8s.io/v1", "Event"),
        Resource::CoreEvents => ("v1", "Event"),
        _ => ("v1", "ConfigMap"),
    };
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": name, "labels": labels(random)});
    object
}

fn lease_body(random: &mut Random) -> Value {
    random.pick(&[
        json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": THEN, "renewTime": THEN, "leaseTransitions": 0}}),
        json!({"spec": {"holderIdentity": "a"}}),
        json!({"spec": {}}),
        json!({}),
    ])
}

fn new_event(random: &mut Random) -> Value {
    let mut event = json!({"eventTime": THEN, "reportingController": "swaplet.io/controller", "reportingInstance": "i", "action": "Swap",
        "reason": "R", "note": "hello", "type": "Normal", "regarding": {"kind": "Pod", "name": "§p0", "namespace": "{namespace}"}});
    if random.percent(30) {
        event["series"] = json!({"count": 2, "lastObservedTime": THEN});
    }
    if random.percent(30) {
        event["related"] = json!({"kind": "Node", "name": "n"});
    }
    event
}

fn core_event(random: &mut Random) -> Value {
    let mut event = json!({"involvedObject": {"kind": "Pod", "name": "§p0", "namespace": "{namespace}"}, "reason": "R", "message": "hello",
        "type": "Normal", "count": 1});
    if random.percent(50) {
        event["source"] = json!({"component": "kubelet", "host": "n"});
        event["firstTimestamp"] = "2001-01-01T00:00:00Z".into();
        event["lastTimestamp"] = "2001-01-01T00:00:00Z".into();
    }
    event
}

fn illegal(resource: Resource, random: &mut Random, name: &str) -> Value {
    let mut object = legal(resource, random, name);
    let (field, value) = match resource {
        Resource::Leases => (
            "spec",
            random.pick(&[
                json!({"leaseDurationSeconds": 0}),
                json!({"renewTime": "x"}),
                json!({"leaseTransitions": -1}),
            ]),
        ),
        Resource::Events => random.pick(&[
            ("eventTime", json!(null)),
            ("action", json!("")),
            ("reason", json!(null)),
            ("type", json!("Odd")),
            ("reportingController", json!("bad controller")),
            ("regarding", json!({"namespace": "other"})),
            ("note", json!("x".repeat(1025))),
        ]),
        Resource::CoreEvents => random.pick(&[
            ("involvedObject", json!({"namespace": "other"})),
            ("count", json!("x")),
        ]),
        _ => random.pick(&[
            ("data", json!({"bad key": "v"})),
            ("binaryData", json!({"k": "no base64!"})),
            ("data", json!({"k": 5})),
            ("data", json!("x")),
        ]),
    };
    object[field] = value;
    object
}
