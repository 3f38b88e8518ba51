//! Jobs: defaults, the generated selector, validation.

use serde_json::{Map, Value, json};

use super::super::json::{child, default, int, object, text};
use super::super::status::FieldError;
use super::{pod_defaults, pod_spec};

/// Defaults and the generated selector. Needs the uid in the metadata.
pub fn prepare_create(job: &mut Value) {
    let template = json!({"metadata": {}, "spec": {}});
    default(child(job, "spec"), "template", template);
    defaults(job);
    if job["spec"]["manualSelector"] != true {
        generate_selector(job);
    }
    object(job).insert("status".to_owned(), json!({}));
}

/// Counters of zero are left out by the real types.
pub fn prepare_update(job: &mut Value) {
    let status = child(job, "status");
    for counter in ["active", "succeeded", "failed"] {
        if status.get(counter).and_then(Value::as_i64) == Some(0) {
            status.remove(counter);
        }
    }
    super::pod_status::complete_conditions(job, &["lastProbeTime", "lastTransitionTime"]);
}

fn defaults(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let spec = child(job, "spec");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    default(spec, "backoffLimit", 6);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", replacement);
    let template = spec.entry("template").or_insert(Value::Null);
    pod_defaults::pod_spec(object(template).entry("spec").or_insert(Value::Null));
    default_labels(job, labels);
}

/// A job without labels takes those of its template.
fn default_labels(job: &mut Value, labels: Value) {
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        default(child(job, "metadata"), "labels", labels);
    }
}

/// The selector by uid and the labels that go with it, on the template and, where it has none of its own, on the job.
fn generate_selector(job: &mut Value) {
    let uid = text(job, "/metadata/uid").to_owned();
    let name = text(job, "/metadata/name").to_owned();
    let bare = job["metadata"].get("labels").is_none();
    let template = child(job, "spec").entry("template").or_insert(Value::Null);
    let labels = object(child(template, "metadata").entry("labels").or_insert(Value::Null));
    for prefix in ["", "batch.kubernetes.io/"] {
        labels.insert(format!("{prefix}controller-uid"), uid.as_str().into());
        labels.insert(format!("{prefix}job-name"), name.as_str().into());
    }
    let labels = labels.clone();
    if bare {
        child(job, "metadata").insert("labels".to_owned(), labels.into());
    }
    let selector = json!({"matchLabels": Map::from_iter([("batch.kubernetes.io/controller-uid".to_owned(), Value::from(uid))])});
    child(job, "spec").insert("selector".to_owned(), selector);
}

/// What is wrong with a new job.
pub fn validate(job: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        errors.extend(not_negative(job, field));
    }
    if job["spec"]["completionMode"] == "Indexed" && job["spec"]["completions"].is_null() {
        let rule = "when completion mode is Indexed";
        errors.push(FieldError::required("spec.completions", rule));
    }
    errors.extend(pod_spec::validate(&job["spec"]["template"]["spec"], "spec.template.spec"));
    errors.extend(restart_policy(job));
    errors
}

fn not_negative(job: &Value, field: &str) -> Option<FieldError> {
    let value = int(job, &format!("/spec/{field}"))?;
    (value < 0).then(|| FieldError::invalid(format!("spec.{field}"), &value.into(), "must be greater than or equal to 0"))
}

fn restart_policy(job: &Value) -> Option<FieldError> {
    let field = "spec.template.spec.restartPolicy";
    match text(job, "/spec/template/spec/restartPolicy") {
        "OnFailure" | "Never" => None,
        "Always" | "" => Some(FieldError::required(field, "valid values: \"OnFailure\", \"Never\"")),
        other => Some(FieldError::unsupported(field, other, &["OnFailure", "Never"])),
    }
}

/// What is wrong with a change of a job.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = super::meta::validate_update(new, old);
    errors.extend(validate(new));
    let indexed = old["spec"]["completionMode"] == "Indexed";
    for field in ["completions", "selector", "template", "completionMode", "podFailurePolicy", "managedBy"] {
        // An indexed job may be scaled by changing completions and parallelism together.
        let elastic = field == "completions" && indexed && new["spec"]["completions"] == new["spec"]["parallelism"];
        if new["spec"][field] != old["spec"][field] && !elastic {
            errors.push(FieldError::immutable(format!("spec.{field}"), &new["spec"][field]));
        }
    }
    errors
}
