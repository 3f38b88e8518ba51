//! Requests, parsed from HTTP.

pub mod record;
pub mod selector;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::Value;

use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::objects::status::ApiError;

/// The verb of a request, in the words of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of many.
    List,
    /// GET of changes.
    Watch,
    /// POST of a new object.
    Create,
    /// PUT of an object.
    Update,
    /// PATCH of an object.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of many.
    DeleteCollection,
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// The parameters of the query string.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Parses a query string.
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(key, value)| (unescape(key), unescape(value)))
                .collect(),
        )
    }

    /// Returns one parameter; empty if it is absent.
    pub fn get(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_default()
    }

    /// Returns true if a parameter is true.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1" | "True")
    }

    /// Returns a parameter as a number; `None` if it is absent.
    pub fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        let text = self.get(key);
        if text.is_empty() {
            return Ok(None);
        }
        let refuse = || {
            ApiError::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))
        };
        text.parse().map(Some).map_err(|_| refuse())
    }
}

/// Decodes percent-encoding and `+`.
pub fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'%')
            .then(|| tail.get(..2).and_then(hex))
            .flatten();
        bytes.push(escaped.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A request for a resource.
#[derive(Clone, Debug)]
pub struct Request {
    /// The verb of the request.
    pub verb: Verb,
    /// The kind of its objects.
    pub kind: Arc<Kind>,
    /// The namespace; empty for all or none.
    pub namespace: String,
    /// The name of the object; empty for collections.
    pub name: String,
    /// `status`, `binding`, `log` or empty.
    pub subresource: String,
    /// The parameters of the query.
    pub query: Query,
    /// The media type of the body.
    pub content_type: String,
    /// The `Accept` header.
    pub accept: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The body as sent.
    pub body: Bytes,
}

impl Request {
    /// Parses the body as JSON; null if it is empty.
    pub fn json(&self) -> Result<Value, ApiError> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &serde_json::Error) -> ApiError {
        let why = unparsed(error);
        let text = String::from_utf8_lossy(&self.body);
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why} ({text})",
            self.kind.kind
        ))
    }

    /// Returns true if nothing may be stored.
    pub fn dry_run(&self) -> bool {
        !self.query.get("dryRun").is_empty()
    }

    /// Returns true if unknown fields are errors.
    pub fn strict(&self) -> bool {
        self.query.get("fieldValidation") == "Strict"
    }

    /// Returns 404 for its object.
    pub fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.kind.group, &self.kind.resource, &self.name)
    }
}

/// Describes why a text is not JSON, in the words of the real server if they are known.
fn unparsed(error: &serde_json::Error) -> String {
    if error.is_eof() {
        "unexpected end of JSON input".to_owned()
    } else {
        error.to_string()
    }
}

/// The meaning of a path.
#[derive(Debug)]
pub enum Path {
    /// Something outside the resources: discovery, version, health, schemas.
    Other,
    /// A resource, a collection or an object of it.
    Resource {
        /// The API group; empty for the core group.
        group: String,
        /// The version in the group.
        version: String,
        /// The plural name.
        resource: String,
        /// The namespace; empty if there is none.
        namespace: String,
        /// The name; empty if there is none.
        name: String,
        /// The subresource; empty if there is none.
        subresource: String,
    },
}

/// Parses a path.
pub fn path(path: &str) -> Path {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(unescape)
        .collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Path::Other,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Path {
    let (namespace, rest) = match rest {
        // A namespace has subresources of its own; everything else below it is a resource in it.
        ["namespaces", namespace, inner @ ..] if !matches!(inner, [] | ["status" | "finalize"]) => {
            (*namespace, inner)
        }
        _ => ("", rest),
    };
    let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
    if rest.is_empty() || rest.len() > 3 {
        return Path::Other;
    }
    Path::Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: part(0),
        namespace: namespace.to_owned(),
        name: part(1),
        subresource: part(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_queries() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&limit=5&fieldManager=x+y");
        assert_eq!(
            (
                query.get("labelSelector"),
                query.flag("watch"),
                query.get("fieldManager")
            ),
            ("a=b,c", true, "x y")
        );
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert!(Query::parse("limit=abc").number("limit").is_err());
    }

    #[test]
    fn tells_namespaces_from_what_is_in_them() {
        let parts = |text: &str| match path(text) {
            Path::Resource {
                resource,
                namespace,
                name,
                subresource,
                ..
            } => [resource, namespace, name, subresource],
            Path::Other => Default::default(),
        };
        assert_eq!(parts("/api/v1/namespaces/a"), ["namespaces", "", "a", ""]);
        assert_eq!(
            parts("/api/v1/namespaces/a/status"),
            ["namespaces", "", "a", "status"]
        );
        assert_eq!(
            parts("/api/v1/namespaces/a/pods/p/status"),
            ["pods", "a", "p", "status"]
        );
        assert_eq!(parts("/apis/batch/v1/jobs"), ["jobs", "", "", ""]);
    }
}
