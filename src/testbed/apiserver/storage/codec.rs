//! Converts objects between their stored form and the form that a client sends and reads.

use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::objects::json::{child, default, object, text};
use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::objects::status::{ApiError, FieldError};
use crate::apiserver::objects::{events, typed};
use crate::apiserver::request::Request;

/// Returns a stored object in the form of this kind.
pub fn show(kind: &Kind, stored: &Arc<Value>) -> Arc<Value> {
    let version = kind.api_version();
    if kind.is_new_event() {
        return Arc::new(events::from_core(stored));
    }
    if stored["apiVersion"] == version.as_str() && stored["kind"] == kind.kind.as_str() {
        return stored.clone();
    }
    let mut shown = Value::clone(stored);
    object(&mut shown).insert("apiVersion".to_owned(), version.into());
    object(&mut shown).insert("kind".to_owned(), kind.kind.as_str().into());
    Arc::new(shown)
}

/// Converts a body of this kind to its stored form.
pub fn decode(request: &Request, mut body: Value) -> Result<Value, DecodeError> {
    let kind = &request.kind;
    for (field, value) in [
        ("apiVersion", kind.api_version()),
        ("kind", kind.kind.clone()),
    ] {
        default(object(&mut body), field, value);
    }
    check_type(kind, &body)?;
    let decoded = typed::decode(kind, body).map_err(DecodeError::Type)?;
    if request.strict() && !decoded.unknown.is_empty() {
        let fields: Vec<_> = decoded
            .unknown
            .iter()
            .map(|field| format!("unknown field {field:?}"))
            .collect();
        return Err(DecodeError::Type(format!(
            "strict decoding error: {}",
            fields.join(", ")
        )));
    }
    let mut stored = if kind.is_new_event() {
        events::to_core(&decoded.object)
    } else {
        decoded.object
    };
    if kind.is_core("events") {
        events::complete(object(&mut stored));
    }
    child(&mut stored, "metadata").remove("managedFields");
    Ok(stored)
}

/// The reason why a body could not be decoded.
pub enum DecodeError {
    /// The kind differs from that of the path.
    Kind(String),
    /// A field of the wrong type, or an unknown one under strict validation.
    Type(String),
}

impl DecodeError {
    /// Returns the answer to a create or an update.
    pub fn of_body(self, kind: &Kind) -> ApiError {
        match self {
            Self::Kind(message) => ApiError::bad_request(message),
            Self::Type(why) => {
                let (name, version) = (&kind.kind, &kind.version);
                ApiError::bad_request(format!(
                    "{name} in version {version:?} cannot be handled as a {name}: {why}"
                ))
            }
        }
    }

    /// Returns the answer to a patch, whose result was `patched`.
    pub fn of_patch(self, patched: &Value) -> ApiError {
        let (Self::Kind(why) | Self::Type(why)) = self;
        let text = Value::from(patched.to_string());
        let error = FieldError::invalid("patch", &text, &why);
        ApiError::invalid("", "", "", &[error])
    }
}

fn check_type(kind: &Kind, body: &Value) -> Result<(), DecodeError> {
    let (version, name) = (text(body, "/apiVersion"), text(body, "/kind"));
    if version == kind.api_version() && name == kind.kind {
        return Ok(());
    }
    let (from, to) = (
        version.rsplit('/').next().unwrap_or_default(),
        kind.group.split('.').next().unwrap_or_default(),
    );
    let to = if to.is_empty() { "core" } else { to };
    let what = format!(
        "{name} in version {from:?} cannot be handled as a {0}",
        kind.kind
    );
    Err(DecodeError::Kind(format!(
        "{what}: converting ({from}.{name}) to ({to}.{}): unknown conversion",
        kind.kind
    )))
}
