//! Decoders for the fields of an object that accept any JSON value: one that has the wrong type, or
//! is longer than its bound, is read as absent.
//!
//! They stream: nothing is buffered, and unused fields are skipped without being stored.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::bounds::{self, cut};

/// A value that may have been of the wrong type, or too long: `MOST` bounds the bytes of a text,
/// and the items of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lenient<T, const MOST: usize = { bounds::ITEMS }> {
    /// The decoded value; the default if the field was absent, null, of the wrong type or too long.
    pub value: T,
    /// True if the field had a type that Kubernetes does not allow for it, or was longer than its
    /// bound.
    pub malformed: bool,
}

/// A string of at most `MOST` bytes.
pub(crate) type Text<const MOST: usize = { bounds::TEXT }> = Lenient<Option<Box<str>>, MOST>;
/// A list of at most `MOST` objects.
pub(crate) type Objects<T, const MOST: usize = { bounds::ITEMS }> =
    Lenient<Vec<Lenient<Object<T>>>, MOST>;
/// A boolean.
pub(crate) type Flag = Lenient<Option<bool>>;
/// An optional object within an object.
pub(crate) type Member<T> = Lenient<Option<Box<T>>>;
/// An integer.
pub(crate) type Integer = Lenient<Option<i64>>;
/// A point in time.
pub(crate) type Time = Lenient<Option<jiff::Timestamp>>;

impl<T> Member<T> {
    /// Returns true if the member is there, whatever it holds.
    pub(crate) fn is_there(&self) -> bool {
        self.value.is_some() || self.malformed
    }
}

impl<T: Default, const MOST: usize> Lenient<T, MOST> {
    fn malformed() -> Self {
        Self {
            value: T::default(),
            malformed: true,
        }
    }

    fn of(value: T) -> Self {
        Self {
            value,
            malformed: false,
        }
    }
}

/// A part of an object.
pub trait Part: Default + for<'a> Deserialize<'a> {}

impl<T: Default + for<'a> Deserialize<'a>> Part for T {}

/// A type that is read from one JSON shape; every other shape leaves the default, and so does a
/// value longer than `most`.
pub trait Shape: Sized + Default {
    /// Reads a JSON string.
    fn from_text(_text: &str, _most: usize) -> Option<Self> {
        None
    }
    /// Reads a JSON integer.
    fn from_integer(_number: i64) -> Option<Self> {
        None
    }
    /// Reads a JSON boolean.
    fn from_flag(_flag: bool) -> Option<Self> {
        None
    }
    /// Reads a JSON object.
    ///
    /// # Errors
    /// Only what the JSON reader itself reports (a syntax error).
    fn from_object<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        drain_map(map).map(|()| None)
    }
    /// Reads a JSON array.
    ///
    /// # Errors
    /// Only what the JSON reader itself reports (a syntax error).
    fn from_array<'de, A: SeqAccess<'de>>(
        array: A,
        _most: usize,
    ) -> Result<Option<Self>, A::Error> {
        drain_array(array).map(|()| None)
    }
}

impl Shape for Option<Box<str>> {
    fn from_text(text: &str, most: usize) -> Option<Self> {
        (text.len() <= most).then(|| Some(text.into()))
    }
}

/// A message of a node or a person, at most [`bounds::MESSAGE`] bytes unless bounded otherwise: it
/// is only shown, so it is cut instead of dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said(pub Box<str>);

impl Shape for Said {
    fn from_text(text: &str, most: usize) -> Option<Self> {
        Some(Self(cut(text, most).into()))
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
    fn from_text(text: &str, _: usize) -> Option<Self> {
        text.parse().ok().map(Some)
    }
}

impl<T: for<'a> Deserialize<'a>> Shape for Vec<T> {
    fn from_array<'de, A: SeqAccess<'de>>(
        mut array: A,
        most: usize,
    ) -> Result<Option<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(item) = array.next_element()? {
            if items.len() >= most {
                return drain_array(array).map(|()| None);
            }
            // A list has room for four at first, which for containers is a lot.
            if items.len() == items.capacity() && size_of::<T>() > 256 {
                items.reserve_exact(items.len().max(1));
            }
            items.push(item);
        }
        Ok(Some(items))
    }
}

/// A map of texts: labels or annotations. A member that is too long, or no text, is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(pub BTreeMap<Box<str>, Box<str>>);

