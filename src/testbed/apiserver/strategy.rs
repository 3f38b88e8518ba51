//! The behaviour of each kind: defaults, permitted changes, validation. All are functions of the
//! objects alone.

mod config_map;
mod event;
mod job;
mod meta;
mod part;
mod pod;
mod pod_defaults;
mod pod_spec;
mod pod_status;

use serde_json::{Value, json};

use crate::apiserver::objects::json::{carry, child, default, int, object, text};
use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::objects::status::FieldError;
use crate::apiserver::objects::typed::NODE_INFO;

pub use part::Part;
pub use pod::graceful_period;

/// Sets the fields of a new object that the server decides.
pub fn prepare_create(kind: &Kind, new: &mut Value) {
    if kind.generation {
        child(new, "metadata").insert("generation".to_owned(), 1.into());
    }
    if kind.status {
        object(new).remove("status");
    }
    match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "pods") => pod::prepare_create(new),
        ("batch", "jobs") => job::prepare_create(new),
        ("", "nodes") => prepare_node(new),
        ("", "namespaces") => prepare_namespace(new),
        ("coordination.k8s.io", _) => default(object(new), "spec", json!({})),
        ("apiextensions.k8s.io", _) => establish(new),
        _ => {}
    }
}

/// Reverts changes that a write to this part may not make, and updates the generation.
pub fn prepare_update(kind: &Kind, part: Part, new: &mut Value, old: &Value) {
    match part {
        Part::Main if kind.status => carry(object(new), old, "status"),
        Part::Main => {}
        Part::Status => carry(object(new), old, "spec"),
    }
    match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "pods") => pod::prepare_update(part, new, old),
        ("", "nodes") => {
            pod_status::complete_conditions(new, &["lastHeartbeatTime", "lastTransitionTime"])
        }
        ("batch", "jobs") => job::prepare_update(new),
        ("coordination.k8s.io", _) => default(object(new), "spec", json!({})),
        _ => {}
    }
    if kind.generation && new["spec"] != old["spec"] {
        let next = int(old, "/metadata/generation").unwrap_or(0) + 1;
        child(new, "metadata").insert("generation".to_owned(), next.into());
    }
}

/// Returns the errors of a new object.
pub fn validate_create(kind: &Kind, new: &Value) -> Vec<FieldError> {
    let mut errors = meta::validate(kind, new);
    match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "pods") => errors.extend(pod_spec::validate(&new["spec"], "spec")),
        ("batch", "jobs") => errors.extend(job::validate(new)),
        ("", "configmaps") => errors.extend(config_map::validate(new)),
        (_, "events") => errors.extend(event::validate(kind, new)),
        ("coordination.k8s.io", _) => errors.extend(validate_lease(new)),
        _ => {}
    }
    errors
}

/// Returns the errors of a change.
pub fn validate_update(kind: &Kind, part: Part, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = meta::validate(kind, new);
    errors.extend(meta::validate_update(new, old));
    match (kind.group.as_str(), kind.resource.as_str(), part) {
        ("", "configmaps", _) => errors.extend(config_map::validate_update(new, old)),
        (_, "events", _) => errors.extend(event::validate_update(kind, new, old)),
        ("", "pods", Part::Main) => errors.extend(pod::validate_update(new, old)),
        ("", "pods", Part::Status) => errors.extend(pod_status::validate(new, old)),
        ("batch", "jobs", Part::Status) => errors.extend(job::validate_status(new)),
        ("batch", "jobs", Part::Main) => errors.extend(job::validate_update(new, old)),
        ("coordination.k8s.io", _, _) => errors.extend(validate_lease(new)),
        _ => {}
    }
    errors
}

fn validate_lease(lease: &Value) -> Vec<FieldError> {
    let check = |field: &str, least: i64, rule: &str| {
        let value = int(lease, &format!("/spec/{field}")).filter(|value| *value < least)?;
        Some(FieldError::invalid(
            format!("spec.{field}"),
            &value.into(),
            rule,
        ))
    };
    let duration = check("leaseDurationSeconds", 1, "must be greater than 0");
    let transitions = check("leaseTransitions", 0, "must be greater than or equal to 0");
    duration.into_iter().chain(transitions).collect()
}

fn prepare_node(node: &mut Value) {
    // The taint that the real server's TaintNodesByCondition admission adds.
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = child(node, "spec")
        .entry("taints")
        .or_insert_with(|| json!([]));
    if let Some(taints) = taints
        .as_array_mut()
        .filter(|taints| !taints.contains(&taint))
    {
        taints.push(taint);
    }
    let info: Value = NODE_INFO
        .iter()
        .map(|&field| (field.to_owned(), Value::from("")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    object(node).insert(
        "status".to_owned(),
        json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": info}),
    );
}

fn prepare_namespace(namespace: &mut Value) {
    let name = text(namespace, "/metadata/name").to_owned();
    let metadata = child(namespace, "metadata");
    let labels = metadata.entry("labels").or_insert(Value::Null);
    default(object(labels), "kubernetes.io/metadata.name", name);
    child(namespace, "spec").insert("finalizers".to_owned(), json!(["kubernetes"]));
    object(namespace).insert("status".to_owned(), json!({"phase": "Active"}));
}

/// Sets the conditions of a CRD that is served at once.
fn establish(crd: &mut Value) {
    let accepted = json!({"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"});
    let established = json!({"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"});
    let names = crd["spec"]["names"].clone();
    object(crd).insert(
        "status".to_owned(),
        json!({"conditions": [accepted, established], "acceptedNames": names}),
    );
}
