//! Decodes bodies by the real types: wrong types are refused, unknown fields dropped or, on
//! request, refused.

use k8s_openapi::api::{apps, batch, coordination, core, policy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::apiserver::objects::kinds::Kind;

/// A decoded body.
pub struct Decoded {
    /// The object with the fields of its type.
    pub object: Value,
    /// The paths of fields that the type does not have.
    pub unknown: Vec<String>,
}

/// Decodes an object by its kind; kinds without a type keep everything.
pub fn decode(kind: &Kind, object: Value) -> Result<Decoded, String> {
    match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "pods") => through::<core::v1::Pod>(object),
        ("", "nodes") => through::<core::v1::Node>(object),
        ("", "namespaces") => through::<core::v1::Namespace>(object),
        ("", "events") => through::<core::v1::Event>(object),
        ("", "configmaps") => through::<core::v1::ConfigMap>(object),
        ("", "secrets") => through::<core::v1::Secret>(object),
        ("", "services") => through::<core::v1::Service>(object),
        ("", "persistentvolumeclaims") => through::<core::v1::PersistentVolumeClaim>(object),
        ("", "serviceaccounts") => through::<core::v1::ServiceAccount>(object),
        ("batch", "jobs") => through::<batch::v1::Job>(object),
        ("batch", "cronjobs") => through::<batch::v1::CronJob>(object),
        ("events.k8s.io", "events") => through::<k8s_openapi::api::events::v1::Event>(object),
        ("coordination.k8s.io", "leases") => through::<coordination::v1::Lease>(object),
        ("apps", "deployments") => through::<apps::v1::Deployment>(object),
        ("apps", "replicasets") => through::<apps::v1::ReplicaSet>(object),
        ("apps", "statefulsets") => through::<apps::v1::StatefulSet>(object),
        ("apps", "daemonsets") => through::<apps::v1::DaemonSet>(object),
        ("policy", "poddisruptionbudgets") => through::<policy::v1::PodDisruptionBudget>(object),
        _ => untyped(object),
    }
}

/// Returns true if objects of this kind have no type here, like custom resources and CRDs.
pub fn is_untyped(kind: &Kind) -> bool {
    !matches!(
        kind.group.as_str(),
        "" | "batch" | "events.k8s.io" | "coordination.k8s.io" | "apps" | "policy"
    )
}

fn untyped(object: Value) -> Result<Decoded, String> {
    match object.get("metadata") {
        Some(metadata) if !metadata.is_object() => Err("metadata must be an object".to_owned()),
        _ => Ok(Decoded {
            object,
            unknown: Vec::new(),
        }),
    }
}

fn through<K: Serialize + DeserializeOwned>(raw: Value) -> Result<Decoded, String> {
    check_micro_times(&raw)?;
    let typed: K = serde_json::from_value(raw.clone()).map_err(|error| error.to_string())?;
    let mut object = serde_json::to_value(&typed).map_err(|error| error.to_string())?;
    let mut unknown = Vec::new();
    compare("", &raw, &object, &mut unknown);
    drop_empty(&mut object);
    Ok(Decoded { object, unknown })
}

/// Fields of leases and events that are times with exactly six digits after the second.
const MICRO_TIMES: &[&str] = &[
    "/spec/renewTime",
    "/spec/acquireTime",
    "/eventTime",
    "/series/lastObservedTime",
];

fn check_micro_times(object: &Value) -> Result<(), String> {
    let texts = MICRO_TIMES
        .iter()
        .filter_map(|pointer| object.pointer(pointer)?.as_str());
    let digits = |text: &str| {
        text.split_once('.').map_or(0, |(_, rest)| {
            rest.chars().take_while(char::is_ascii_digit).count()
        })
    };
    match texts.into_iter().find(|text| digits(text) != 6) {
        Some(text) => Err(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse it as such"
        )),
        None => Ok(()),
    }
}

/// Collects the paths that the typed form has lost.
fn compare(path: &str, raw: &Value, typed: &Value, unknown: &mut Vec<String>) {
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            for (field, value) in raw.iter().filter(|(_, value)| !value.is_null()) {
                compare_field(path, field, value, typed, unknown);
            }
        }
        (Value::Array(raw), Value::Array(typed)) => {
            for (index, (raw, typed)) in raw.iter().zip(typed).enumerate() {
                compare(&format!("{path}[{index}]"), raw, typed, unknown);
            }
        }
        _ => {}
    }
}

fn compare_field(
    path: &str,
    field: &str,
    raw: &Value,
    typed: &Map<String, Value>,
    unknown: &mut Vec<String>,
) {
    let path = if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    };
    match typed.get(field) {
        Some(typed) => compare(&path, raw, typed, unknown),
        None => unknown.push(path),
    }
}

/// Maps whose keys are data: an empty value in them has a meaning.
const DATA: &[&str] = &[
    "labels",
    "annotations",
    "data",
    "stringData",
    "binaryData",
    "nodeSelector",
    "matchLabels",
    "limits",
    "requests",
];

/// Fields of a node's info that are always written, even if empty.
pub const NODE_INFO: [&str; 10] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

/// Other strings that the real types always write.
const ALWAYS: &[&str] = &[
    "holderIdentity",
    "image",
    "imageID",
    "name",
    "reportingComponent",
    "reportingInstance",
    "status",
];

/// Flags that the real types leave out when false.
const PLAIN_FLAGS: &[&str] = &[
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
    "unschedulable",
];

/// Drops empty values that the real types leave out: lists, strings and maps of data.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|field, value| !is_omitted(field, value));
            map.iter_mut()
                .filter(|(field, _)| !DATA.contains(&field.as_str()))
                .for_each(|(_, value)| drop_empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

fn is_omitted(field: &str, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && DATA.contains(&field),
        Value::String(text) => {
            text.is_empty() && !ALWAYS.contains(&field) && !NODE_INFO.contains(&field)
        }
        Value::Bool(false) => PLAIN_FLAGS.contains(&field),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::objects::kinds::builtin;
    use serde_json::json;

    #[test]
    fn names_unknown_fields_and_drops_them() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"foo": 1, "containers": [{"name": "a", "imagee": "b"}]}});
        let decoded = decode(&builtin()[0], pod).unwrap();
        assert_eq!(decoded.unknown, ["spec.containers[0].imagee", "spec.foo"]);
        assert!(decoded.object["spec"].get("foo").is_none());
    }

    #[test]
    fn refuses_wrong_types() {
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"activeDeadlineSeconds": "soon"}});
        assert!(decode(&builtin()[0], pod).is_err());
    }

    #[test]
    fn keeps_empty_values_of_data() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": ""}, "annotations": {}}, "data": {"k": ""}});
        let decoded = decode(&builtin()[4], map).unwrap().object;
        assert_eq!(decoded["metadata"], json!({"labels": {"a": ""}}));
        assert_eq!(decoded["data"], json!({"k": ""}));
    }
}
