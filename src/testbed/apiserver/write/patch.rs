//! The patch verb, in the form of its media type.

use serde_json::Value;

use super::checks::Written;
use super::json_patch::json_patch;
use super::{apply, strategic};
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::objects::typed;
use crate::apiserver::request::Request;
use crate::apiserver::storage::codec::show;
use crate::apiserver::storage::state::State;

impl State {
    /// Handles a PATCH of any media type.
    pub fn patch(&mut self, request: &Request) -> Result<Written, ApiError> {
        match request.content_type.split(';').next().unwrap_or_default() {
            "application/json-patch+json" => self.patch_with(request, operations),
            "application/merge-patch+json" => self.patch_with(request, merge_patch),
            "application/strategic-merge-patch+json" => self.patch_with(request, strategic_patch),
            "application/apply-patch+yaml" => apply::apply(self, request),
            _ => Err(ApiError::unsupported_media_type()),
        }
    }

    fn patch_with(
        &mut self,
        request: &Request,
        with: fn(&mut Value, &Value, &Request) -> Result<(), ApiError>,
    ) -> Result<Written, ApiError> {
        // From 1.37 on before anything else, for the audit log (`validateAndTranscodePatch`).
        let patch = serde_json::from_slice(&request.body)
            .map_err(|_| ApiError::bad_request("invalid JSON patch"))?;
        let old = self.current(request)?;
        let mut patched = Value::clone(&show(&request.kind, &old));
        with(&mut patched, &patch, request)?;
        self.finish_patch(request, &old, patched)
    }
}

fn operations(target: &mut Value, patch: &Value, _: &Request) -> Result<(), ApiError> {
    json_patch(target, patch)
}

fn merge_patch(target: &mut Value, patch: &Value, _: &Request) -> Result<(), ApiError> {
    if !patch.is_object() {
        return Err(ApiError::undecodable_patch(
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ));
    }
    ::json_patch::merge(target, patch);
    Ok(())
}

fn strategic_patch(target: &mut Value, patch: &Value, request: &Request) -> Result<(), ApiError> {
    if typed::is_untyped(&request.kind) {
        return Err(ApiError::unsupported_media_type());
    }
    strategic::apply(target, patch)
}
