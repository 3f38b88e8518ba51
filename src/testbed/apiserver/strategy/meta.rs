//! The rules of metadata, the same for all kinds.

use serde_json::Value;

use crate::apiserver::objects::json::{list, text};
use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::objects::status::FieldError;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
    with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
    alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
    (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the errors of new metadata.
pub fn validate(kind: &Kind, new: &Value) -> Vec<FieldError> {
    let name = text(new, "/metadata/name");
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if kind.is_core("namespaces") {
        errors.extend(dns_label("metadata.name", name));
    } else {
        errors.extend(dns_subdomain("metadata.name", name));
    }
    errors.extend(labels("metadata.labels", &new["metadata"]["labels"]));
    errors.extend(annotations(&new["metadata"]["annotations"]));
    errors.extend(finalizers(new));
    errors.extend(owners(new));
    errors
}

/// Checks that owners are complete (1.37: `validateOwnerReference` in apimachinery).
fn owners(new: &Value) -> Vec<FieldError> {
    let owners = list(new, "/metadata/ownerReferences").iter().enumerate();
    let missing = owners.flat_map(|(index, owner)| {
        ["apiVersion", "kind", "name", "uid"]
            .into_iter()
            .filter(|field| text(owner, &format!("/{field}")).is_empty())
            .map(move |field| format!("metadata.ownerReferences[{index}].{field}"))
    });
    missing
        .map(|field| FieldError::required(field, "must not be empty"))
        .collect()
}

/// Checks that finalizers have a domain, except those of the garbage collector.
fn finalizers(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, finalizer) in list(new, "/metadata/finalizers").iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        errors.extend(qualified_name("metadata.finalizers", name));
        if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{index}]"),
                finalizer,
                rule,
            ));
        }
    }
    errors
}

/// Returns the errors of changed metadata.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let (new, old) = (&new["metadata"], &old["metadata"]);
    let mut errors = Vec::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if new[field] != old[field] {
            errors.push(FieldError::immutable(
                format!("metadata.{field}"),
                &new[field],
            ));
        }
    }
    errors.extend(labels("metadata.labels", &new["labels"]));
    errors.extend(annotations(&new["annotations"]));
    if old.get("deletionTimestamp").is_some() {
        errors.extend(no_new_finalizers(new, old));
    }
    errors
}

fn no_new_finalizers(new: &Value, old: &Value) -> Option<FieldError> {
    let fresh: Vec<_> = list(new, "/finalizers")
        .iter()
        .filter(|finalizer| !list(old, "/finalizers").contains(finalizer))
        .collect();
    let names: Vec<_> = fresh.iter().map(ToString::to_string).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        names.join(", ")
    );
    (!fresh.is_empty()).then(|| FieldError::forbidden("metadata.finalizers", &detail))
}

/// Checks the keys and values of a label map.
pub fn labels(field: &str, labels: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.extend(qualified_name(field, key));
        let text = value.as_str().unwrap_or_default();
        if !text.is_empty() && !is_name(text) {
            errors.push(FieldError::invalid(field, value, VALUE));
        }
    }
    errors
}

/// The limit of the sum of all annotations: 256 KiB.
const ANNOTATIONS: usize = 256 * 1024;

fn annotations(annotations: &Value) -> Vec<FieldError> {
    let map = annotations.as_object().into_iter().flatten();
    let size: usize = map
        .clone()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    let mut errors: Vec<_> = map
        .filter_map(|(key, _)| qualified_name("metadata.annotations", &key.to_lowercase()))
        .collect();
    if size > ANNOTATIONS {
        let message = format!("may not be more than {ANNOTATIONS} bytes");
        errors.push(FieldError::invalid(
            "metadata.annotations",
            &Value::Null,
            &message,
        ));
    }
    errors
}

/// Checks a name with an optional prefix, like the keys of labels.
pub fn qualified_name(field: &str, key: &str) -> Option<FieldError> {
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
    let legal = is_name(name) && (prefix.is_empty() || is_subdomain(prefix));
    (!legal).then(|| FieldError::invalid(field, &key.into(), KEY))
}

/// Returns true for up to 63 letters, digits and `-_.`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let ends = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    ends && text.len() <= 63
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(inner) && text.ends_with(inner) && text.chars().all(|c| inner(c) || c == '-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Checks a DNS-1123 subdomain of at most 253 characters.
pub fn dns_subdomain(field: &str, name: &str) -> Option<FieldError> {
    check(field, name, 253, is_subdomain(name), SUBDOMAIN)
}

/// Checks a DNS-1123 label of at most 63 characters.
pub fn dns_label(field: &str, name: &str) -> Option<FieldError> {
    let rule = if is_subdomain(name) {
        "must not contain dots"
    } else {
        LABEL
    };
    check(field, name, 63, is_label(name), rule)
}

fn check(field: &str, name: &str, limit: usize, legal: bool, rule: &str) -> Option<FieldError> {
    if name.len() > limit {
        let message = format!("must be no more than {limit} characters");
        return Some(FieldError::invalid(field, &name.into(), &message));
    }
    (!legal).then(|| FieldError::invalid(field, &name.into(), rule))
}
