//! Jobs: defaults, the generated selector, validation.

use serde_json::{Value, json};

use super::{pod_defaults, pod_spec};
use crate::apiserver::objects::json::{carry, child, default, int, list, object, text};
use crate::apiserver::objects::status::FieldError;

/// Sets defaults and the generated selector. Needs the uid in the metadata.
pub fn prepare_create(job: &mut Value) {
    let template = json!({"metadata": {}, "spec": {}});
    default(child(job, "spec"), "template", template);
    defaults(job);
    if job["spec"]["manualSelector"] != true {
        generate_selector(job);
    }
    object(job).insert("status".to_owned(), json!({}));
}

/// Sets defaults, and drops counters of zero, which the real types leave out.
pub fn prepare_update(job: &mut Value) {
    defaults(job);
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
    let replacement = if spec.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    default(spec, "podReplacementPolicy", replacement);
    let template = spec.entry("template").or_insert(Value::Null);
    pod_defaults::pod_spec(object(template).entry("spec").or_insert(Value::Null));
    default_labels(job, labels);
}

/// Gives a job without labels those of its template.
fn default_labels(job: &mut Value, labels: Value) {
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        default(child(job, "metadata"), "labels", labels);
    }
}

/// Generates the selector by uid and its labels, on the template and, if it has none of its own, on
/// the job.
fn generate_selector(job: &mut Value) {
    let uid = text(job, "/metadata/uid").to_owned();
    let name = text(job, "/metadata/name").to_owned();
    let bare = job["metadata"].get("labels").is_none();
    let template = child(job, "spec").entry("template").or_insert(Value::Null);
    let labels = object(
        child(template, "metadata")
            .entry("labels")
            .or_insert(Value::Null),
    );
    for prefix in ["", "batch.kubernetes.io/"] {
        labels.insert(format!("{prefix}controller-uid"), uid.as_str().into());
        labels.insert(format!("{prefix}job-name"), name.as_str().into());
    }
    let labels = labels.clone();
    if bare {
        child(job, "metadata").insert("labels".to_owned(), labels.into());
    }
    let selector = child(job, "spec").entry("selector").or_insert(Value::Null);
    child(selector, "matchLabels")
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert_with(|| uid.into());
}

/// Returns the errors of a new job.
pub fn validate(job: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(foreign_selector(job));
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        errors.extend(not_negative(job, "spec", field));
    }
    let mode = text(job, "/spec/completionMode");
    if !matches!(mode, "NonIndexed" | "Indexed") {
        errors.push(FieldError::unsupported(
            "spec.completionMode",
            mode,
            &["NonIndexed", "Indexed"],
        ));
    }
    if job["spec"]["completionMode"] == "Indexed" && job["spec"]["completions"].is_null() {
        let rule = "when completion mode is Indexed";
        errors.push(FieldError::required("spec.completions", rule));
    }
    errors.extend(pod_spec::validate(
        &job["spec"]["template"]["spec"],
        "spec.template.spec",
    ));
    errors.extend(restart_policy(job));
    errors.extend(selector(job));
    errors.extend(pod_name(job));
    errors
}

/// Returns the errors of a status.
pub fn validate_status(job: &Value) -> Vec<FieldError> {
    let counters = ["active", "succeeded", "failed", "ready", "terminating"];
    let mut errors: Vec<_> = counters
        .iter()
        .filter_map(|field| not_negative(job, "status", field))
        .collect();
    let active = int(job, "/status/active").unwrap_or(0);
    if let Some(ready) = int(job, "/status/ready").filter(|ready| *ready > active) {
        errors.push(FieldError::invalid(
            "status.ready",
            &ready.into(),
            "cannot set more ready pods than active",
        ));
    }
    errors
}

fn not_negative(job: &Value, part: &str, field: &str) -> Option<FieldError> {
    let value = int(job, &format!("/{part}/{field}"))?;
    (value < 0).then(|| {
        FieldError::invalid(
            format!("{part}.{field}"),
            &value.into(),
            "must be greater than or equal to 0",
        )
    })
}

/// Checks that the last pod of an indexed job has a legal host name.
fn pod_name(job: &Value) -> Option<FieldError> {
    let last = int(job, "/spec/completions")
        .filter(|count| job["spec"]["completionMode"] == "Indexed" && *count > 0)?
        - 1;
    let name = &job["metadata"]["name"];
    let host = format!("{}-{last}", name.as_str().unwrap_or_default());
    super::meta::dns_label("metadata.name", &host)?;
    let rule = format!("will not able to create pod with invalid DNS label: {host}");
    Some(FieldError::invalid("metadata.name", name, &rule))
}

