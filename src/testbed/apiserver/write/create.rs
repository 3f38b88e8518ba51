//! The create verb.

use std::sync::Arc;

use serde_json::Value;

use super::checks::{Written, refuse_invalid};
use crate::apiserver::objects::json::{child, default, text};
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::request::Request;
use crate::apiserver::storage::codec::decode;
use crate::apiserver::storage::state::State;
use crate::apiserver::storage::store::Key;
use crate::apiserver::strategy;

impl State {
    /// Handles a POST.
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

    /// Stores a new, decoded object.
    pub(super) fn create_new(
        &mut self,
        request: &Request,
        mut new: Value,
    ) -> Result<Written, ApiError> {
        let kind = request.kind.clone();
        self.place(request, &mut new)?;
        self.name(&mut new);
        if let Some(webhook) = self.webhook {
            webhook(&kind.resource, &mut new);
        }
        if kind.is_review() {
            // Everything is allowed here, unless the webhook sets something else.
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

    /// Puts a new object into the namespace of the request, which must exist and not be ending.
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
