//! The rules that select requests for faults.

use super::effect::Effect;
use crate::apiserver::request::{Request, Verb};

/// A fault, the requests that it hits, and how often. Criteria that are not set match everything.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) effect: Effect,
    outside: Option<String>,
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    user_agent: Option<String>,
    field_selector: Option<String>,
    body: Option<String>,
    pub(super) after: usize,
    pub(super) times: usize,
}

impl Rule {
    /// Returns a rule that hits every request, always.
    pub fn new(effect: impl Into<Effect>) -> Self {
        Self {
            effect: effect.into(),
            outside: None,
            verb: None,
            resource: None,
            namespace: None,
            name: None,
            subresource: None,
            user_agent: None,
            field_selector: None,
            body: None,
            after: 0,
            times: usize::MAX,
        }
    }

    /// Limits the rule to paths outside of the resources, such as those of discovery, that begin with
    /// this. They can only be replied to.
    #[must_use]
    pub fn outside(mut self, start: &str) -> Self {
        self.outside = Some(start.to_owned());
        self
    }

    /// Limits the rule to this verb.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Limits the rule to this resource (plural name).
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Limits the rule to this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Limits the rule to objects of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Limits the rule to this subresource; empty for the resource itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Limits the rule to clients whose user agent contains this.
    #[must_use]
    pub fn user_agent(mut self, part: &str) -> Self {
        self.user_agent = Some(part.to_owned());
        self
    }

    /// Limits the rule to requests with a field selector that contains this.
    #[must_use]
    pub fn field_selector(mut self, part: &str) -> Self {
        self.field_selector = Some(part.to_owned());
        self
    }

    /// Limits the rule to requests whose body contains this.
    #[must_use]
    pub fn body(mut self, part: &str) -> Self {
        self.body = Some(part.to_owned());
        self
    }

    /// Lets the first `count` matching requests pass.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        self.after = count;
        self
    }

    /// Limits the rule to `count` hits.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.times = count;
        self
    }

    pub(super) fn matches_outside(&self, path: &str) -> bool {
        let start = self.outside.as_deref();
        start.is_some_and(|start| path.starts_with(start))
    }

    pub(super) fn matches(&self, request: &Request) -> bool {
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let body = || String::from_utf8_lossy(&request.body).into_owned();
        self.outside.is_none()
            && self.verb.is_none_or(|verb| verb == request.verb)
            && same(&self.resource, &request.kind.resource)
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
            && same(&self.subresource, &request.subresource)
            && self
                .user_agent
                .as_deref()
                .is_none_or(|part| request.user_agent.contains(part))
            && self
                .field_selector
                .as_deref()
                .is_none_or(|part| request.query.get("fieldSelector").contains(part))
            && self
                .body
                .as_deref()
                .is_none_or(|part| body().contains(part))
    }
}
