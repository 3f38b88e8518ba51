//! Checks that the API server makes by a policy's CRD, and its parser does not: unknown fields are
//! dropped silently, others are refused.

use serde_json::Value;
use swaplet_core::objects::sidecar_policy::{
    ANY_OWNER, MOST_OWNER_KINDS, MOST_PROBLEMS, MOST_RULES, PolicyKind,
};
use swaplet_core::objects::values::bounds::cut;

const SPEC: [&str; 4] = ["podSelector", "ownerKinds", "sidecars", "namespaceSelector"];
const RULE: [&str; 9] = [
    "preset",
    "name",
    "image",
    "method",
    "exitImage",
    "delaySeconds",
    "waitForExit",
    "order",
    "mainMustSucceed",
];
const SELECTOR: [&str; 2] = ["matchLabels", "matchExpressions"];
const REQUIREMENT: [&str; 3] = ["key", "operator", "values"];
const WAIT: [&str; 1] = ["deadlineSeconds"];
/// The shown length of a name, enough to recognise it.
const SHOWN: usize = 80;

/// Returns the problems, each with its path and the fix.
pub(super) fn problems(kind: PolicyKind, spec: &Value) -> Vec<String> {
    let of_spec = match kind {
        PolicyKind::Cluster => &SPEC[..],
        PolicyKind::Namespaced => &SPEC[..3],
    };
    let mut found = of_object("spec", spec, of_spec);
    for field in ["podSelector", "namespaceSelector"] {
        // Without its unknown fields it is empty, and selects everything.
        let path = format!("spec.{field}");
        found.extend(of_object(&path, &spec[field], &SELECTOR));
        let requirements = spec[field]["matchExpressions"].as_array();
        for (nth, requirement) in requirements.into_iter().flatten().enumerate() {
            let path = format!("{path}.matchExpressions[{nth}]");
            found.extend(of_object(&path, requirement, &REQUIREMENT));
        }
    }
    let kinds = spec["ownerKinds"].as_array().into_iter().flatten();
    let kinds: Vec<_> = kinds
        .filter_map(Value::as_str)
        .take(MOST_OWNER_KINDS)
        .collect();
    for (nth, kind) in kinds.iter().enumerate() {
        let is_kind = kind.chars().all(|c| c.is_ascii_alphanumeric());
        if kinds[..nth].contains(kind) || *kind != ANY_OWNER && !is_kind {
            found.push(format!(
                "spec.ownerKinds[{nth}]: {:?} is no name of a kind, or stands there twice: write kinds such as Job once, or *",
                cut(kind, SHOWN)
            ));
        }
    }
    let rules = spec["sidecars"].as_array().into_iter().flatten();
    for (nth, rule) in rules.enumerate().take(MOST_RULES) {
        let path = format!("spec.sidecars[{nth}]");
        found.extend(of_object(&path, rule, &RULE));
        let wait = &rule["waitForExit"];
        found.extend(of_object(&format!("{path}.waitForExit"), wait, &WAIT));
        found.extend(refused(&path, rule));
    }
    found.truncate(MOST_PROBLEMS);
    found
}

fn refused(path: &str, rule: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let name = rule["name"].as_str().unwrap_or_default();
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    if !name
        .chars()
        .all(|letter| fits(letter) || "-*".contains(letter))
    {
        found.push(format!(
            "{path}.name: {:?} is not a pattern for container names: write a-z, 0-9, - and *",
            cut(name, SHOWN)
        ));
    }
    if let Some(image) = rule["image"].as_str()
        && image.contains(char::is_whitespace)
    {
        found.push(format!(
            "{path}.image: {:?} has white space, and no image has: leave it out",
            cut(image, SHOWN)
        ));
    }
    let method = rule["method"].as_str().unwrap_or_default();
    if !rule["exitImage"].is_null() && ["Finish", "Leave"].contains(&method) {
        found.push(format!(
            "{path}: an exitImage is for the methods Auto and Swap: leave it out, or the method"
        ));
    }
    found
}

fn of_object(path: &str, value: &Value, known: &[&str]) -> Vec<String> {
    let fields = value.as_object().into_iter().flatten();
    let unknown = fields.filter(|(field, _)| !known.contains(&field.as_str()));
    unknown
        .take(MOST_PROBLEMS)
        .map(|(field, _)| {
            format!(
                "{path} has no field {:?}: it has {}",
                cut(field, SHOWN),
                known.join(", ")
            )
        })
        .collect()
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
                "\"matchLabel\": it has matchLabels,",
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
            found[0].starts_with("spec.sidecars[1] has no field \"delaySecond\": it has preset,"),
            "{found:?}"
        );
        assert!(found[1].contains("sidecars[1].waitForExit"), "{found:?}");
        let namespaced = problems(PolicyKind::Namespaced, &spec);
        assert!(namespaced[0].contains("namespaceSelector"));
        assert_eq!(
            problems(PolicyKind::Cluster, &json!("text")),
            Vec::<String>::new()
        );
    }
}
