//! One request, as a sequence says it: what each server gives itself is left open.
//!
//! In names, queries and bodies stand `§` for the prefix of all names of a run, and `{uid}`,
//! `{version}`, `{stale}` for the uid and for the latest and the first version that this server has
//! told of the object; `{listed}` for the version of its last list.

use std::fmt::{self, Display};

use serde_json::Value;

/// The resources that sequences use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    Pods,
    Jobs,
    ConfigMaps,
    Leases,
    CoreEvents,
    Events,
}

impl Resource {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Jobs => "jobs",
            Self::ConfigMaps => "configmaps",
            Self::Leases => "leases",
            Self::CoreEvents => "events",
            Self::Events => "events.k8s.io",
        }
    }

    /// Where it is served.
    pub fn path(self, namespace: &str) -> String {
        let (api, resource) = match self {
            Self::Pods => ("api/v1", "pods"),
            Self::Jobs => ("apis/batch/v1", "jobs"),
            Self::ConfigMaps => ("api/v1", "configmaps"),
            Self::Leases => ("apis/coordination.k8s.io/v1", "leases"),
            Self::CoreEvents => ("api/v1", "events"),
            Self::Events => ("apis/events.k8s.io/v1", "events"),
        };
        format!("/{api}/namespaces/{namespace}/{resource}")
    }
}

pub const JSON: &str = "application/json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// One request.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What is done, as reports say it.
    pub verb: &'static str,
    pub method: &'static str,
    pub resource: Resource,
    /// Empty for requests that concern no single object.
    pub name: String,
    /// Empty, or a subresource.
    pub subresource: &'static str,
    pub query: String,
    pub content: &'static str,
    pub body: Value,
    /// Whether the body is this server's latest state of the object, changed: pointers and what is
    /// set there, null to remove it.
    pub edits: bool,
}

impl Operation {
    pub fn new(verb: &'static str, method: &'static str, resource: Resource, name: &str) -> Self {
        let (name, query) = (name.to_owned(), String::new());
        Self {
            verb,
            method,
            resource,
            name,
            subresource: "",
            query,
            content: JSON,
            body: Value::Null,
            edits: false,
        }
    }

    pub fn create(resource: Resource, body: Value) -> Self {
        Self {
            body,
            ..Self::new("create", "POST", resource, "")
        }
    }

    pub fn get(resource: Resource, name: &str) -> Self {
        Self::new("get", "GET", resource, name)
    }

    pub fn list(resource: Resource, query: &str) -> Self {
        Self {
            query: query.to_owned(),
            ..Self::new("list", "GET", resource, "")
        }
    }

    /// A list in pages of two, from the first to the last.
    pub fn pages(resource: Resource) -> Self {
        let query = "labelSelector=run%3D§run&limit=2".to_owned();
        Self {
            query,
            ..Self::new("pages", "GET", resource, "")
        }
    }

    pub fn patch(content: &'static str, resource: Resource, name: &str, body: Value) -> Self {
        let verb = content
            .strip_prefix("application/")
            .and_then(|kind| kind.split_once("+json"))
            .unwrap()
            .0;
        Self {
            content,
            body,
            ..Self::new(verb, "PATCH", resource, name)
        }
    }

    /// PUT of what was there, changed.
    pub fn update(resource: Resource, name: &str, edits: Value) -> Self {
        Self {
            body: edits,
            edits: true,
            ..Self::new("update", "PUT", resource, name)
        }
    }

    pub fn delete(resource: Resource, name: &str, query: &str, body: Value) -> Self {
        Self {
            query: query.to_owned(),
            body,
            ..Self::new("delete", "DELETE", resource, name)
        }
    }

    /// The same on the status.
    pub fn on_status(self) -> Self {
        Self {
            subresource: "status",
            ..self
        }
    }

    /// What it is called in the list of known differences.
    pub fn label(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!(
            "{} {}{slash}{}",
            self.verb,
            self.resource.name(),
            self.subresource
        )
    }
}

impl Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.label(), self.name)?;
        if !self.query.is_empty() {
            write!(out, " ?{}", self.query)?;
        }
        if self.body.is_null() {
            Ok(())
        } else {
            write!(out, " {}", self.body)
        }
    }
}

/// A watch of everything that a sequence did.
#[derive(Clone, Debug)]
pub struct Watch {
    pub resource: Resource,
    pub query: &'static str,
}

impl Display for Watch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "watch {} ?{}", self.resource.name(), self.query)
    }
}
