//! The `Status` objects of errors, worded as the real server words them.

use serde_json::{Map, Value, json};

/// An error of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason; empty where the real server sends none.
    pub reason: &'static str,
    /// The text for people.
    pub message: String,
    /// `details` of the status object, null for none.
    pub details: Value,
    /// The token to continue the list with after all.
    pub resume: Option<String>,
}

/// An error of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    kind: &'static str,
    field: String,
    message: String,
}

impl FieldError {
    fn new(kind: &'static str, field: impl Into<String>, message: String) -> Self {
        Self {
            kind,
            field: field.into(),
            message,
        }
    }

    /// Returns the error for a missing required field.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let tail = if detail.is_empty() {
            String::new()
        } else {
            format!(": {detail}")
        };
        Self::new("FieldValueRequired", field, format!("Required value{tail}"))
    }

    /// Returns the error for a value that breaks a rule.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {value}: {detail}"),
        )
    }

    /// Returns the error for a value that must be unique and is not.
    pub fn duplicate(field: impl Into<String>, value: &str) -> Self {
        Self::new(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {value:?}"),
        )
    }

    /// Returns the error for a reference to something that does not exist.
    pub fn not_found(field: impl Into<String>, value: &str) -> Self {
        Self::new("FieldValueNotFound", field, format!("Not found: {value:?}"))
    }

    /// Returns the error for a value outside a closed list.
    pub fn unsupported(field: impl Into<String>, value: &str, allowed: &[&str]) -> Self {
        let allowed: Vec<_> = allowed.iter().map(|value| format!("{value:?}")).collect();
        let message = format!(
            "Unsupported value: {value:?}: supported values: {}",
            allowed.join(", ")
        );
        Self::new("FieldValueNotSupported", field, message)
    }

    /// Returns the error for a change that is never allowed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    /// Returns the error for a change of an immutable field.
    pub fn immutable(field: impl Into<String>, value: &Value) -> Self {
        Self::invalid(field, value, "field is immutable")
    }

    fn line(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }

    fn cause(&self) -> Value {
        json!({"reason": self.kind, "message": self.message, "field": self.field})
    }
}

/// Returns the resource as the real server names it: `pods`, `jobs.batch`.
pub fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

fn details(group: &str, kind: &str, name: &str) -> Value {
    let parts = [("group", group), ("kind", kind), ("name", name)];
    parts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(field, text)| (field.to_owned(), Value::from(text)))
        .collect::<Map<_, _>>()
        .into()
}

impl ApiError {
    /// Returns an error with any code and reason, and empty `details`.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            resume: None,
        }
    }

    fn with(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// Returns 400 `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns 404 for an object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", group_resource(group, resource));
        Self::new(404, "NotFound", message).with(details(group, resource, name))
    }

    /// Returns 404 for a resource or subresource that does not exist.
    pub fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with(json!({}))
    }

    /// Returns 405 `MethodNotAllowed`.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with(json!({}))
    }

    /// Returns 415 `UnsupportedMediaType`.
    pub fn unsupported_media_type() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with(json!({}))
    }

    /// Returns 409 for a create.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!(
            "{} {name:?} already exists",
            group_resource(group, resource)
        );
        Self::new(409, "AlreadyExists", message).with(details(group, resource, name))
    }

    /// Returns 409 for an update.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            group_resource(group, resource)
        );
        Self::new(409, "Conflict", message).with(details(group, resource, name))
    }

    /// Returns 409 for a resourceVersion that is not the current one.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    /// Returns 403 `Forbidden`.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "{} {name:?} is forbidden: {why}",
            group_resource(group, resource)
        );
        Self::new(403, "Forbidden", message).with(details(group, resource, name))
    }

    /// Returns 422 for a patch that cannot be applied, a failed `test` included.
    pub fn unprocessable_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with(json!({}))
    }

    /// Returns 400 for a patch that cannot be decoded.
    pub fn undecodable_patch(why: &str) -> Self {
        Self::bad_request(format!("error decoding patch: {why}"))
    }

    /// Returns 410 for a version that was compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Returns 422 for an object with invalid fields.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut detail = details(group, kind, name);
        detail["causes"] = errors.iter().map(FieldError::cause).collect();
        let message = format!(
            "{} {name:?} is invalid: {}",
            group_resource(group, kind),
            aggregate(errors)
        );
        Self::new(422, "Invalid", message).with(detail)
    }

    /// Returns 504 for a list at a future version. A watch from there is open, and silent until the
    /// version is reached.
    pub fn future_version(asked: u64, current: u64) -> Self {
        let cause =
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", message).with(json!({"causes": cause, "retryAfterSeconds": 1}))
    }

    /// Returns the `Status` object.
    pub fn body(&self) -> Value {
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code});
        if let Some(resume) = &self.resume {
            body["metadata"]["continue"] = resume.as_str().into();
        }
        if !self.reason.is_empty() {
            body["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            body["details"] = self.details.clone();
        }
        body
    }
}

/// Joins errors into one line, each once, like the real server.
fn aggregate(errors: &[FieldError]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in errors.iter().map(FieldError::line) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    match lines.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Returns the answer to a delete that left nothing behind.
pub fn deleted(group: &str, resource: &str, name: &str, uid: &str) -> Value {
    let mut details = details(group, resource, name);
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
