//! Helpers to read and write parts of JSON objects.

use serde_json::{Map, Value};

/// Returns the string at a JSON pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the integer at a JSON pointer.
pub fn int(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// Returns the array at a JSON pointer; empty if there is none.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns the object inside `value` under `key`. It is created if it is missing, and replaces any
/// other value.
pub fn child<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let slot = object(value).entry(key).or_insert(Value::Null);
    object(slot)
}

/// Returns `value` as an object; any other value is replaced by an empty one.
pub fn object(value: &mut Value) -> &mut Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => {
            *other = Value::Object(Map::new());
            object(other)
        }
    }
}

/// Sets `map[key]`, unless it has a value other than null and the empty string.
pub fn default(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() || slot.as_str() == Some("") {
        *slot = value.into();
    }
}

/// Copies `from[key]` to `to[key]`, or removes it from `to` if `from` lacks it.
pub fn carry(to: &mut Map<String, Value>, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => to.insert(key.to_owned(), value.clone()),
        None => to.remove(key),
    };
}
