//! Tables, as `kubectl get` shows them.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod;
use super::printing::{Heading, ago, human};
use crate::apiserver::objects::json::{int, list, text};
use crate::apiserver::objects::kinds::{Columns, Kind};

const NAME: Heading = ("Name", "string", "name", 0);
const AGE: Heading = ("Age", "string", "", 0);

const JOB: &[Heading] = &[
    NAME,
    ("Status", "string", "", 0),
    ("Completions", "string", "", 0),
    ("Duration", "string", "", 0),
    AGE,
    ("Containers", "string", "", 1),
    ("Images", "string", "", 1),
    ("Selector", "string", "", 1),
];
const NODE: &[Heading] = &[
    NAME,
    ("Status", "string", "", 0),
    ("Roles", "string", "", 0),
    AGE,
    ("Version", "string", "", 0),
    ("Internal-IP", "string", "", 1),
    ("External-IP", "string", "", 1),
    ("OS-Image", "string", "", 1),
    ("Kernel-Version", "string", "", 1),
    ("Container-Runtime", "string", "", 1),
];
const EVENT: &[Heading] = &[
    ("Last Seen", "string", "", 0),
    ("Type", "string", "", 0),
    ("Reason", "string", "", 0),
    ("Object", "string", "", 0),
    ("Subobject", "string", "", 1),
    ("Source", "string", "", 1),
    ("Message", "string", "", 0),
    ("First Seen", "string", "", 1),
    ("Count", "string", "", 1),
    ("Name", "string", "name", 1),
];
const NAMESPACE: &[Heading] = &[NAME, ("Status", "string", "", 0), AGE];
const PLAIN: &[Heading] = &[NAME, AGE];

/// The content of table rows besides their cells: `includeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// `None`: only the cells.
    Nothing,
    /// `Metadata`, the default.
    Metadata,
    /// `Object`, by which `kubectl get --sort-by` sorts.
    Object,
}

impl Include {
    pub fn read(asked: &str) -> Self {
        match asked {
            "None" => Self::Nothing,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// Renders a table of objects; `columns` is true if it has its headings.
pub fn table(
    kind: &Kind,
    objects: &[Arc<Value>],
    now: Timestamp,
    with: Include,
    columns: bool,
    list: &Value,
) -> Value {
    let rows: Vec<_> = objects
        .iter()
        .map(|object| row(kind, object, now, with))
        .collect();
    let headings = if columns { headings(kind) } else { Value::Null };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list, "columnDefinitions": headings, "rows": rows})
}

fn headings(kind: &Kind) -> Value {
    let fixed = |headings: &[Heading]| headings.iter().map(definition).collect();
    match &kind.columns {
        Columns::Pod => fixed(pod::HEADINGS),
        Columns::Job => fixed(JOB),
        Columns::Node => fixed(NODE),
        Columns::Event => fixed(EVENT),
        Columns::Namespace => fixed(NAMESPACE),
        Columns::Plain => fixed(PLAIN),
        Columns::Custom(columns) => std::iter::once(definition(&NAME))
            .chain(
                columns
                    .iter()
                    .map(|(name, _)| heading(name, "string", "", 0)),
            )
            .collect(),
    }
}

fn definition(&(name, kind, format, priority): &Heading) -> Value {
    heading(name, kind, format, priority)
}

fn heading(name: &str, kind: &str, format: &str, priority: u8) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
}

fn row(kind: &Kind, object: &Value, now: Timestamp, with: Include) -> Value {
    let name = text(object, "/metadata/name");
    let age = ago(now, text(object, "/metadata/creationTimestamp"));
    let cells = match &kind.columns {
        Columns::Pod => pod::cells(object, now),
        Columns::Job => job(object, now),
        Columns::Node => node(object, &age),
        Columns::Event => event(object, now),
        Columns::Namespace => vec![
            name.into(),
            text(object, "/status/phase").into(),
            age.into(),
        ],
        Columns::Plain => vec![name.into(), age.into()],
        Columns::Custom(columns) => std::iter::once(name.into())
            .chain(columns.iter().map(|(_, path)| custom(object, path, now)))
            .collect(),
    };
    let shown = match with {
        Include::Nothing => Value::Null,
        Include::Metadata => metadata(object),
        Include::Object => object.clone(),
    };
    let mut row = json!({"cells": cells, "object": shown});
    if let Some(condition) = pod::completed(object).filter(|_| kind.columns == Columns::Pod) {
        row["conditions"] = json!([condition]);
    }
    row
}

