//! Lists, in pages and from any version that is not compacted.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::objects::status::{ApiError, FieldError};
use crate::apiserver::request::selector::Selector;
use crate::apiserver::request::{Query, Request};
use crate::apiserver::storage::state::State;
use crate::apiserver::storage::store::Key;

/// A list, or a page of one.
#[derive(Debug)]
pub struct Page {
    /// The objects in their stored form.
    pub items: Vec<Arc<Value>>,
    /// The revision of the whole list.
    pub revision: u64,
    /// The token of the next page; empty on the last one.
    pub next: String,
    /// The number of objects after this page, if it is known.
    pub remaining: Option<usize>,
}

/// Parses the selector of a list, watch or deletion of many.
pub fn selector(request: &Request) -> Result<Selector, ApiError> {
    let (labels, fields) = (
        request.query.get("labelSelector"),
        request.query.get("fieldSelector"),
    );
    Selector::parse(&request.kind, &request.namespace, labels, fields)
}

impl State {
    /// Handles a LIST. `pinned` selects an older revision.
    pub fn list(&self, request: &Request, pinned: Option<u64>) -> Result<Page, ApiError> {
        let selector = selector(request)?;
        let limit = request
            .query
            .number("limit")?
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(0);
        let (revision, start) = self.start(&request.query, pinned)?;
        let storage = request.kind.storage();
        let all = match revision {
            revision if revision == self.store.revision() => self
                .store
                .all(&storage)
                .map(|(key, object)| (key.clone(), object.clone()))
                .collect(),
            revision => self
                .store
                .at(&storage, revision)
                .ok_or_else(|| self.too_old(start.is_some()))?,
        };
        let matching: Vec<_> = after(&all, start.as_ref())
            .filter(|(_, object)| selector.matches(object))
            .collect();
        Ok(page(
            &matching,
            limit,
            revision,
            request.query.get("labelSelector").is_empty()
                && request.query.get("fieldSelector").is_empty(),
        ))
    }

    /// Returns the revision of a list, and the key after which it starts.
    fn start(&self, query: &Query, pinned: Option<u64>) -> Result<(u64, Option<Key>), ApiError> {
        let exact = query.get("resourceVersionMatch") == "Exact";
        let version = query.get("resourceVersion");
        if !query.get("continue").is_empty() {
            return token(query.get("continue")).map(|(revision, key)| (revision, Some(key)));
        }
        if version.is_empty() && !query.get("resourceVersionMatch").is_empty() {
            return Err(refuse_option(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        let asked = parse_version(version)
            .map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?;
        if asked > self.store.revision() {
            return Err(ApiError::future_version(asked, self.store.revision()));
        }
        Ok((
            pinned.unwrap_or(if exact { asked } else { self.store.revision() }),
            None,
        ))
    }

    fn too_old(&self, continued: bool) -> ApiError {
        if !continued {
            return ApiError::expired("The resourceVersion for the provided list is too old.");
        }
        let mut error = ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
        );
        error.resume = None;
        error
    }
}

fn after<'a>(
    all: &'a BTreeMap<Key, Arc<Value>>,
    start: Option<&'a Key>,
) -> Box<dyn Iterator<Item = (&'a Key, &'a Arc<Value>)> + 'a> {
    use std::ops::Bound::{Excluded, Unbounded};
    match start {
        Some(key) => Box::new(all.range((Excluded(key), Unbounded))),
        None => Box::new(all.iter()),
    }
}

fn page(matching: &[(&Key, &Arc<Value>)], limit: usize, revision: u64, whole: bool) -> Page {
    let shown = if limit == 0 {
        matching
    } else {
        &matching[..limit.min(matching.len())]
    };
    let left = matching.len() - shown.len();
    let next = shown
        .last()
        .filter(|_| left > 0)
        .map_or_else(String::new, |(key, _)| {
            format!("{revision}~{}~{}", key.namespace, key.name)
        });
    // With a selector the real server does not know how many are left.
    let remaining = (left > 0 && whole).then_some(left);
    Page {
        items: shown.iter().map(|(_, object)| Arc::clone(object)).collect(),
        revision,
        next,
        remaining,
    }
}

fn token(text: &str) -> Result<(u64, Key), ApiError> {
    let parts: Vec<_> = text.split('~').collect();
    let refuse = || {
        ApiError::bad_request(
            "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value",
        )
    };
    match parts.as_slice() {
        [revision, namespace, name] => Ok((
            revision.parse().map_err(|_| refuse())?,
            Key::new(namespace, name),
        )),
        _ => Err(refuse()),
    }
}

/// Parses a resourceVersion; empty counts as zero.
pub fn parse_version(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"))
}

/// Returns 422 for an option, or a combination of options, of a list or watch.
pub fn refuse_option(option: &str, why: &str) -> ApiError {
    ApiError::invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[FieldError::forbidden(option, why)],
    )
}
