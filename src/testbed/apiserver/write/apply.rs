//! Server-side apply, as far as simple controllers use it: create or merge, and removal of fields
//! that the same manager applied before and now leaves out. Ownership by other managers is not
//! tracked, so there are no conflicts.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::checks::Written;
use super::strategic;
use crate::apiserver::objects::json::object;
use crate::apiserver::objects::status::{ApiError, FieldError};
use crate::apiserver::objects::typed;
use crate::apiserver::request::{Request, Verb};
use crate::apiserver::storage::codec::show;
use crate::apiserver::storage::state::State;
use crate::apiserver::storage::store::Key;

/// Handles a `PATCH` with an apply body.
pub fn apply(state: &mut State, request: &Request) -> Result<Written, ApiError> {
    let manager = request.query.get("fieldManager");
    if manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            &[error],
        ));
    }
    let body = request.json().map_err(|error| {
        ApiError::bad_request(format!("error decoding YAML: {}", error.message))
    })?;
    let slot = (
        request.kind.storage(),
        Key::new(&request.namespace, &request.name),
        format!("{manager}/{}", request.subresource),
    );
    let before = state
        .applied
        .get(&slot)
        .cloned()
        .unwrap_or_else(|| json!({}));
    let written = match state.current(request) {
        Ok(old) => merge(state, request, &old, &before, &body)?,
        Err(missing) if !request.subresource.is_empty() => return Err(missing),
        Err(_) => create(state, request, body.clone())?,
    };
    if !request.dry_run() {
        state.applied.insert(slot, body);
    }
    Ok(written)
}

fn create(state: &mut State, request: &Request, mut body: Value) -> Result<Written, ApiError> {
    let metadata = object(object(&mut body).entry("metadata").or_insert(Value::Null));
    metadata.insert("name".to_owned(), request.name.as_str().into());
    let request = Request {
        verb: Verb::Create,
        ..request.clone()
    };
    state.create(&request, body)
}

fn merge(
    state: &mut State,
    request: &Request,
    old: &Arc<Value>,
    before: &Value,
    body: &Value,
) -> Result<Written, ApiError> {
    let mut patched = Value::clone(&show(&request.kind, old));
    if let Some(gone) = left_out(before, body) {
        json_patch::merge(&mut patched, &gone);
    }
    if typed::is_untyped(&request.kind) {
        json_patch::merge(&mut patched, body);
    } else {
        strategic::apply(&mut patched, body)?;
    }
    state.finish_patch(request, old, patched)
}

/// Returns a merge patch that removes the fields of `before` that `now` leaves out. Items of lists
/// are left alone.
fn left_out(before: &Value, now: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(now)) = (before, now) else {
        return None;
    };
    let gone = |(field, value): (&String, &Value)| match now.get(field) {
        None => Some((field.clone(), Value::Null)),
        Some(now) => left_out(value, now).map(|inner| (field.clone(), inner)),
    };
    let gone: Map<_, _> = before.iter().filter_map(gone).collect();
    (!gone.is_empty()).then_some(Value::Object(gone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_what_the_manager_leaves_out() {
        let before = json!({"data": {"a": "1", "b": "2"}, "x": {"y": 1}});
        assert_eq!(
            left_out(&before, &json!({"data": {"a": "3"}, "x": {"y": 2}})),
            Some(json!({"data": {"b": null}}))
        );
        assert_eq!(left_out(&before, &before), None);
    }
}
