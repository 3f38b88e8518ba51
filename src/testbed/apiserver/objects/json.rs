//! Short ways to read and write parts of JSON objects.

use serde_json::{Map, Value};

/// The string at a JSON pointer, empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The integer at a JSON pointer.
pub fn int(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The array at a JSON pointer, empty if there is none.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The object inside `value` under `key`, created (also in place of anything else) where it is
/// missing.
pub fn child<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let slot = object(value).entry(key).or_insert(Value::Null);
    object(slot)
}

/// `value` as an object; anything else is replaced by an empty one.
pub fn object(value: &mut Value) -> &mut Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => {
            *other = Value::Object(Map::new());
            object(other)
        }
    }
}

/// Sets `map[key]` unless something other than null, and other than the empty string, stands there.
pub fn default(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() || slot.as_str() == Some("") {
        *slot = value.into();
    }
}

/// Copies `from[key]` to `to[key]`, and removes it there if it is missing here.
pub fn carry(to: &mut Map<String, Value>, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => to.insert(key.to_owned(), value.clone()),
        None => to.remove(key),
    };
}
