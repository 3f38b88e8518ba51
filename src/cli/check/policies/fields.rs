//! Checks that the API server makes by a policy's CRD, and its parser does not: unknown fields are
//! dropped silently, others are refused.

use std::sync::LazyLock;

use serde_json::Value;
use swaplet_core::objects::sidecar_policy::PolicyKind;
use swaplet_core::objects::values::bounds::cut;
use swaplet_core::objects::values::problems::MOST_PROBLEMS;

use crate::cli::manifests::Manifests;

/// The CRDs of both kinds.
static CRDS: LazyLock<Manifests> = LazyLock::new(|| {
    Manifests::of(concat!(
        include_str!("../../../../deploy/crds/sidecarpolicies.yaml"),
        "\n---\n",
        include_str!("../../../../deploy/crds/namespacedsidecarpolicies.yaml")
    ))
});
/// The shown length of a name, enough to recognise it.
const SHOWN: usize = 80;
/// The most entries of a list that are compared; no list may have so many.
const MOST_ENTRIES: usize = 256;

/// Returns the problems, each with its path and the fix.
pub(super) fn problems(kind: PolicyKind, spec: &Value) -> Vec<String> {
    let version = "/versions/0/schema/openAPIV3Schema/properties/spec";
    let mut crds = CRDS.documents.iter().map(|crd| &crd.object["spec"]);
    let crd = crds.find(|crd| crd["names"]["kind"] == kind.kind());
    let schema = crd.and_then(|crd| crd.pointer(version));
    let mut found = Vec::new();
    compare("spec", spec, schema.unwrap_or(&Value::Null), &mut found);
    found.truncate(MOST_PROBLEMS);
    found
}

/// Compares a value with its schema, and all that is in it.
fn compare(path: &str, value: &Value, schema: &Value, found: &mut Vec<String>) {
    let (is_it, form) = match schema["type"].as_str() {
        Some("integer") => (value.is_i64(), "a whole number"),
        Some("boolean") => (value.is_boolean(), "true or false"),
        Some("string") => (
            value.is_string(),
            "a text, in quotes where it looks like another value",
        ),
        Some("array") => (value.is_array(), "a list"),
        Some("object") => (value.is_object(), "a map"),
        _ => (true, ""),
    };
    if !is_it && !value.is_null() {
        found.push(format!("{path}: write {form}"));
        return;
    }
    match value {
        Value::Object(fields) if found.len() < MOST_PROBLEMS => {
            for (field, value) in fields {
                match (&schema["properties"], &schema["properties"][field]) {
                    (Value::Object(known), Value::Null) => found.push(format!(
                        "{path} has no field {:?}: it has {}",
                        cut(field, SHOWN),
                        known.keys().cloned().collect::<Vec<_>>().join(", ")
                    )),
                    (_, schema) => compare(&format!("{path}.{field}"), value, schema, found),
                }
            }
            let method = value["method"].as_str().unwrap_or_default();
            if !value["exitImage"].is_null() && ["Finish", "Leave"].contains(&method) {
                found.push(format!(
                    "{path}: an exitImage is for the methods Auto and Swap: leave it out, or the method"
                ));
            }
        }
        Value::Array(items) => {
            for (nth, item) in items.iter().enumerate().take(MOST_ENTRIES) {
                let path = format!("{path}[{nth}]");
                if schema["x-kubernetes-list-type"] == "set" && items[..nth].contains(item) {
                    found.push(format!("{path}: it stands there twice: leave one out"));
                }
                compare(&path, item, &schema["items"], found);
            }
        }
        Value::String(text) => {
            let pattern = schema["pattern"].as_str().unwrap_or_default();
            if let Some(form) = other_form(pattern, text) {
                found.push(format!("{path}: {:?} is not {form}", cut(text, SHOWN)));
            }
        }
        _ => {}
    }
}

