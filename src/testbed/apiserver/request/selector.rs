//! Label and field selectors.

use std::collections::BTreeMap;

use kube::core::SelectorExt as _;
use serde_json::Value;
use swaplet_core::objects::values::label_selector;

use crate::apiserver::objects::json::text;
use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::objects::status::ApiError;

/// The selection of a list or watch: namespace, labels and fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: kube::core::Selector,
    fields: Vec<FieldRequirement>,
    /// The namespace; empty for all.
    pub namespace: String,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldRequirement {
    pointer: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses both selectors of a request.
    pub fn parse(
        kind: &Kind,
        namespace: &str,
        labels: &str,
        fields: &str,
    ) -> Result<Self, ApiError> {
        let labels = label_selector::parse(labels).map_err(ApiError::bad_request)?;
        let terms = fields
            .split(',')
            .map(str::trim)
            .filter(|term| !term.is_empty());
        let fields = terms
            .map(|term| field_requirement(kind, term))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            labels,
            fields,
            namespace: namespace.to_owned(),
        })
    }

    /// Returns true if the selection includes the object (events in their stored form).
    pub fn matches(&self, object: &Value) -> bool {
        let here =
            self.namespace.is_empty() || text(object, "/metadata/namespace") == self.namespace;
        here && (self.labels.selects_all() || self.labels.matches(&labels(object)))
            && self
                .fields
                .iter()
                .all(|field| (text(object, &field.pointer) == field.value) == field.equal)
    }
}

/// Returns the labels of an object; values that are not strings are ignored.
fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn field_requirement(kind: &Kind, term: &str) -> Result<FieldRequirement, ApiError> {
    let (label, value, equal) = match term.split_once("!=") {
        Some((label, value)) => (label, value, false),
        None => {
            let (label, value) = term.split_once('=').ok_or_else(|| invalid_selector(term))?;
            (label, value.trim_start_matches('='), true)
        }
    };
    let label = label.trim();
    let pointer = pointer(kind, label).ok_or_else(|| unsupported(kind, label))?;
    Ok(FieldRequirement {
        pointer,
        value: value.trim().to_owned(),
        equal,
    })
}

fn invalid_selector(term: &str) -> ApiError {
    ApiError::bad_request(format!(
        "invalid selector: '{term}'; can't understand '{term}'"
    ))
}

fn unsupported(kind: &Kind, label: &str) -> ApiError {
    let message = match (kind.group.as_str(), kind.resource.as_str()) {
        ("batch", "jobs") => format!("field label {label:?} not supported for Job"),
        ("", "configmaps") | ("coordination.k8s.io", _) => {
            format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        }
        _ => format!("field label not supported: {label}"),
    };
    ApiError::bad_request(message)
}

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];
const OBJECT_FIELDS: &[&str] = &[
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
];

/// Returns the JSON pointer of a field label in the stored object; `None` if the label is unknown.
fn pointer(kind: &Kind, label: &str) -> Option<String> {
    let known = match label {
        "metadata.name" | "metadata.namespace" => true,
        _ if kind.is_core("pods") => POD_FIELDS.contains(&label),
        _ if kind.is_job() => false,
        _ if kind.is_core("nodes") => label == "spec.unschedulable",
        _ if kind.is_core("namespaces") => label == "status.phase",
        _ if kind.is_core("secrets") => label == "type",
        _ if kind.resource == "events" => return event_pointer(label),
        _ => false,
    };
    known.then(|| format!("/{}", label.replace('.', "/")))
}

/// Returns the pointer in a core event, as which the events of both APIs are stored.
fn event_pointer(label: &str) -> Option<String> {
    if let Some(field) = label
        .strip_prefix("involvedObject.")
        .or_else(|| label.strip_prefix("regarding."))
    {
        return OBJECT_FIELDS
            .contains(&field)
            .then(|| format!("/involvedObject/{field}"));
    }
    match label {
        "reason" | "type" => Some(format!("/{label}")),
        "reportingComponent" | "reportingController" => Some("/reportingComponent".to_owned()),
        "source" => Some("/source/component".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apiserver::objects::kinds::builtin;

    fn selects(labels: &str, fields: &str) -> bool {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "labels": {"app": "x", "tier": "a"}},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
        Selector::parse(&builtin()[0], "n", labels, fields)
            .unwrap()
            .matches(&pod)
    }

    #[test]
    fn fields_by_equality() {
        assert!(selects(
            "app=x",
            "spec.nodeName=n1,status.phase!=Failed,metadata.name==p"
        ));
        assert!(!selects("", "spec.nodeName!=n1"));
        assert!(!selects("app=y", "spec.nodeName=n1"));
    }

    #[test]
    fn refuses_in_the_words_of_the_real_server() {
        let pods = &builtin()[0];
        let error = Selector::parse(pods, "", "a b", "").unwrap_err();
        assert_eq!(
            error.message,
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        );
        for broken in ["app in (", "app in (a", "app in", "app notin a"] {
            assert!(
                Selector::parse(pods, "", broken, "").is_err(),
                "a17: {broken}"
            );
        }
        let error = Selector::parse(pods, "", "", "spec.foo=x").unwrap_err();
        assert_eq!(error.message, "field label not supported: spec.foo");
    }
}
