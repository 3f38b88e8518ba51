//! The two APIs of events: stored as core events, served as either.

use serde_json::{Map, Value, json};

/// Field names: core, and `events.k8s.io`.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Converts an event of `events.k8s.io` to the stored form.
pub fn to_core(event: &Value) -> Value {
    let mut core = renamed(event, |new| {
        NAMES
            .iter()
            .find(|(_, name)| *name == new)
            .map(|(core, _)| *core)
    });
    core.insert("apiVersion".to_owned(), "v1".into());
    complete(&mut core);
    core.into()
}

/// Converts a stored event to `events.k8s.io`.
pub fn from_core(event: &Value) -> Value {
    let mut new = renamed(event, |core| {
        NAMES
            .iter()
            .find(|(name, _)| *name == core)
            .map(|(_, new)| *new)
    });
    new.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
    new.retain(|field, value| {
        !matches!(field.as_str(), "reportingController" | "reportingInstance") || value != ""
    });
    new.into()
}

fn renamed<'a>(event: &'a Value, name: impl Fn(&str) -> Option<&'a str>) -> Map<String, Value> {
    let fields = event.as_object().into_iter().flatten();
    fields
        .map(|(field, value)| (name(field).unwrap_or(field).to_owned(), value.clone()))
        .collect()
}

/// Adds the fields that the real type always writes.
pub fn complete(event: &mut Map<String, Value>) {
    for field in ["eventTime", "firstTimestamp", "lastTimestamp"] {
        event.entry(field).or_insert(Value::Null);
    }
    for field in ["reportingComponent", "reportingInstance"] {
        event.entry(field).or_insert_with(|| "".into());
    }
    event.entry("source").or_insert_with(|| json!({}));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "hello", "regarding": {"name": "p"},
            "reportingController": "swaplet", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z"});
        let core = to_core(&new);
        assert_eq!(
            (&core["message"], &core["involvedObject"]["name"]),
            (&json!("hello"), &json!("p"))
        );
        let back = from_core(&core);
        assert!(
            new.as_object()
                .unwrap()
                .iter()
                .all(|(field, value)| &back[field] == value)
        );
        assert_eq!(back["deprecatedSource"], json!({}));
    }
}
