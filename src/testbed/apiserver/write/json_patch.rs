//! JSON patches, with the quirks of the real server's library.

use serde_json::Value;

use crate::apiserver::objects::json::{object, text};
use crate::apiserver::objects::status::ApiError;

/// The maximum number of operations in one JSON patch.
const MAX_OPERATIONS: usize = 10_000;

/// Runs the operations of a patch one after another.
pub fn json_patch(target: &mut Value, body: &Value) -> Result<(), ApiError> {
    let Some(operations) = body.as_array() else {
        return Err(ApiError::undecodable_patch(
            "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    for operation in operations {
        // In the real server's library, a test for null succeeds if there is no value.
        let operation = &with_plain_indices(target, operation);
        let absent = operation["op"] == "test"
            && operation["value"].is_null()
            && target.pointer(text(operation, "/path")).is_none();
        if !absent {
            run_operation(target, operation)?;
        }
    }
    Ok(())
}

fn run_operation(target: &mut Value, operation: &Value) -> Result<(), ApiError> {
    let mut operation = operation.clone();
    if matches!(operation["op"].as_str(), Some("add" | "replace" | "test")) {
        object(&mut operation).entry("value").or_insert(Value::Null);
    }
    // The real server's library also replaces missing members of objects.
    if operation["op"] == "replace" && is_new_member(target, text(&operation, "/path")) {
        operation["op"] = "add".into();
    }
    let operation =
        serde_json::from_value(operation).map_err(|_| ApiError::unprocessable_patch())?;
    ::json_patch::patch(target, &[operation]).map_err(|_| ApiError::unprocessable_patch())
}

/// Normalises indices: the real library counts negative ones from the end and reads `00` as 0.
fn with_plain_indices(target: &Value, operation: &Value) -> Value {
    let mut plain = operation.clone();
    for field in ["path", "from"] {
        let adds = field == "path" && matches!(text(operation, "/op"), "add" | "copy" | "move");
        if let Some(path) = operation[field].as_str() {
            plain[field] = plain_path(target, path, adds).into();
        }
    }
    plain
}

fn plain_path(target: &Value, path: &str, adds: bool) -> String {
    let mut plain = String::new();
    let count = path.split('/').count();
    for (place, segment) in path.split('/').enumerate().skip(1) {
        let items = target.pointer(&plain).and_then(Value::as_array);
        let end = items.map_or(0, Vec::len) + usize::from(adds && place + 1 == count);
        let index = items.and_then(|_| segment.parse::<i64>().ok());
        let index = index.map(|index| {
            if index < 0 {
                index + i64::try_from(end).unwrap_or(i64::MAX)
            } else {
                index
            }
        });
        plain.push('/');
        plain.push_str(&index.map_or_else(|| segment.to_owned(), |index| index.to_string()));
    }
    if path.starts_with('/') {
        plain
    } else {
        path.to_owned()
    }
}

fn is_new_member(target: &Value, path: &str) -> bool {
    let parent = path
        .rsplit_once('/')
        .and_then(|(parent, _)| target.pointer(parent));
    parent.is_some_and(Value::is_object) && target.pointer(path).is_none()
}
