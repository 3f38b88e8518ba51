//! Objects that are first read as any JSON. A map takes a hundred times its two bytes in memory, so
//! the memory that an object may take is bounded while it is read.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::fields::{drain_array, drain_map};

/// The bytes that one object may take in memory, approximately.
const MOST: usize = 8 << 20;
/// The bytes that a value takes, besides its text; in a list with the spare room of lists.
const VALUE: usize = 64;
/// The bytes that a map with one member takes: it has room for eleven.
const MAP: usize = 700;
/// The deepest level that is read; the JSON reader itself gives up at 128.
const DEEPEST: u8 = 64;
/// The longest part of most objects, and those of its members that begin with `f:` and are read.
const MANAGED: &str = "managedFields";
const FIELDS: [&str; 3] = ["f:metadata", "f:annotations", "f:swaplet.io/parked"];

/// A JSON value, an entry of `managedFields` if `IS_MANAGED`; an empty object if it would be too
/// large.
#[derive(Clone, Debug, Default)]
pub struct BoundedValue<const IS_MANAGED: bool = false>(pub Value);

impl<'de, const IS_MANAGED: bool> Deserialize<'de> for BoundedValue<IS_MANAGED> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Cell::new(MOST);
        let value = Node {
            left: &left,
            depth: 0,
            is_managed: IS_MANAGED,
        }
        .deserialize(deserializer)?;
        Ok(Self(if left.get() == 0 {
            Value::Object(Map::new())
        } else {
            value
        }))
    }
}

/// A value that is being read, and the bytes that may still be taken.
#[derive(Clone, Copy)]
struct Node<'a> {
    left: &'a Cell<usize>,
    depth: u8,
    /// True in [`MANAGED`], whose members are skipped but for [`FIELDS`].
    is_managed: bool,
}

impl Node<'_> {
    /// Takes this many bytes. Returns true if some are left; once none are, always false.
    fn takes(self, bytes: usize) -> bool {
        self.left.set(self.left.get().saturating_sub(bytes));
        self.left.get() > 0
    }

    fn inside(self, key: &str) -> Self {
        Self {
            depth: self.depth + 1,
            // In `metadata`: no kind has other members of this name at this depth.
            is_managed: self.is_managed || self.depth == 1 && key == MANAGED,
            ..self
        }
    }

    fn leaf<E>(self, value: impl Into<Value>) -> Result<Value, E> {
        Ok(if self.takes(VALUE) {
            value.into()
        } else {
            Value::Null
        })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > DEEPEST {
            return IgnoredAny::deserialize(deserializer).map(|_| Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("any JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        self.leaf(Value::Null)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        self.leaf(flag)
    }
    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        self.leaf(number)
    }
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        self.leaf(number)
    }
    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        self.leaf(number)
    }
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        if self.takes(text.len()) {
            self.leaf(text)
        } else {
            Ok(Value::Null)
        }
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while self.takes(VALUE) {
            match array.next_element_seed(self.inside(""))? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
        drain_array(array).map(|()| Value::Null)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while self.takes(if members.is_empty() { MAP } else { 2 * VALUE }) {
            match map.next_key::<String>()? {
                Some(key)
                    if self.is_managed && key.starts_with("f:") && !FIELDS.contains(&&*key) =>
                {
                    map.next_value::<IgnoredAny>().map(drop)?
                }
                Some(key) => {
                    self.takes(key.len());
                    let value = map.next_value_seed(self.inside(&key))?;
                    members.insert(key, value);
                }
                None => return Ok(Value::Object(members)),
            }
        }
        drain_map(map).map(|()| Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        serde_json::from_str::<BoundedValue>(text).unwrap().0
    }

    #[test]
    fn what_is_read_is_what_was_written_without_the_managed_fields_of_others() {
        let object = json!({"a": [1, -1, 0.5, true, null, "x", {"b": []}], "c": {"d": u64::MAX}});
        assert_eq!(read(&object.to_string()), object);
        let managed = r#"{"metadata": {"managedFields": [{"fieldsV1": {"f:spec": {"k:x": {}}, "f:metadata": {"f:labels": {}}}}], "name": "n"}}"#;
        assert_eq!(
            read(managed),
            json!({"metadata": {"managedFields": [{"fieldsV1": {"f:metadata": {}}}], "name": "n"}})
        );
    }

    /// A selector that lost a label would select more.
    #[test]
    fn keys_like_those_of_managed_fields_are_read_everywhere_else() {
        let object = json!({"metadata": {"labels": {"f:a": "b"}}, "spec": {"selector": {"matchLabels": {"f:pool": "gpu"}}}});
        assert_eq!(read(&object.to_string()), object);
    }

    #[test]
    fn a8_what_would_take_too_much_is_an_empty_object() {
        for (part, count) in [
            ("{\"\":0}", 20_000),
            ("{}", 20_000),
            ("[]", 200_000),
            ("1", 200_000),
            ("\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", 150_000),
        ] {
            let text = format!(
                "{{\"metadata\": {{}}, \"list\": [{}]}}",
                vec![part; count].join(",")
            );
            assert_eq!(read(&text), json!({}), "{part}");
        }
        let deep = format!(
            "{{\"deep\": {}{}, \"name\": \"n\"}}",
            "[".repeat(5_000),
            "]".repeat(5_000)
        );
        assert_eq!(read(&deep)["name"], "n");
        let long = json!({"list": vec!["a".repeat(100_000); 15]});
        assert_eq!(
            read(&long.to_string()),
            long,
            "an object of 1.5 MB with few values"
        );
    }
}
