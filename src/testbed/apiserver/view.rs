//! The form of an answer that the client requested: objects, their metadata only, or tables.

mod pod;
mod printing;
mod table;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::objects::json::object;
use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::request::Request;
use crate::apiserver::storage::codec::show;
use crate::apiserver::storage::list::Page;
use table::{Include, metadata};

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The objects as they are.
    Objects,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `Table`
    Table(Include),
}

impl View {
    /// Parses the `Accept` header: its first known form counts.
    pub fn of(request: &Request) -> Self {
        let forms = request.accept.split(',').map(str::trim);
        let known = forms.filter_map(|form| match form {
            form if form.contains("as=Table") => Some(Self::Table(Include::read(
                request.query.get("includeObject"),
            ))),
            form if form.contains("as=PartialObjectMetadata") => Some(Self::Metadata),
            form if form.starts_with("application/json") || form.starts_with("*/*") => {
                Some(Self::Objects)
            }
            _ => None,
        });
        known.into_iter().next().unwrap_or(Self::Objects)
    }

    /// Renders one object. Only the first table of a watch has columns.
    pub fn one(self, kind: &Kind, object: &Arc<Value>, now: Timestamp, first: bool) -> Value {
        match self {
            _ if object["kind"] == "Status" => Value::clone(object),
            Self::Objects => Value::clone(object),
            Self::Metadata => metadata(object),
            Self::Table(with) => table::table(
                kind,
                std::slice::from_ref(object),
                now,
                with,
                first,
                &json!({"resourceVersion": object["metadata"]["resourceVersion"]}),
            ),
        }
    }

    /// Renders a list.
    pub fn many(self, kind: &Kind, page: &Page, now: Timestamp) -> Value {
        let shown: Vec<_> = page.items.iter().map(|object| show(kind, object)).collect();
        let list = list_metadata(page);
        match self {
            Self::Objects => {
                let items: Vec<_> = shown.iter().map(|object| bare(object)).collect();
                json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": list, "items": items})
            }
            Self::Metadata => {
                let items: Vec<_> = shown.iter().map(|object| metadata(object)).collect();
                json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list, "items": items})
            }
            Self::Table(with) => table::table(kind, &shown, now, with, true, &list),
        }
    }
}

fn list_metadata(page: &Page) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if !page.next.is_empty() {
        metadata["continue"] = page.next.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

/// Returns an item of a list, which does not repeat its type, except for custom resources.
fn bare(stored: &Value) -> Value {
    let custom = stored["apiVersion"].as_str().is_some_and(|version| {
        version.contains("kruise.io")
            || version
                .split('/')
                .next()
                .is_some_and(|group| group.contains('.') && !group.ends_with(".k8s.io"))
    });
    let mut item = stored.clone();
    if !custom {
        let map = object(&mut item);
        map.remove("apiVersion");
        map.remove("kind");
    }
    item
}
