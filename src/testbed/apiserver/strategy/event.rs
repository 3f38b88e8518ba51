//! The validation of events. Both APIs are checked in the stored form, which is core's.

use serde_json::Value;

use super::meta::{self, qualified_name};
use crate::apiserver::objects::json::text;
use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::objects::status::FieldError;

/// Returns the errors of a new event (stored form); the core API is lenient to old clients.
pub fn validate(kind: &Kind, event: &Value) -> Vec<FieldError> {
    let mut errors = old_rules(kind, event);
    if kind.is_new_event() {
        errors.extend(meta::validate(kind, event));
        errors.extend(series(event));
        if event["eventTime"].is_null() {
            errors.push(FieldError::required("eventTime", ""));
        }
        errors.extend(event_type(event));
        let set = ["firstTimestamp", "lastTimestamp", "count"]
            .into_iter()
            .filter(|field| !is_unset(&event[*field]));
        let source = event["source"]
            .as_object()
            .is_some_and(|source| !source.is_empty())
            .then_some("source");
        errors.extend(
            set.chain(source)
                .map(|field| FieldError::invalid(field, &"".into(), "needs to be unset")),
        );
    }
    errors
}

/// Returns the errors of a changed event (stored form).
pub fn validate_update(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = old_rules(kind, new);
    if !kind.is_new_event() {
        return errors;
    }
    errors.extend(meta::validate_update(new, old));
    if new["series"] != old["series"] {
        errors.extend(series(new));
    }
    // The real server checks the reason twice.
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingController",
        "reportingInstance",
    ] {
        let stored = if field == "reportingController" {
            "reportingComponent"
        } else {
            field
        };
        if new[stored] != old[stored] {
            errors.push(FieldError::immutable(field, &new[stored]));
        }
    }
    errors
}

/// Checks the rules of both APIs. Most of them apply only to events with an event time.
fn old_rules(kind: &Kind, event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (own, about) = (
        text(event, "/metadata/namespace"),
        text(event, "/involvedObject/namespace"),
    );
    let timed = !event["eventTime"].is_null();
    let agree = match (about, timed) {
        ("", false) => own == "default",
        ("", true) => matches!(own, "default" | "kube-system"),
        (about, false) => own == about,
        (_, true) => true,
    };
    if !agree {
        errors.push(FieldError::invalid(
            "involvedObject.namespace",
            &about.into(),
            "does not match event.namespace",
        ));
    }
    if timed {
        errors.extend(timed_rules(kind, event));
    }
    errors
}

fn timed_rules(kind: &Kind, event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let controller = if kind.is_new_event() {
        "reportingController"
    } else {
        "reportingComponent"
    };
    let reporter = text(event, "/reportingComponent");
    for (field, shown) in [
        ("reportingComponent", controller),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if text(event, &format!("/{field}")).is_empty() {
            errors.push(FieldError::required(shown, ""));
        }
        if field == "reportingComponent" {
            errors.extend(qualified_name(controller, reporter));
        }
    }
    if text(event, "/message").len() > 1024 {
        errors.push(FieldError::invalid(
            "message",
            &"".into(),
            "can have at most 1024 characters",
        ));
    }
    errors
}

fn series(event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if event["series"].is_null() {
        return errors;
    }
    if event["series"]["count"].as_i64().unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(
            "series.count",
            &"".into(),
            "should be at least 2",
        ));
    }
    if event["series"]["lastObservedTime"].is_null() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
    errors
}

fn event_type(event: &Value) -> Option<FieldError> {
    let found = text(event, "/type");
    let rule = format!("has invalid value: {found}");
    (!matches!(found, "Normal" | "Warning")).then(|| FieldError::invalid("type", &"".into(), &rule))
}

fn is_unset(value: &Value) -> bool {
    value.is_null() || *value == 0
}