impl Shape for Texts {
    fn from_object<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some((key, text)) = map
            .next_entry::<Lenient<Option<Box<str>>>, Lenient<Option<Box<str>>, { bounds::RECORD }>>(
            )?
        {
            let (Some(key), Some(text)) = (key.value, text.value) else {
                continue;
            };
            if texts.len() >= bounds::ITEMS {
                return drain_map(map).map(|()| None);
            }
            texts.insert(key, text);
        }
        Ok(Some(Self(texts)))
    }
}

/// An object of Kubernetes whose fields are themselves lenient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<T: Part> Shape for Object<T> {
    fn from_object<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Some(Self(value)))
    }
}

/// Like [`Object`], for a member that is often absent.
impl<T: Part> Shape for Option<Box<T>> {
    fn from_object<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Some(Some(Box::new(value))))
    }
}

/// Set if a field is a string, an integer, an object or an array, whatever it holds; null counts as
/// absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present(pub bool);

impl Shape for Present {
    fn from_text(_: &str, _: usize) -> Option<Self> {
        Some(Self(true))
    }
    fn from_integer(_: i64) -> Option<Self> {
        Some(Self(true))
    }
    fn from_object<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        drain_map(map).map(|()| Some(Self(true)))
    }
    fn from_array<'de, A: SeqAccess<'de>>(array: A, _: usize) -> Result<Option<Self>, A::Error> {
        drain_array(array).map(|()| Some(Self(true)))
    }
}

/// Set if a field is a non-empty string, however long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled(pub bool);

impl Shape for Filled {
    fn from_text(text: &str, _: usize) -> Option<Self> {
        Some(Self(!text.is_empty()))
    }
}

pub(crate) fn drain_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

pub(crate) fn drain_array<'de, A: SeqAccess<'de>>(mut array: A) -> Result<(), A::Error> {
    while array.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

struct AnyShape<T, const MOST: usize>(PhantomData<T>);

impl<T: Shape, const MOST: usize> AnyShape<T, MOST> {
    fn wrap<E>(found: Option<T>) -> Result<Lenient<T, MOST>, E> {
        Ok(found.map_or_else(Lenient::malformed, Lenient::of))
    }
}

impl<'de, T: Shape, const MOST: usize> Visitor<'de> for AnyShape<T, MOST> {
    type Value = Lenient<T, MOST>;

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
        Self::wrap(T::from_text(text, MOST))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::from_object(map).and_then(Self::wrap)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Self::Value, A::Error> {
        T::from_array(array, MOST).and_then(Self::wrap)
    }
}

impl<'de, T: Shape, const MOST: usize> Deserialize<'de> for Lenient<T, MOST> {
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
        for json in [
            "true",
            "1.5",
            "{\"a\":[1]}",
            "[[],{}]",
            "18446744073709551615",
        ] {
            let text: Lenient<Option<Box<str>>> = serde_json::from_str(json).unwrap();
            assert_eq!(text, Lenient::malformed(), "{json}");
        }
    }

    #[test]
    fn a8_what_is_longer_than_its_bound_is_absent_and_malformed() {
        let read = |length: usize| {
            serde_json::from_str::<Lenient<Option<Box<str>>>>(&format!(
                "\"{}\"",
                "a".repeat(length)
            ))
            .unwrap()
        };
        assert!(
            read(bounds::TEXT)
                .value
                .is_some_and(|text| text.len() == bounds::TEXT)
        );
        assert_eq!(read(bounds::TEXT + 1), Lenient::malformed());
        let list = |length: usize| {
            serde_json::from_str::<Lenient<Vec<Lenient<Option<i64>>>, 3>>(&format!(
                "[{}]",
                vec!["1"; length].join(",")
            ))
        };
        assert_eq!(
            (list(3).unwrap().value.len(), list(4).unwrap()),
            (3, Lenient::malformed())
        );
        let members: Vec<_> = (0..=bounds::ITEMS)
            .map(|nth| format!("\"k{nth}\":\"v\""))
            .collect();
        let map = |members: &[String]| {
            serde_json::from_str::<Lenient<Texts>>(&format!("{{{}}}", members.join(","))).unwrap()
        };
        assert_eq!(
            (map(&members[1..]).value.0.len(), map(&members)),
            (bounds::ITEMS, Lenient::malformed())
        );
    }

    #[test]
    fn a8_a_message_is_cut() {
        let said: Lenient<Said> =
            serde_json::from_str(&format!("\"{}\"", "\u{e9}".repeat(5_000))).unwrap();
        assert!(
            !said.malformed
                && said.value.0.len() <= bounds::MESSAGE
                && said.value.0.ends_with("\u{e9}...")
        );
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
