//! Decoders for the leaves of an object that accept any JSON value: what has the wrong type is read as absent.
//!
//! They stream: nothing is buffered, and what is not asked for is skipped without being stored.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value that may have been of the wrong type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lenient<T> {
    /// The decoded value; the default where the field was absent, null or of the wrong type.
    pub value: T,
    /// Whether the field was there with a type that Kubernetes does not allow for it.
    pub malformed: bool,
}

impl<T: Default> Lenient<T> {
    fn malformed() -> Self {
        Self { value: T::default(), malformed: true }
    }

    fn of(value: T) -> Self {
        Self { value, malformed: false }
    }
}

/// Which JSON shape a type is read from; every other shape leaves the default.
pub trait Shape: Sized + Default {
    /// From a JSON string.
    fn from_text(_text: &str) -> Option<Self> {
        None
    }
    /// From a JSON integer.
    fn from_integer(_number: i64) -> Option<Self> {
        None
    }
    /// From a JSON boolean.
    fn from_flag(_flag: bool) -> Option<Self> {
        None
    }
    /// From a JSON object.
    ///
    /// # Errors
    /// Only what the JSON reader itself reports (a syntax error).
    fn from_object<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        drain_map(map).map(|()| None)
    }
    /// From a JSON array.
    ///
    /// # Errors
    /// Only what the JSON reader itself reports (a syntax error).
    fn from_array<'de, A: SeqAccess<'de>>(array: A) -> Result<Option<Self>, A::Error> {
        drain_array(array).map(|()| None)
    }
}

impl Shape for Option<Box<str>> {
    fn from_text(text: &str) -> Option<Self> {
        Some(Some(text.into()))
    }
}

impl Shape for Option<bool> {
    fn from_flag(flag: bool) -> Option<Self> {
        Some(Some(flag))
    }
}

impl Shape for Option<i64> {
    fn from_integer(number: i64) -> Option<Self> {
        Some(Some(number))
    }
}

impl Shape for Option<jiff::Timestamp> {
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Some)
    }
}

impl<T: for<'a> Deserialize<'a>> Shape for Vec<T> {
    fn from_array<'de, A: SeqAccess<'de>>(mut array: A) -> Result<Option<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(item) = array.next_element()? {
            items.push(item);
        }
        Ok(Some(items))
    }
}

/// An object of Kubernetes whose fields are themselves lenient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<T: Default + for<'a> Deserialize<'a>> Shape for Object<T> {
    fn from_object<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Some(Self(value)))
    }
}

/// As [`Object`], for a member that is often absent.
impl<T: Default + for<'a> Deserialize<'a>> Shape for Option<Box<T>> {
    fn from_object<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Some(Some(Box::new(value))))
    }
}

/// Whether a field is there at all, whatever it holds (null counts as absent).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present(pub bool);

impl Shape for Present {
    fn from_text(_: &str) -> Option<Self> {
        Some(Self(true))
    }
    fn from_integer(_: i64) -> Option<Self> {
        Some(Self(true))
    }
    fn from_object<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        drain_map(map).map(|()| Some(Self(true)))
    }
    fn from_array<'de, A: SeqAccess<'de>>(array: A) -> Result<Option<Self>, A::Error> {
        drain_array(array).map(|()| Some(Self(true)))
    }
}

fn drain_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

fn drain_array<'de, A: SeqAccess<'de>>(mut array: A) -> Result<(), A::Error> {
    while array.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

struct AnyShape<T>(PhantomData<T>);

impl<T: Shape> AnyShape<T> {
    fn wrap<E>(found: Option<T>) -> Result<Lenient<T>, E> {
        Ok(found.map_or_else(Lenient::malformed, Lenient::of))
    }
}

impl<'de, T: Shape> Visitor<'de> for AnyShape<T> {
    type Value = Lenient<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("any JSON value")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Lenient::default())
    }
    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Lenient::default())
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Self::wrap(T::from_flag(flag))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Self::wrap(T::from_integer(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Self::wrap(i64::try_from(number).ok().and_then(T::from_integer))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Self::wrap(None)
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Self::wrap(T::from_text(text))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::from_object(map).and_then(Self::wrap)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Self::Value, A::Error> {
        T::from_array(array).and_then(Self::wrap)
    }
}

impl<'de, T: Shape> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyShape(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_type_is_taken() {
        let text: Lenient<Option<Box<str>>> = serde_json::from_str("\"a\"").unwrap();
        assert_eq!(text, Lenient::of(Some("a".into())));
        let list: Lenient<Vec<Lenient<Option<i64>>>> = serde_json::from_str("[1,2]").unwrap();
        assert_eq!(list.value.len(), 2);
        assert!(!list.malformed);
    }

    #[test]
    fn null_is_absent_and_not_malformed() {
        let text: Lenient<Option<Box<str>>> = serde_json::from_str("null").unwrap();
        assert_eq!(text, Lenient::default());
    }

    #[test]
    fn the_wrong_type_is_absent_and_malformed() {
        for json in ["true", "1.5", "{\"a\":[1]}", "[[],{}]", "18446744073709551615"] {
            let text: Lenient<Option<Box<str>>> = serde_json::from_str(json).unwrap();
            assert_eq!(text, Lenient::malformed(), "{json}");
        }
    }

    #[test]
    fn presence_is_seen_whatever_the_type() {
        for json in ["\"\"", "1", "{}", "[]"] {
            let present: Lenient<Present> = serde_json::from_str(json).unwrap();
            assert!(present.value.0, "{json}");
        }
        let absent: Lenient<Present> = serde_json::from_str("null").unwrap();
        assert!(!absent.value.0);
    }
}
