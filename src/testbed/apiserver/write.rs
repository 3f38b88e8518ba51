//! Create, update and patch.

use std::sync::Arc;

use serde_json::Value;

use super::apply;
use super::json::{carry, child, default, list, object, text};
use super::request::Request;
use super::state::{State, decode, show};
use super::status::{ApiError, FieldError};
use super::store::Key;
use super::strategic;
use super::strategy::{self, Part};

/// A stored object and the HTTP status that goes with it.
pub type Written = (Arc<Value>, u16);

/// More operations than this in one JSON patch are refused.
const MAX_OPERATIONS: usize = 10_000;

impl State {
    /// POST.
    pub fn create(&mut self, request: &Request, body: Value) -> Result<Written, ApiError> {
        let new = decode(request, body).map_err(|error| error.of_body(&request.kind))?;
        if !text(&new, "/metadata/resourceVersion").is_empty() {
            return Err(ApiError::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.create_new(request, new)
    }

    fn create_new(&mut self, request: &Request, mut new: Value) -> Result<Written, ApiError> {
        let kind = request.kind.clone();
        self.place(request, &mut new)?;
        self.name(&mut new);
        if let Some(webhook) = self.webhook {
            webhook(&kind.resource, &mut new);
        }
        if kind.is_review() {
            // Everybody may do everything here, unless the webhook says otherwise.
            default(child(&mut new, "status"), "allowed", true);
            return Ok((Arc::new(new), 201));
        }
        self.stamp_new(&mut new);
        strategy::prepare_create(&kind, &mut new);
        let name = text(&new, "/metadata/name").to_owned();
        refuse_invalid(request, &name, &strategy::validate_create(&kind, &new))?;
        if let Some(there) = self.store.get(&kind.storage(), &Key::of(&new)) {
            let mut error = ApiError::already_exists(&kind.group, &kind.resource, &name);
            if there["metadata"].get("deletionTimestamp").is_some() {
                error.message.insert_str(0, "object is being deleted: ");
            }
            return Err(error);
        }
        if request.dry_run() {
            return Ok((Arc::new(new), 201));
        }
        if kind.is_crd() {
            self.serve_crd(&new);
        }
        Ok((self.store.put(&kind.storage(), new), 201))
    }

    /// Puts a new object into the namespace of the request, which must be there and stay.
    fn place(&self, request: &Request, new: &mut Value) -> Result<(), ApiError> {
        let metadata = child(new, "metadata");
        if !request.kind.namespaced {
            metadata.remove("namespace");
            return Ok(());
        }
        default(metadata, "namespace", request.namespace.as_str());
        if metadata["namespace"] != request.namespace.as_str() {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let namespace = self
            .store
            .get("namespaces", &Key::new("", &request.namespace));
        let namespace =
            namespace.ok_or_else(|| ApiError::not_found("", "namespaces", &request.namespace))?;
        if namespace["metadata"].get("deletionTimestamp").is_some() {
            return Err(terminating(request, text(new, "/metadata/name")));
        }
        Ok(())
    }

    fn name(&mut self, new: &mut Value) {
        let prefix = text(new, "/metadata/generateName").to_owned();
        if text(new, "/metadata/name").is_empty() && !prefix.is_empty() {
            // The suffix must fit into the 63 characters of a label.
            let cut = prefix
                .char_indices()
                .nth(58)
                .map_or(prefix.len(), |(index, _)| index);
            let name = format!("{}{}", &prefix[..cut], self.suffix());
            child(new, "metadata").insert("name".to_owned(), name.into());
        }
    }

    /// PUT.
    pub fn replace(&mut self, request: &Request, body: Value) -> Result<Written, ApiError> {
        let new = decode(request, body).map_err(|error| error.of_body(&request.kind))?;
        check_name(request, &new)?;
        if request.kind.created_by_update()
            && request.subresource.is_empty()
            && self.current(request).is_err()
        {
            check_uid(request, &new, &Value::Null)?;
            return self.create_new(request, new);
        }
        let old = self.current(request)?;
        check_uid(request, &new, &old)?;
        self.change(request, &old, new)
    }

    /// PATCH in all its forms.
    pub fn patch(&mut self, request: &Request) -> Result<Written, ApiError> {
        match request.content_type.split(';').next().unwrap_or_default() {
            "application/json-patch+json" => self.patch_with(request, json_patch),
            "application/merge-patch+json" => self.patch_with(request, merge_patch),
            "application/strategic-merge-patch+json" => self.patch_with(request, strategic_patch),
            "application/apply-patch+yaml" => apply::apply(self, request),
            _ => Err(ApiError::unsupported_media_type()),
        }
    }

    fn patch_with(
        &mut self,
        request: &Request,
        with: fn(&mut Value, &Request) -> Result<(), ApiError>,
    ) -> Result<Written, ApiError> {
        let old = self.current(request)?;
        let mut patched = Value::clone(&show(&request.kind, &old));
        with(&mut patched, request)?;
        self.finish_patch(request, &old, patched)
    }

    /// Decodes and stores what a patch has made of an object.
    pub fn finish_patch(
        &mut self,
        request: &Request,
        old: &Arc<Value>,
        patched: Value,
    ) -> Result<Written, ApiError> {
        let new = decode(request, patched.clone()).map_err(|error| error.of_patch(&patched))?;
        check_name(request, &new)?;
        self.change(request, old, new)
    }

    /// The common end of all updates.
    fn change(
        &mut self,
        request: &Request,
        old: &Arc<Value>,
        mut new: Value,
    ) -> Result<Written, ApiError> {
        let kind = request.kind.clone();
        let part = if request.subresource == "status" {
            Part::Status
        } else {
            Part::Main
        };
        check_version(request, &new, old)?;
        keep_metadata(&mut new, old);
        strategy::prepare_update(&kind, part, &mut new, old);
        refuse_invalid(
            request,
            &request.name,
            &strategy::validate_update(&kind, part, &new, old),
        )?;
        if new == **old {
            return Ok((old.clone(), 200));
        }
        if request.dry_run() {
            return Ok((Arc::new(new), 200));
        }
        if kind.is_crd() {
            self.serve_crd(&new);
        }
        if is_released(&new) {
            // Watches see the last stored state, finalizer and all.
            self.remove(&kind.storage(), Value::clone(old));
            return Ok((Arc::new(new), 200));
        }
        let stored = self.store.put(&kind.storage(), new);
        self.collect_garbage(&kind.storage(), &Key::of(&stored));
        Ok((stored, 200))
    }

    /// `pods/binding`: the scheduler's write.
    pub fn bind(&mut self, request: &Request, body: &Value) -> Result<Written, ApiError> {
        if text(body, "/target/name").is_empty() {
            return Err(ApiError::new(500, "", "target.name: Required value"));
        }
        let old = self.current(request)?;
        if let Some(why) = unbindable(&old) {
            let why = format!("pod {} {why}", request.name);
            return Err(ApiError::conflict("", "pods/binding", &request.name, &why));
        }
        let mut new = Value::clone(&old);
        child(&mut new, "spec").insert("nodeName".to_owned(), text(body, "/target/name").into());
        schedule_condition(&mut new, &self.now());
        self.store.put("pods", new);
        Ok((
            Arc::new(
                serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
            ),
            201,
        ))
    }
}

/// Why a pod cannot be assigned to a node.
fn unbindable(pod: &Value) -> Option<String> {
    let bound = text(pod, "/spec/nodeName");
    if pod["metadata"].get("deletionTimestamp").is_some() {
        return Some("is being deleted, cannot be assigned to a host".to_owned());
    }
    if !bound.is_empty() {
        return Some(format!("is already assigned to node {bound:?}"));
    }
    let gated = !list(pod, "/spec/schedulingGates").is_empty();
    gated.then(|| "has non-empty .spec.schedulingGates".to_owned())
}

fn schedule_condition(pod: &mut Value, now: &str) {
    let condition = serde_json::json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let conditions = child(pod, "status")
        .entry("conditions")
        .or_insert_with(|| serde_json::json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(condition);
    }
}

fn terminating(request: &Request, name: &str) -> ApiError {
    let namespace = &request.namespace;
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut error = ApiError::forbidden(&request.kind.group, &request.kind.resource, name, &why);
    let cause = format!("namespace {namespace} is being terminated");
    error.details["causes"] = serde_json::json!([{"reason": "NamespaceTerminating", "message": cause, "field": "metadata.namespace"}]);
    error
}

fn refuse_invalid(request: &Request, name: &str, errors: &[FieldError]) -> Result<(), ApiError> {
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

fn check_name(request: &Request, new: &Value) -> Result<(), ApiError> {
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

fn check_uid(request: &Request, new: &Value, old: &Value) -> Result<(), ApiError> {
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

fn check_version(request: &Request, new: &Value, old: &Value) -> Result<(), ApiError> {
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

/// Puts back the metadata that no update may change; uid and creation time only where they were
/// left out.
fn keep_metadata(new: &mut Value, old: &Value) {
    let (metadata, old) = (child(new, "metadata"), &old["metadata"]);
    for field in ["generation", "resourceVersion"] {
        carry(metadata, old, field);
    }
    if old.get("deletionTimestamp").is_some() {
        carry(metadata, old, "deletionTimestamp");
    }
    for field in [
        "uid",
        "creationTimestamp",
        "name",
        "namespace",
        "generateName",
        "deletionGracePeriodSeconds",
    ] {
        if metadata.get(field).is_none_or(Value::is_null) {
            carry(metadata, old, field);
        }
    }
}

/// A deleted object that nothing holds any more.
pub fn is_released(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let waiting = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    metadata.get("deletionTimestamp").is_some()
        && !waiting
        && list(metadata, "/finalizers").is_empty()
        && object["spec"].get("finalizers").is_none()
}

fn json_patch(target: &mut Value, request: &Request) -> Result<(), ApiError> {
    let body: Value = serde_json::from_slice(&request.body)
        .map_err(|error| undecodable(&super::request::unparsed(&error)))?;
    let Some(operations) = body.as_array() else {
        return Err(undecodable(
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
        // The real server's library takes a test for null to hold where there is nothing.
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
    // The real server's library replaces members of objects also where they are missing.
    if operation["op"] == "replace" && is_new_member(target, text(&operation, "/path")) {
        operation["op"] = "add".into();
    }
    let operation =
        serde_json::from_value(operation).map_err(|_| ApiError::unprocessable_patch())?;
    json_patch::patch(target, &[operation]).map_err(|_| ApiError::unprocessable_patch())
}

/// The real server's library counts negative indices from the end and reads `00` as 0.
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

fn undecodable(why: &str) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn merge_patch(target: &mut Value, request: &Request) -> Result<(), ApiError> {
    let patch: Value = serde_json::from_slice(&request.body)
        .map_err(|error| undecodable(&super::request::unparsed(&error)))?;
    if !patch.is_object() {
        return Err(undecodable(
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ));
    }
    json_patch::merge(target, &patch);
    Ok(())
}

fn strategic_patch(target: &mut Value, request: &Request) -> Result<(), ApiError> {
    if super::typed::is_untyped(&request.kind) {
        return Err(ApiError::unsupported_media_type());
    }
    let patch: Value = serde_json::from_slice(&request.body)
        .map_err(|error| undecodable(&super::request::unparsed(&error)))?;
    strategic::apply(target, &patch)
}
