//! Strategic merge patch, with the merge keys of the core types.

use serde_json::{Map, Value};

use crate::apiserver::objects::json::object;
use crate::apiserver::objects::status::ApiError;

/// Returns the key by which lists of this field are merged; others are replaced whole.
fn merge_key(field: &str, list: &[Value]) -> Option<&'static str> {
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "schedulingGates"
        | "resourceClaims"
        | "resourceClaimStatuses"
        | "secrets" => Some("name"),
        "conditions" | "addresses" => Some("type"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "hostAliases" | "podIPs" | "hostIPs" => Some("ip"),
        "ownerReferences" => Some("uid"),
        "topologySpreadConstraints" => Some("topologyKey"),
        // Ports of containers and of services share a field name; only a container's port has
        // `containerPort`.
        "ports" if list.iter().any(|port| port.get("containerPort").is_some()) => {
            Some("containerPort")
        }
        "ports" => Some("port"),
        _ => None,
    }
}

/// Returns true for lists of plain values that are merged as sets.
fn is_set(field: &str) -> bool {
    matches!(field, "finalizers" | "podCIDRs")
}

/// Applies a strategic merge patch in place.
pub fn apply(target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return Err(ApiError::bad_request("Invalid JSON document"));
    };
    merge_maps(target, patch)
}

fn merge_maps(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), ApiError> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = plain(patch);
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        _ => {}
    }
    for (field, value) in patch.iter().filter(|(field, _)| !field.starts_with('$')) {
        merge_field(target, field, value)?;
    }
    set_order(target, patch);
    delete_from_sets(target, patch);
    retain_keys(target, patch);
    Ok(())
}

fn merge_field(
    target: &mut Map<String, Value>,
    field: &str,
    value: &Value,
) -> Result<(), ApiError> {
    if value.is_null() || value.get("$patch").and_then(Value::as_str) == Some("delete") {
        target.remove(field);
        return Ok(());
    }
    if value.get("$patch").is_some() && !target.contains_key(field) {
        // A `replace` directive does nothing if there is nothing to replace.
        return Ok(());
    }
    let slot = target.entry(field).or_insert(Value::Null);
    match value {
        Value::Object(patch) => merge_maps(object(slot), patch),
        Value::Array(patch) => merge_lists(field, slot, patch),
        _ => {
            *slot = value.clone();
            Ok(())
        }
    }
}

fn merge_lists(field: &str, slot: &mut Value, patch: &[Value]) -> Result<(), ApiError> {
    if is_set(field) {
        union(slot, patch);
        return Ok(());
    }
    let replace = patch
        .iter()
        .any(|item| item.get("$patch").and_then(Value::as_str) == Some("replace"));
    match merge_key(field, patch) {
        Some(key) if !replace && patch.iter().all(Value::is_object) => {
            merge_keyed(key, slot, patch)
        }
        _ => {
            let kept = patch.iter().filter(|item| item.get("$patch").is_none());
            *slot = kept.map(strip).collect();
            Ok(())
        }
    }
}

fn union(slot: &mut Value, patch: &[Value]) {
    let original = slot.as_array().cloned().unwrap_or_default();
    let untouched = original
        .iter()
        .filter(|item| !patch.contains(item))
        .cloned()
        .collect();
    *slot = Value::Array(interleave(
        &original,
        untouched,
        patch.to_vec(),
        |one, other| one == other,
    ));
}

fn merge_keyed(key: &str, slot: &mut Value, patch: &[Value]) -> Result<(), ApiError> {
    let original = slot.as_array().cloned().unwrap_or_default();
    let mut patched = Vec::new();
    for item in patch {
        let id = item.get(key).ok_or_else(|| missing_key(item, key))?;
        if item.get("$patch").and_then(Value::as_str) == Some("delete") {
            continue;
        }
        let mut merged = original
            .iter()
            .find(|other| other.get(key) == Some(id))
            .cloned()
            .unwrap_or_else(|| Value::Object(Map::new()));
        apply(&mut merged, item)?;
        patched.push(merged);
    }
    let untouched = original
        .iter()
        .filter(|item| !patch.iter().any(|other| other.get(key) == item.get(key)));
    *slot = Value::Array(interleave(
        &original,
        untouched.cloned().collect(),
        patched,
        |one, other| one.get(key) == other.get(key),
    ));
    Ok(())
}

/// Merges lists in the order of the real server: items of the patch come as early as possible
/// without overtaking an item that precedes them on the server.
fn interleave(
    original: &[Value],
    untouched: Vec<Value>,
    patched: Vec<Value>,
    same: impl Fn(&Value, &Value) -> bool,
) -> Vec<Value> {
    let place = |item: &Value| original.iter().position(|other| same(other, item));
    let mut all = Vec::new();
    let mut left = untouched.into_iter().peekable();
    for item in patched {
        while let (Some(before), Some(here)) = (left.peek().and_then(place), place(&item)) {
            if before > here {
                break;
            }
            all.extend(left.next());
        }
        all.push(item);
    }
    all.extend(left);
    all
}

