//! The rules for pods: fields that a create sets, and changes that an update may make.

use serde_json::{Value, json};

use super::part::Part;
use super::{meta, pod_defaults, pod_spec, pod_status};
use crate::apiserver::objects::json::{carry, child, int, list, object, text};
use crate::apiserver::objects::status::FieldError;

const FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Sets defaults and the first status.
pub fn prepare_create(pod: &mut Value) {
    let spec = object(pod).entry("spec").or_insert(Value::Null);
    pod_defaults::pod_spec(spec);
    pod_defaults::pod_only(spec);
    let qos = pod_defaults::qos_class(spec);
    object(pod).insert(
        "status".to_owned(),
        json!({"phase": "Pending", "qosClass": qos}),
    );
    if !list(pod, "/spec/schedulingGates").is_empty() {
        let created = pod["metadata"]["creationTimestamp"].clone();
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates", "lastProbeTime": null, "lastTransitionTime": created});
        child(pod, "status").insert("conditions".to_owned(), json!([condition]));
    }
}

/// Sets defaults again for a changed spec; keeps the parts of the status that must stay.
pub fn prepare_update(part: Part, new: &mut Value, old: &Value) {
    match part {
        Part::Main => {
            let spec = object(new).entry("spec").or_insert(Value::Null);
            pod_defaults::pod_spec(spec);
            pod_defaults::tolerations(spec);
            pod_defaults::host_ports(spec);
        }
        Part::Status => pod_status::prepare(new, old),
    }
}

/// Returns the grace period of a deletion in seconds; zero means now.
pub fn graceful_period(pod: &Value, asked: Option<i64>) -> i64 {
    let period = asked
        .or_else(|| int(pod, "/spec/terminationGracePeriodSeconds"))
        .unwrap_or(0);
    let unscheduled = text(pod, "/spec/nodeName").is_empty();
    let over = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    match period {
        _ if unscheduled || over => 0,
        ..0 => 1,
        period => period,
    }
}

/// Validates an update of a pod. The checks come in the order, and as often, as on the real server.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = meta::validate_update(new, old);
    errors.extend(pod_spec::validate(&new["spec"], "spec"));
    for field in ["containers", "initContainers"] {
        let pointer = format!("/spec/{field}");
        let containers = list(new, &pointer);
        if containers.len() != list(old, &pointer).len() {
            errors.push(FieldError::forbidden(
                format!("spec.{field}"),
                "pod updates may not add or remove containers",
            ));
            return errors;
        }
        let paths = containers.iter().enumerate();
        errors.extend(paths.filter_map(|(index, one)| {
            pod_spec::image(text(one, "/image"), &format!("spec.{field}[{index}]"))
        }));
    }
    if let Some(error) = deadline(new, old) {
        errors.push(error);
        if !new["spec"]["activeDeadlineSeconds"].is_null() {
            return errors;
        }
    }
    errors.extend(tolerations(new, old));
    errors.extend(gates(new, old));
    errors.extend(rest(new, old));
    errors
}

fn deadline(new: &Value, old: &Value) -> Option<FieldError> {
    let field = "spec.activeDeadlineSeconds";
    let before = int(old, "/spec/activeDeadlineSeconds");
    match (int(new, "/spec/activeDeadlineSeconds"), before) {
        (Some(after), Some(before)) if after > before => Some(FieldError::invalid(
            field,
            &after.into(),
            "must be less than or equal to previous value",
        )),
        (None, Some(_)) => Some(FieldError::invalid(
            field,
            &Value::Null,
            "must not update from a positive integer to nil value",
        )),
        _ => None,
    }
}

/// Checks that tolerations are only added; of old ones only the seconds may change.
fn tolerations(new: &Value, old: &Value) -> Option<FieldError> {
    let bare = |toleration: &Value| {
        let mut toleration = toleration.clone();
        object(&mut toleration).remove("tolerationSeconds");
        toleration
    };
    let after: Vec<_> = list(new, "/spec/tolerations").iter().map(bare).collect();
    let lost = list(old, "/spec/tolerations")
        .iter()
        .any(|before| !after.contains(&bare(before)));
    let rule = "existing toleration can not be modified except its tolerationSeconds";
    lost.then(|| FieldError::forbidden("spec.tolerations", rule))
}

fn gates(new: &Value, old: &Value) -> Option<FieldError> {
    let fresh = list(new, "/spec/schedulingGates")
        .iter()
        .find(|gate| !list(old, "/spec/schedulingGates").contains(gate))?;
    let rule = format!(
        "only deletion is allowed, but found new scheduling gate '{}'",
        text(fresh, "/name")
    );
    Some(FieldError::forbidden("spec.schedulingGates", &rule))
}

/// Checks that everything else in the spec is unchanged.
fn rest(new: &Value, old: &Value) -> Option<FieldError> {
    let (munged, before) = (munged(new, old), &old["spec"]);
    let changed = changed_fields("spec", &munged, before);
    (!changed.is_empty())
        .then(|| FieldError::forbidden("spec", &format!("{FIELDS}\n{}", changed.join("\n"))))
}

/// Returns the new spec with all permitted changes reverted.
fn munged(new: &Value, old: &Value) -> Value {
    let mut spec = new["spec"].clone();
    for field in ["containers", "initContainers"] {
        let olds = list(old, &format!("/spec/{field}"));
        let news = spec
            .get_mut(field)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        news.zip(olds)
            .for_each(|(new, old)| carry(object(new), old, "image"));
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        carry(object(&mut spec), &old["spec"], field);
    }
    let grace = |value: &Value| int(value, "/spec/terminationGracePeriodSeconds");
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(new) == Some(1) {
        carry(
            object(&mut spec),
            &old["spec"],
            "terminationGracePeriodSeconds",
        );
    }
    if !list(old, "/spec/schedulingGates").is_empty() {
        for field in ["nodeSelector", "affinity"] {
            carry(object(&mut spec), &old["spec"], field);
        }
    }
    spec
}

/// Returns the paths that differ, instead of the real server's textual diff.
fn changed_fields(path: &str, new: &Value, old: &Value) -> Vec<String> {
    match (new, old) {
        _ if new == old => Vec::new(),
        (Value::Object(new), Value::Object(old)) => {
            let fields: std::collections::BTreeSet<_> = new.keys().chain(old.keys()).collect();
            let differing = |field: &&String| {
                changed_fields(
                    &format!("{path}.{field}"),
                    new.get(*field).unwrap_or(&Value::Null),
                    old.get(*field).unwrap_or(&Value::Null),
                )
            };
            fields.iter().flat_map(differing).collect()
        }
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => {
            let pairs = new.iter().zip(old).enumerate();
            pairs
                .flat_map(|(index, (new, old))| {
                    changed_fields(&format!("{path}[{index}]"), new, old)
                })
                .collect()
        }
        _ => vec![format!("- {path}: {old}\n+ {path}: {new}")],
    }
}