/// Checks that a generated selector contains nothing else.
fn foreign_selector(job: &Value) -> Option<FieldError> {
    let selector = &job["spec"]["selector"];
    let generated =
        |(key, _): (&String, &Value)| key.ends_with("controller-uid") || key.ends_with("job-name");
    let foreign = !selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .all(generated);
    let manual = job["spec"]["manualSelector"] == true;
    (foreign && !manual)
        .then(|| FieldError::invalid("spec.selector", selector, "`selector` not auto-generated"))
}

/// Checks that there is a selector, and that it matches the pods of the template.
fn selector(job: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    if job["spec"]["selector"].is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let wanted = job["spec"]["selector"]["matchLabels"].as_object();
    let selected = wanted.is_some_and(|wanted| {
        wanted
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    });
    if !selected {
        let rule = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            rule,
        ));
    }
    errors
}

fn restart_policy(job: &Value) -> Option<FieldError> {
    let field = "spec.template.spec.restartPolicy";
    match text(job, "/spec/template/spec/restartPolicy") {
        "OnFailure" | "Never" => None,
        "Always" | "" => Some(FieldError::required(
            field,
            "valid values: \"OnFailure\", \"Never\"",
        )),
        other => Some(FieldError::unsupported(
            field,
            other,
            &["OnFailure", "Never"],
        )),
    }
}

/// Returns the error of a changed template. That of a suspended job without pods may get other
/// scheduling fields and resources (1.37: `validatePodTemplateUpdate`).
fn changed_template(new: &Value, old: &Value) -> Option<FieldError> {
    let (new, before) = (&new["spec"]["template"], &old["spec"]["template"]);
    if !is_suspended(old) {
        return (new != before).then(|| FieldError::immutable("spec.template", new));
    }
    let mut before = before["spec"].clone();
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        carry(object(&mut before), &new["spec"], field);
    }
    for list in ["containers", "initContainers"] {
        if let Some(before) = before.get_mut(list) {
            carry_resources(before, &new["spec"][list]);
        }
    }
    let affinity = &new["spec"]["affinity"];
    if affinity.is_object() {
        let entry = object(&mut before).entry("affinity").or_insert(Value::Null);
        carry(object(entry), affinity, "nodeAffinity");
    }
    (new["spec"] != before).then(|| FieldError::immutable("spec.template.spec", &new["spec"]))
}

/// Returns true if the job is suspended and has no pods (`shouldAllowMutablePodTemplate`).
fn is_suspended(job: &Value) -> bool {
    let conditions = list(job, "/status/conditions");
    let is_told = || {
        let mut conditions = conditions.iter();
        conditions.any(|one| one["type"] == "Suspended" && one["status"] == "True")
    };
    job["spec"]["suspend"] == true
        && (job["status"]["startTime"].is_null() || is_told())
        && int(job, "/status/active").unwrap_or(0) == 0
}

fn carry_resources(before: &mut Value, new: &Value) {
    let (Some(before), Some(new)) = (before.as_array_mut(), new.as_array()) else {
        return;
    };
    if before.len() == new.len() {
        for (before, new) in before.iter_mut().zip(new) {
            if before["name"] == new["name"] {
                carry(object(before), new, "resources");
            }
        }
    }
}

/// Returns the errors of a changed job.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = super::meta::validate_update(new, old);
    // Once for the job and once for the change, like the real server.
    errors.extend(validate(new));
    errors.extend(validate(new));
    let indexed = old["spec"]["completionMode"] == "Indexed";
    for field in [
        "completions",
        "selector",
        "template",
        "completionMode",
        "podFailurePolicy",
        "managedBy",
    ] {
        if field == "template" {
            errors.extend(changed_template(new, old));
            continue;
        }
        // An indexed job may be scaled by changing completions and parallelism together.
        let elastic = field == "completions"
            && indexed
            && new["spec"]["completions"] == new["spec"]["parallelism"];
        if new["spec"][field] == old["spec"][field] || elastic {
            continue;
        }
        if field == "completions" && indexed && !new["spec"][field].is_null() {
            let rule = "can only be modified in tandem with spec.parallelism";
            errors.push(FieldError::invalid(
                "spec.completions",
                &new["spec"][field],
                rule,
            ));
        } else {
            errors.push(FieldError::immutable(
                format!("spec.{field}"),
                &new["spec"][field],
            ));
        }
    }
    errors
}
