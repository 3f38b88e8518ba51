//! The requests that the server has received, for tests that count them.

use serde_json::Value;

use crate::apiserver::request::{Request, Verb};

/// One request as it arrived, including those that met faults, and retries.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The verb of the request.
    pub verb: Verb,
    /// The plural name of the resource.
    pub resource: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The namespace; empty if there is none.
    pub namespace: String,
    /// The name; empty if there is none.
    pub name: String,
    /// The subresource; empty if there is none.
    pub subresource: String,
    /// The body; null if there was none or it was not JSON.
    pub body: Value,
    /// The media type of the body.
    pub content_type: String,
    /// The `Accept` header.
    pub accept: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The field selector.
    pub field_selector: String,
    /// The `resourceVersion` parameter.
    pub resource_version: String,
    /// The `limit` parameter.
    pub limit: String,
}

impl Recorded {
    /// Records a request.
    pub fn of(request: &Request) -> Self {
        Self {
            verb: request.verb,
            resource: request.kind.resource.clone(),
            group: request.kind.group.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            subresource: request.subresource.clone(),
            body: serde_json::from_slice(&request.body).unwrap_or(Value::Null),
            content_type: request.content_type.clone(),
            accept: request.accept.clone(),
            user_agent: request.user_agent.clone(),
            field_selector: request.query.get("fieldSelector").to_owned(),
            resource_version: request.query.get("resourceVersion").to_owned(),
            limit: request.query.get("limit").to_owned(),
        }
    }

    /// Returns true if the request may have changed something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }
}