/// Returns the error for a missing key. The real server prints the Go map; this is close to it.
fn missing_key(item: &Value, key: &str) -> ApiError {
    let fields: Vec<_> = item
        .as_object()
        .into_iter()
        .flatten()
        .map(go_pair)
        .collect();
    ApiError::new(
        500,
        "",
        format!(
            "map: map[{}] does not contain declared merge key: {key}",
            fields.join(" ")
        ),
    )
}

fn go_pair((name, value): (&String, &Value)) -> String {
    format!(
        "{name}:{}",
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    )
}

/// Orders items as `$setElementOrder/<field>` lists them.
fn set_order(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (directive, order) in patch {
        let (Some(field), Some(order)) = (
            directive.strip_prefix("$setElementOrder/"),
            order.as_array(),
        ) else {
            continue;
        };
        let (Some(key), Some(Value::Array(items))) =
            (merge_key(field, order), target.get_mut(field))
        else {
            continue;
        };
        let original = std::mem::take(items);
        let named = |item: &&Value| order.iter().any(|one| one.get(key) == item.get(key));
        let in_order = order.iter().filter_map(|one| {
            original
                .iter()
                .find(|item| item.get(key) == one.get(key))
                .cloned()
        });
        let others = original
            .iter()
            .filter(|item| !named(item))
            .cloned()
            .collect();
        *items = interleave(&original, others, in_order.collect(), |one, other| {
            one.get(key) == other.get(key)
        });
    }
}

/// Removes the items that `$deleteFromPrimitiveList/<field>` names.
fn delete_from_sets(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (directive, unwanted) in patch {
        let Some(field) = directive.strip_prefix("$deleteFromPrimitiveList/") else {
            continue;
        };
        let unwanted = unwanted.as_array().cloned().unwrap_or_default();
        if let Some(Value::Array(items)) = target.get_mut(field) {
            items.retain(|item| !unwanted.contains(item));
        }
    }
}

/// Keeps only the keys that `$retainKeys` lists.
fn retain_keys(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    if let Some(Value::Array(keys)) = patch.get("$retainKeys") {
        target.retain(|field, _| keys.iter().any(|key| key.as_str() == Some(field)));
    }
}

/// Returns a copy without directives and nulls.
fn strip(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(plain(map)),
        Value::Array(items) => items.iter().map(strip).collect(),
        other => other.clone(),
    }
}

fn plain(map: &Map<String, Value>) -> Map<String, Value> {
    let kept = map
        .iter()
        .filter(|(field, value)| !field.starts_with('$') && !value.is_null());
    kept.map(|(field, value)| (field.clone(), strip(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut target: Value, patch: Value) -> Value {
        apply(&mut target, &patch).unwrap();
        target
    }

    #[test]
    fn merges_containers_by_name_and_env_by_name() {
        let spec = json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]});
        let patch = json!({"containers": [{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}, {"name": "c"}]});
        let a = json!({"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]});
        assert_eq!(
            patched(spec, patch),
            json!({"containers": [a, {"name": "c"}, {"name": "b"}]})
        );
    }

    #[test]
    fn obeys_directives() {
        let status = json!({"conditions": [{"type": "Ready"}, {"type": "Foo"}]});
        let patch = json!({"$setElementOrder/conditions": [{"type": "Ready"}], "conditions": [{"type": "Foo", "$patch": "delete"}]});
        assert_eq!(
            patched(status.clone(), patch),
            json!({"conditions": [{"type": "Ready"}]})
        );
        let patch = json!({"conditions": [{"type": "Bar"}, {"$patch": "replace"}]});
        assert_eq!(
            patched(status, patch),
            json!({"conditions": [{"type": "Bar"}]})
        );
        let patch = json!({"$setElementOrder/env": [{"name": "b"}, {"name": "a"}]});
        let turned = json!({"env": [{"name": "b"}, {"name": "a"}]});
        assert_eq!(
            patched(json!({"env": [{"name": "a"}, {"name": "b"}]}), patch),
            turned
        );
        let patch = json!({"$patch": "replace", "b": 2});
        assert_eq!(patched(json!({"a": 1}), patch), json!({"b": 2}));
        let patch = json!({"$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["z"]});
        assert_eq!(
            patched(json!({"finalizers": ["x", "y"]}), patch),
            json!({"finalizers": ["z", "y"]})
        );
    }

    #[test]
    fn replaces_lists_without_a_merge_key_and_removes_nulls() {
        let patch = json!({"tolerations": [{"key": "b"}], "nodeName": null});
        assert_eq!(
            patched(
                json!({"tolerations": [{"key": "a"}], "nodeName": "n"}),
                patch
            ),
            json!({"tolerations": [{"key": "b"}]})
        );
    }

    #[test]
    fn a_list_item_without_its_key_is_an_error() {
        let error = apply(
            &mut json!({"containers": []}),
            &json!({"containers": [{"image": "x"}]}),
        )
        .unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (
                500,
                "map: map[image:x] does not contain declared merge key: name"
            )
        );
    }
}
