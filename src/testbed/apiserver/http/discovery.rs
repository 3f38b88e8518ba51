//! Discovery, version, health and as much of OpenAPI as `kubectl` needs to leave validation to the
//! server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::storage::state::State;

/// The version that this server reports. Clients compare it with their own, so it is a real one.
const VERSION: (&str, &str, &str) = ("1", "37", "v1.37.2");

/// An answer outside the resources: JSON or plain text.
pub enum Answer {
    /// A JSON document.
    Json(Value),
    /// Plain text.
    Text(&'static str),
}

/// Returns the answer for a path; `None` if it is unknown.
pub fn answer(state: &State, path: &str) -> Option<Answer> {
    let segments: Vec<_> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let json = match segments.as_slice() {
        ["version"] => version(),
        ["healthz" | "livez" | "readyz", ..] => return Some(Answer::Text("ok")),
        ["api"] => core_versions(),
        ["apis"] => groups(state),
        ["apis", group] => group_of(state, group)?,
        ["api", version] => resources(state, "", version)?,
        ["apis", group, version] => resources(state, group, version)?,
        // An empty protobuf document: kubectl reads it for kinds that version 3 does not have, and
        // then reports itself that there is no such kind.
        ["openapi", "v2"] => return Some(Answer::Text("")),
        ["openapi", "v3"] => schemas(state),
        ["openapi", "v3", "api", version] => schema(state, "", version)?,
        ["openapi", "v3", "apis", group, version] => schema(state, group, version)?,
        _ => return None,
    };
    Some(Answer::Json(json))
}

fn version() -> Value {
    let (major, minor, git) = VERSION;
    json!({"major": major, "minor": minor, "gitVersion": git, "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "", "platform": ""})
}

fn core_versions() -> Value {
    let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]);
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
}

/// Returns the versions by group, without the core group.
fn versions(state: &State) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in state.kinds.iter().filter(|kind| !kind.group.is_empty()) {
        let versions = groups.entry(&kind.group).or_default();
        if !versions.contains(&kind.version.as_str()) {
            versions.push(&kind.version);
        }
    }
    groups
}

fn group(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn groups(state: &State) -> Value {
    let groups: Vec<_> = versions(state)
        .into_iter()
        .map(|(name, versions)| group(name, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group_of(state: &State, name: &str) -> Option<Value> {
    let mut found = group(name, versions(state).get(name)?);
    found["kind"] = "APIGroup".into();
    found["apiVersion"] = "v1".into();
    Some(found)
}

fn kinds<'a>(
    state: &'a State,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Arc<Kind>> {
    state
        .kinds
        .iter()
        .filter(move |kind| kind.group == group && kind.version == version)
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn resources(state: &State, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<_> = kinds(state, group, version)
        .flat_map(|kind| resource(kind))
        .collect();
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version(group, version), "resources": resources});
    (!resources.is_empty()).then_some(list)
}

fn resource(kind: &Kind) -> Vec<Value> {
    let verbs = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    let mut main = json!({"name": kind.resource, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind, "verbs": verbs});
    if !kind.short.is_empty() {
        main["shortNames"] = json!(kind.short);
    }
    if matches!(
        kind.resource.as_str(),
        "pods"
            | "jobs"
            | "cronjobs"
            | "services"
            | "deployments"
            | "replicasets"
            | "statefulsets"
            | "daemonsets"
    ) {
        main["categories"] = json!(["all"]);
    }
    let sub = |name: &str, of: &str, verbs: &[&str]| json!({"name": format!("{}/{name}", kind.resource), "singularName": "", "namespaced": kind.namespaced, "kind": of, "verbs": verbs});
    let mut all = vec![main];
    if kind.status {
        all.push(sub("status", &kind.kind, &["get", "patch", "update"]));
    }
    if kind.is_core("pods") {
        all.push(sub("binding", "Binding", &["create"]));
        all.push(sub("log", "Pod", &["get"]));
    }
    all
}

fn schemas(state: &State) -> Value {
    let names = state.kinds.iter().map(|kind| {
        if kind.group.is_empty() {
            format!("api/{}", kind.version)
        } else {
            format!("apis/{}/{}", kind.group, kind.version)
        }
    });
    let paths: serde_json::Map<_, _> = names
        .map(|name| {
            (
                name.clone(),
                json!({"serverRelativeURL": format!("/openapi/v3/{name}")}),
            )
        })
        .collect();
    json!({"paths": paths})
}

/// Returns no schemas of types, only the one parameter that shows `kubectl` that the server
/// validates fields.
fn schema(state: &State, group: &str, version: &str) -> Option<Value> {
    let paths: serde_json::Map<_, _> = kinds(state, group, version)
        .map(|kind| (schema_path(kind), operations(kind)))
        .collect();
    let schema = json!({"openapi": "3.0.0", "info": {"title": "swaplet testbed", "version": VERSION.2}, "paths": paths});
    (!paths.is_empty()).then_some(schema)
}

fn schema_path(kind: &Kind) -> String {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let namespace = if kind.namespaced {
        "namespaces/{namespace}/"
    } else {
        ""
    };
    format!(
        "/{root}/{}/{namespace}{}/{{name}}",
        kind.api_version(),
        kind.resource
    )
}

fn operations(kind: &Kind) -> Value {
    let id = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let write = |action: &str| {
        json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": id,
            "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")], "responses": {"200": {"description": "OK"}}})
    };
    json!({"patch": write("patch"), "put": write("put"), "post": write("post")})
}