/// Returns the value at a simple JSONPath such as `.a.b.c`; `\.` is a dot in a name.
fn custom(object: &Value, path: &str, now: Timestamp) -> Value {
    let names = path.split("\\.");
    let names = names.map(|part| part.replace('/', "~1").replace('.', "/"));
    match object.pointer(&names.collect::<Vec<_>>().join(".")) {
        Some(Value::String(time)) if path.ends_with("Timestamp") => ago(now, time).into(),
        Some(Value::String(text)) => text.as_str().into(),
        None | Some(Value::Null) => "".into(),
        Some(other) => other.to_string().into(),
    }
}

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = int(job, "/status/succeeded").unwrap_or(0);
    let parallelism = int(job, "/spec/parallelism").unwrap_or(0);
    let completions = match int(job, "/spec/completions") {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let containers = |field: &str| {
        let names: Vec<_> = list(job, "/spec/template/spec/containers")
            .iter()
            .map(|one| text(one, field))
            .collect();
        names.join(",")
    };
    let selector: Vec<_> = job["spec"]["selector"]["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    vec![
        text(job, "/metadata/name").into(),
        job_status(job).into(),
        completions.into(),
        job_duration(job, now).into(),
        ago(now, text(job, "/metadata/creationTimestamp")).into(),
        containers("/name").into(),
        containers("/image").into(),
        selector.join(",").into(),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let has = |kind: &str| {
        list(job, "/status/conditions")
            .iter()
            .any(|one| one["type"] == kind && one["status"] == "True")
    };
    let deleting = job["metadata"].get("deletionTimestamp").is_some();
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if deleting => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let Ok(start) = text(job, "/status/startTime").parse::<Timestamp>() else {
        return String::new();
    };
    let end = text(job, "/status/completionTime").parse().unwrap_or(now);
    human(end.duration_since(start).as_secs())
}

fn node(node: &Value, age: &str) -> Vec<Value> {
    let address = |kind: &str| {
        let found = list(node, "/status/addresses")
            .iter()
            .find(|one| one["type"] == kind);
        found.map_or("<none>", |one| text(one, "/address"))
    };
    let info = |field: &str| match text(node, &format!("/status/nodeInfo/{field}")) {
        "" => "<unknown>".into(),
        text => Value::from(text),
    };
    vec![
        text(node, "/metadata/name").into(),
        node_status(node).into(),
        node_roles(node).into(),
        age.into(),
        text(node, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn node_status(node: &Value) -> String {
    let ready = list(node, "/status/conditions")
        .iter()
        .find(|one| one["type"] == "Ready");
    let status = match ready.map(|ready| ready["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if node["spec"]["unschedulable"] == true {
        ",SchedulingDisabled"
    } else {
        ""
    };
    format!("{status}{cordoned}")
}

fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles: Vec<_> = labels
        .filter_map(|(label, _)| label.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

/// Returns the first of several fields that is not empty, in either API.
fn first<'a>(object: &'a Value, pointers: &[&str]) -> &'a str {
    pointers
        .iter()
        .map(|pointer| text(object, pointer))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let (first_seen, last_seen) = event_times(event);
    let (target, part) = event_target(event);
    let count = ["/series/count", "/count", "/deprecatedCount"]
        .iter()
        .find_map(|pointer| int(event, pointer));
    vec![
        ago(now, last_seen).into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        target.into(),
        part.into(),
        event_source(event).into(),
        first(event, &["/message", "/note"]).trim().into(),
        ago(now, first_seen).into(),
        count.unwrap_or(1).into(),
        text(event, "/metadata/name").into(),
    ]
}

/// Returns the times of the first and the last occurrence of an event.
fn event_times(event: &Value) -> (&str, &str) {
    let seen = first(
        event,
        &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"],
    );
    let last = first(
        event,
        &[
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/deprecatedLastTimestamp",
        ],
    );
    (seen, if last.is_empty() { seen } else { last })
}

/// Returns the object of an event, and the field path in it.
fn event_target(event: &Value) -> (String, &str) {
    let object = event
        .get("regarding")
        .or_else(|| event.get("involvedObject"))
        .unwrap_or(&Value::Null);
    let (kind, name) = (text(object, "/kind").to_lowercase(), text(object, "/name"));
    let target = if name.is_empty() {
        kind
    } else {
        format!("{kind}/{name}")
    };
    (target, text(object, "/fieldPath"))
}

fn event_source(event: &Value) -> String {
    let component = [
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ];
    let (component, instance) = (
        first(event, &component),
        first(
            event,
            &[
                "/source/host",
                "/deprecatedSource/host",
                "/reportingInstance",
            ],
        ),
    );
    if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    }
}

/// Returns the metadata of an object as `PartialObjectMetadata`.
pub fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
