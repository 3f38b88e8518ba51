//! Objects whose pods cannot be read, because the field that holds them is missing or of another
//! type.

use serde_json::Value;

use crate::objects::pod::template::items;

/// The kinds of Kubernetes that have pods, each with the path of the pod spec.
const KINDS: [(&str, &[&str]); 9] = [
    ("Pod", &["spec"]),
    ("PodTemplate", &["template", "spec"]),
    ("Job", &["spec", "template", "spec"]),
    (
        "CronJob",
        &["spec", "jobTemplate", "spec", "template", "spec"],
    ),
    ("Deployment", &["spec", "template", "spec"]),
    ("ReplicaSet", &["spec", "template", "spec"]),
    ("ReplicationController", &["spec", "template", "spec"]),
    ("StatefulSet", &["spec", "template", "spec"]),
    ("DaemonSet", &["spec", "template", "spec"]),
];

/// The prefixes of the `apiVersion` of those kinds; another group may have its own Job.
const GROUPS: [&str; 3] = ["v1", "batch/", "apps/"];

/// Returns the problem of an object of a kind that has pods, for each such item of a list: the
/// field, and what it has to contain.
pub fn problems(object: &Value) -> Vec<String> {
    items(object).into_iter().filter_map(problem).collect()
}

fn problem(item: &Value) -> Option<String> {
    let kind = item["kind"].as_str()?;
    // A manifest without an apiVersion is judged by its kind alone.
    let group = item["apiVersion"].as_str().unwrap_or("v1");
    let (_, path) = KINDS.iter().find(|(known, _)| *known == kind)?;
    if !GROUPS.iter().any(|known| group.starts_with(known)) {
        return None;
    }
    let mut at = item;
    let mut field = String::new();
    for step in *path {
        at = &at[*step];
        field.extend([if field.is_empty() { "" } else { "." }, *step]);
        if !at.is_object() {
            let what = match at {
                Value::Null => "is missing".to_owned(),
                other => format!("is {}, and has to be a map", kind_of(other)),
            };
            return Some(format!(
                "{field} {what}: the containers belong into {}.containers",
                path.join(".")
            ));
        }
    }
    containers(&at["containers"]).map(|what| format!("{field}.containers{what}"))
}

fn containers(value: &Value) -> Option<String> {
    const FIX: &str = ": write a list of containers, `- name: ...` for each";
    let list = match value {
        Value::Array(list) if !list.is_empty() => list,
        Value::Array(_) | Value::Null => return Some(format!(" has no container{FIX}")),
        other => return Some(format!(" is {}, and has to be a list{FIX}", kind_of(other))),
    };
    let index = list.iter().position(|item| !item["name"].is_string())?;
    Some(format!(
        "[{index}].name is missing, or is not a string{FIX}"
    ))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
