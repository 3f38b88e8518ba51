//! Validation of configmaps.

use serde_json::Value;

use crate::apiserver::objects::status::FieldError;

const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', \
    regex used for validation is '[-._a-zA-Z0-9]+')";

/// Returns the errors of a configmap.
pub fn validate(map: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["data", "binaryData"] {
        for key in map[field]
            .as_object()
            .into_iter()
            .flat_map(|data| data.keys())
        {
            let legal = key
                .chars()
                .all(|sign| sign.is_ascii_alphanumeric() || "-_.".contains(sign));
            if key.is_empty() || !legal {
                errors.push(FieldError::invalid(
                    format!("{field}[{key}]"),
                    &key.as_str().into(),
                    KEY,
                ));
            }
            if field == "data" && map["binaryData"].get(key).is_some() {
                errors.push(FieldError::invalid(
                    format!("data[{key}]"),
                    &key.as_str().into(),
                    "duplicate of key present in binaryData",
                ));
            }
        }
    }
    errors
}

/// Returns the errors of a changed configmap.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let rule = "field is immutable when `immutable` is set";
    let changed = |field: &&str| new[*field] != old[*field];
    let mut errors = Vec::new();
    if old["immutable"] == true {
        errors.extend(
            ["immutable", "data", "binaryData"]
                .into_iter()
                .filter(changed)
                .map(|field| FieldError::forbidden(field, rule)),
        );
    }
    errors.extend(validate(new));
    errors
}
