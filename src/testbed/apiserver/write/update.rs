//! The update verb, and the common end of updates and patches.

use std::sync::Arc;

use serde_json::Value;

use super::checks::{Written, check_name, check_uid, check_version, is_released, refuse_invalid};
use crate::apiserver::objects::json::{carry, child};
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::request::Request;
use crate::apiserver::storage::codec::decode;
use crate::apiserver::storage::state::State;
use crate::apiserver::storage::store::Key;
use crate::apiserver::strategy::{self, Part};

impl State {
    /// Handles a PUT.
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

    /// Decodes and stores the result of a patch.
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

    /// Stores the new state; the common end of all updates.
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
        if let Some(webhook) = self.update_webhook {
            webhook(&kind.resource, old, &mut new);
        }
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
            // Watches show the last stored state, including its finalizer.
            self.remove(&kind.storage(), Value::clone(old));
            return Ok((Arc::new(new), 200));
        }
        let stored = self.store.put(&kind.storage(), new);
        self.collect_garbage(&kind.storage(), &Key::of(&stored));
        Ok((stored, 200))
    }
}

/// Restores the metadata that no update may change; uid and creation time only if they were left
/// out.
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
