//! The rules for writes to the status of a pod.

use serde_json::{Value, json};

use crate::apiserver::objects::json::{carry, child, default, int, list, object, text};
use crate::apiserver::objects::status::FieldError;

/// Restores fields that the status keeps; adds nulls and empty objects as the real types do.
pub fn prepare(new: &mut Value, old: &Value) {
    let metadata = child(new, "metadata");
    carry(metadata, &old["metadata"], "ownerReferences");
    // Old kubelets sent a time of their own (`podStatusStrategy.PrepareForUpdate`).
    carry(metadata, &old["metadata"], "deletionTimestamp");
    let status = child(new, "status");
    if !status.contains_key("qosClass") {
        carry(status, &old["status"], "qosClass");
    }
    if status
        .get("observedGeneration")
        .and_then(Value::as_i64)
        .unwrap_or(0)
        == 0
    {
        carry(status, &old["status"], "observedGeneration");
    }
    for field in [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ] {
        let statuses = status.get_mut(field).and_then(Value::as_array_mut);
        statuses.into_iter().flatten().for_each(complete_container);
    }
    complete_conditions(new, &["lastProbeTime", "lastTransitionTime"]);
}

/// Adds the nulls that conditions always write.
pub fn complete_conditions(object: &mut Value, times: &[&str]) {
    let conditions = child(object, "status")
        .get_mut("conditions")
        .and_then(Value::as_array_mut);
    conditions
        .into_iter()
        .flatten()
        .for_each(|condition| null_unless_set(condition, times));
}

fn complete_container(status: &mut Value) {
    for field in ["state", "lastState"] {
        default(object(status), field, json!({}));
        for (kind, times) in [
            ("running", &["startedAt"][..]),
            ("terminated", &["startedAt", "finishedAt"]),
        ] {
            let state = object(child_value(status, field)).get_mut(kind);
            state
                .into_iter()
                .for_each(|state| null_unless_set(state, times));
        }
    }
}

fn child_value<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    object(value).entry(field).or_insert(Value::Null)
}

fn null_unless_set(value: &mut Value, fields: &[&str]) {
    for field in fields {
        child_value(value, field);
    }
}

/// Returns the errors of a status write.
pub fn validate(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = super::meta::validate_update(new, old);
    if new["status"]["qosClass"] != old["status"]["qosClass"] {
        errors.push(FieldError::immutable(
            "status.qosClass",
            &new["status"]["qosClass"],
        ));
    }
    errors.extend(transitions("containerStatuses", "containers", new, old));
    errors.extend(transitions(
        "initContainerStatuses",
        "initContainers",
        new,
        old,
    ));
    errors
}

/// Checks that a terminated container becomes not terminated only if its policy lets it run again.
fn transitions(field: &str, containers: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let pointer = format!("/status/{field}");
    let mut errors = Vec::new();
    for (index, before) in list(old, &pointer).iter().enumerate() {
        let Some(code) = int(before, "/state/terminated/exitCode") else {
            continue;
        };
        let name = text(before, "/name");
        let after = list(new, &pointer)
            .iter()
            .find(|status| text(status, "/name") == name);
        let back = after.is_some_and(|after| after.pointer("/state/terminated").is_none());
        if back && !restarts(old, containers, name, code) {
            let field = format!("status.{field}[{index}].state");
            errors.push(FieldError::forbidden(
                field,
                "may not be transitioned to non-terminated state",
            ));
        }
    }
    errors
}

/// Returns true if the container may restart; its own policy takes precedence over the pod's. One
/// that the spec does not have may not, from 1.35 on (`ValidateContainerStateTransition` and
/// `ValidateInitContainerStateTransition`).
fn restarts(pod: &Value, containers: &str, name: &str, code: i64) -> bool {
    let mut containers = list(pod, &format!("/spec/{containers}")).iter();
    let Some(container) = containers.find(|container| text(container, "/name") == name) else {
        return false;
    };
    let own = text(container, "/restartPolicy");
    let policy = if own.is_empty() {
        text(pod, "/spec/restartPolicy")
    } else {
        own
    };
    policy == "Always" || (policy == "OnFailure" && code != 0)
}
