//! The checks of every write, and its result.

use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::objects::json::{list, text};
use crate::apiserver::objects::status::{ApiError, FieldError};
use crate::apiserver::request::Request;

/// A stored object and the HTTP status that goes with it.
pub type Written = (Arc<Value>, u16);

/// Returns 422 with all errors, if there are any.
pub fn refuse_invalid(
    request: &Request,
    name: &str,
    errors: &[FieldError],
) -> Result<(), ApiError> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(
            request.kind.storage_group(),
            &request.kind.kind,
            name,
            errors,
        ))
    }
}

/// Checks that the name of the object is that of the path.
pub fn check_name(request: &Request, new: &Value) -> Result<(), ApiError> {
    let name = text(new, "/metadata/name");
    if name.is_empty() {
        let message = format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            request.name
        );
        return Err(ApiError::bad_request(message));
    }
    if name != request.name {
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.name
        );
        return Err(ApiError::bad_request(message));
    }
    let namespace = text(new, "/metadata/namespace");
    if !namespace.is_empty() && namespace != request.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Checks that the uid in the object, if any, is that of the stored one.
pub fn check_uid(request: &Request, new: &Value, old: &Value) -> Result<(), ApiError> {
    let (asked, is) = (text(new, "/metadata/uid"), text(old, "/metadata/uid"));
    if asked.is_empty() || asked == is {
        return Ok(());
    }
    let key = format!(
        "/registry/{}/{}/{}",
        request.kind.resource, request.namespace, request.name
    );
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {is}"
    );
    Err(ApiError::conflict(
        &request.kind.group,
        &request.kind.resource,
        &request.name,
        &why,
    ))
}

/// Checks that the resourceVersion in the object, if any, is the latest.
pub fn check_version(request: &Request, new: &Value, old: &Value) -> Result<(), ApiError> {
    let asked = text(new, "/metadata/resourceVersion");
    if asked.is_empty() || asked == text(old, "/metadata/resourceVersion") {
        return Ok(());
    }
    Err(ApiError::modified(
        &request.kind.group,
        &request.kind.resource,
        &request.name,
    ))
}

/// Returns true for a deleted object without finalizers and grace.
pub fn is_released(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let waiting = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    metadata.get("deletionTimestamp").is_some()
        && !waiting
        && list(metadata, "/finalizers").is_empty()
        && object["spec"].get("finalizers").is_none()
}