/// Returns the form that a pattern of the CRD describes, if the text has another one.
fn other_form(pattern: &str, text: &str) -> Option<&'static str> {
    let of_kind = |c: char| c.is_ascii_alphanumeric();
    let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*".contains(c);
    let (is_it, form) = match pattern {
        "^[-a-z0-9*]+$" => (
            text.chars().all(of_name),
            "a pattern for container names: write a-z, 0-9, - and *",
        ),
        "^([A-Za-z][A-Za-z0-9]*|[*])$" => (
            text == "*"
                || text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(of_kind),
            "the name of a kind: write one such as Job, or * for all",
        ),
        r"^[^\s]+$" => (
            !text.contains(char::is_whitespace),
            "an image: it has white space",
        ),
        _ => return None,
    };
    (!is_it).then_some(form)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_crd_refuses_is_said() {
        let spec = json!({"sidecars": [
            {"name": "Log", "method": "Auto", "exitImage": "a/b"},
            {"name": "log-*", "method": "Leave", "exitImage": "a/b"},
        ]});
        let found = problems(PolicyKind::Cluster, &spec);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("spec.sidecars[0].name: \"Log\""));
        assert!(found[1].starts_with("spec.sidecars[1]: an exitImage"));
    }

    #[test]
    fn u54_what_the_api_server_takes_out_of_a_selector_is_said() {
        let selectors = |pods: Value| {
            problems(
                PolicyKind::Cluster,
                &json!({"podSelector": pods, "namespaceSelector": {"matchLabels": {"a": "b"}}}),
            )
        };
        for (pods, field) in [
            (
                json!({"app": "web"}),
                "spec.podSelector has no field \"app\"",
            ),
            (
                json!({"matchLabel": {"app": "web"}}),
                "\"matchLabel\": it has matchExpressions,",
            ),
            (
                json!({"matchExpressions": [{"key": "a", "op": "Exists"}]}),
                "spec.podSelector.matchExpressions[0] has no field \"op\"",
            ),
        ] {
            let found = selectors(pods);
            assert!(found.len() == 1 && found[0].contains(field), "{found:?}");
        }
        let whole = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]});
        assert_eq!(selectors(whole), Vec::<String>::new());
    }

    #[test]
    fn u54_owner_kinds_and_images_that_the_crd_refuses_are_said() {
        let spec = json!({
            "ownerKinds": ["Job", "batch/Job", "Job", "*", "None"],
            "sidecars": [{"image": "*/log: v1"}, {"image": "*/log:v1"}],
        });
        let found = problems(PolicyKind::Cluster, &spec);
        let fields: Vec<_> = found
            .iter()
            .filter_map(|words| words.split(':').next())
            .collect();
        assert_eq!(
            fields,
            [
                "spec.ownerKinds[1]",
                "spec.ownerKinds[2]",
                "spec.sidecars[0].image"
            ],
            "{found:?}"
        );
    }

    #[test]
    fn fields_that_mean_nothing_are_named_and_all_others_are_not() {
        let spec = json!({
            "namespaceSelector": {}, "podSelector": {}, "ownerKinds": ["Job"],
            "sidecars": [
                {"preset": "istio", "method": "Auto", "exitImage": "a/b", "delaySeconds": 1, "order": 1,
                 "mainMustSucceed": true, "waitForExit": {"deadlineSeconds": 1}},
                {"name": "a", "image": "b", "delaySecond": 5, "waitForExit": {"deadline": 1}},
            ],
        });
        let found = problems(PolicyKind::Cluster, &spec);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0]
                .starts_with("spec.sidecars[1] has no field \"delaySecond\": it has delaySeconds,"),
            "{found:?}"
        );
        assert!(found[1].contains("sidecars[1].waitForExit"), "{found:?}");
        let namespaced = problems(PolicyKind::Namespaced, &spec);
        assert!(namespaced[0].contains("namespaceSelector"));
        assert_eq!(
            problems(PolicyKind::Cluster, &json!("text")),
            ["spec: write a map"]
        );
    }
}
