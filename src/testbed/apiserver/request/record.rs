//! What has been asked of the server, for tests that count requests.

use serde_json::Value;

use crate::apiserver::request::{Request, Verb};

/// One request as it arrived, faults and retries included.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// What it wanted to do.
    pub verb: Verb,
    /// Plural name of the resource.
    pub resource: String,
    /// API group.
    pub group: String,
    /// Namespace or empty.
    pub namespace: String,
    /// Name or empty.
    pub name: String,
    /// Subresource or empty.
    pub subresource: String,
    /// The body, null if there was none or it was no JSON.
    pub body: Value,
    /// Media type of the body.
    pub content_type: String,
    /// The media types that the client wants.
    pub accept: String,
    /// Who the client said it was.
    pub user_agent: String,
    /// The fields it selected by.
    pub field_selector: String,
    /// The resourceVersion it named.
    pub resource_version: String,
    /// How many objects it wanted at most.
    pub limit: String,
}

impl Recorded {
    /// Notes a request.
    #[must_use]
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

    /// Whether it may have changed something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }
}
