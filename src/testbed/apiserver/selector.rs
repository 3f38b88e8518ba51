//! Label and field selectors.

use serde_json::Value;

use super::json::text;
use super::kinds::Kind;
use super::status::ApiError;

/// Which objects a list or watch shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
    /// Only this namespace; empty for all.
    pub namespace: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

#[derive(Clone, Debug, PartialEq)]
struct FieldRequirement {
    pointer: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads both selectors of a request.
    pub fn parse(kind: &Kind, namespace: &str, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = split_terms(labels).into_iter().map(requirement).collect::<Result<_, _>>()?;
        let terms = fields.split(',').map(str::trim).filter(|term| !term.is_empty());
        let fields = terms.map(|term| field_requirement(kind, term)).collect::<Result<_, _>>()?;
        Ok(Self { labels, fields, namespace: namespace.to_owned() })
    }

    /// Whether it selects the object (events in their stored form).
    pub fn matches(&self, object: &Value) -> bool {
        let here = self.namespace.is_empty() || text(object, "/metadata/namespace") == self.namespace;
        here && self.labels.iter().all(|label| label.matches(&object["metadata"]["labels"]))
            && self.fields.iter().all(|field| (text(object, &field.pointer) == field.value) == field.equal)
    }
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        let value = |key: &String| labels.get(key).and_then(Value::as_str);
        match self {
            Self::In(key, values) => value(key).is_some_and(|value| values.iter().any(|allowed| allowed == value)),
            Self::NotIn(key, values) => !value(key).is_some_and(|value| values.iter().any(|refused| refused == value)),
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

/// Splits at the commas that are not inside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let terms = text.split(move |sign| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        sign == ',' && depth == 0
    });
    terms.map(str::trim).filter(|term| !term.is_empty()).collect()
}

fn requirement(term: &str) -> Result<Requirement, ApiError> {
    if let Some(sign) = term.chars().next().filter(|sign| "=<>()".contains(*sign)) {
        return Err(unexpected(sign));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Requirement::NotIn(name(key)?, vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Requirement::In(name(key)?, vec![value.trim().to_owned()]));
    }
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Requirement::Absent(name(key)?));
    }
    match term.split_once(char::is_whitespace) {
        Some((key, set)) => set_requirement(name(key)?, set.trim()),
        None => Ok(Requirement::Exists(name(term)?)),
    }
}

fn set_requirement(key: String, set: &str) -> Result<Requirement, ApiError> {
    let (operator, values) = set.split_once('(').unwrap_or((set, ""));
    let values = values.trim_end_matches(')').split(',').map(|value| value.trim().to_owned()).collect();
    match operator.trim() {
        "in" => Ok(Requirement::In(key, values)),
        "notin" => Ok(Requirement::NotIn(key, values)),
        other => Err(unparsable(&format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"))),
    }
}

fn name(key: &str) -> Result<String, ApiError> {
    let key = key.trim();
    let legal = |sign: char| sign.is_ascii_alphanumeric() || "-_./".contains(sign);
    if key.is_empty() || !key.chars().all(legal) {
        return Err(unparsable(&format!("found '{key}', expected: identifier")));
    }
    Ok(key.to_owned())
}

/// What the parser of the real server says of a selector that starts with a sign.
fn unexpected(sign: char) -> ApiError {
    ApiError::bad_request(format!("found '{sign}', expected: !, identifier, or 'end of string'"))
}

fn unparsable(why: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement: {why}"))
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
    Ok(FieldRequirement { pointer, value: value.trim().to_owned(), equal })
}

fn invalid_selector(term: &str) -> ApiError {
    ApiError::bad_request(format!("invalid selector: '{term}'; can't understand '{term}'"))
}

fn unsupported(kind: &Kind, label: &str) -> ApiError {
    let message = match (kind.group.as_str(), kind.resource.as_str()) {
        ("batch", "jobs") => format!("field label {label:?} not supported for Job"),
        ("", "configmaps") | ("coordination.k8s.io", _) => {
            format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
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
const OBJECT_FIELDS: &[&str] = &["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

/// Where the value of a field label stands in the stored object.
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

/// Both APIs of events are stored as core events.
fn event_pointer(label: &str) -> Option<String> {
    if let Some(field) = label.strip_prefix("involvedObject.").or_else(|| label.strip_prefix("regarding.")) {
        return OBJECT_FIELDS.contains(&field).then(|| format!("/involvedObject/{field}"));
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
    use super::super::kinds::builtin;
    use super::*;
    use serde_json::json;

    fn selects(labels: &str, fields: &str) -> bool {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "labels": {"app": "x", "tier": "a"}},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
        Selector::parse(&builtin()[0], "n", labels, fields).unwrap().matches(&pod)
    }

    #[test]
    fn labels_by_equality_and_by_sets() {
        for yes in ["app=x", "app==x", "app!=y", "no!=y", "app in (x, y),tier", "no notin (z)", "!no", ""] {
            assert!(selects(yes, ""), "{yes}");
        }
        for no in ["app=y", "app!=x", "!app", "app notin (x,y)", "no", "no in (x)", "app=x,tier=b"] {
            assert!(!selects(no, ""), "{no}");
        }
    }

    #[test]
    fn fields_by_equality() {
        assert!(selects("", "spec.nodeName=n1,status.phase!=Failed,metadata.name==p"));
        assert!(!selects("", "spec.nodeName!=n1"));
    }

    #[test]
    fn refuses_in_the_words_of_the_real_server() {
        let pods = &builtin()[0];
        let error = Selector::parse(pods, "", "a b", "").unwrap_err();
        assert_eq!(error.message, "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        let error = Selector::parse(pods, "", "", "spec.foo=x").unwrap_err();
        assert_eq!(error.message, "field label not supported: spec.foo");
    }
}
