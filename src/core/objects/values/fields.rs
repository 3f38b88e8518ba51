//! The fields of objects with a bound: a value that is longer is read as absent and recorded, where
//! it stands. The API server has checked the types of all others.
//!
//! They stream: nothing is buffered, and unused fields are skipped without being stored.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::bounds::{self, cut};

/// A string of at most `MOST` bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<const MOST: usize = { bounds::TEXT }> {
    /// `None` if the field is absent, null or too long.
    pub value: Option<Box<str>>,
    /// True if it is longer.
    pub too_long: bool,
}

/// A list of at most `MOST` items, or of none if it is longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MOST: usize = { bounds::ITEMS }> {
    pub(crate) items: Vec<T>,
    pub(crate) too_long: bool,
}

/// A message of a node or a person: it is only shown, so it is cut instead of dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said<const MOST: usize = { bounds::MESSAGE }>(pub Box<str>);

/// A point in time; `None` also for one that Kubernetes knows and [`jiff`] cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time(pub Option<jiff::Timestamp>);

/// Set if a field is there and not null, whatever it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present(pub bool);

/// Set if a field is a non-empty string, however long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled(pub bool);

/// A map of texts: labels or annotations. A text that is too long is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// At most [`bounds::ITEMS`] of them.
    pub(crate) read: BTreeMap<Box<str>, Box<str>>,
    /// True if there are more.
    pub(crate) too_many: bool,
}

/// A type that is read from a string, which may be of any length.
pub(crate) trait FromText: Default {
    fn from_text(text: &str) -> Self;
}

/// Reads a string without keeping it; null is the default.
pub(crate) fn text<'de, D: Deserializer<'de>, T: FromText>(from: D) -> Result<T, D::Error> {
    struct Reader<T>(PhantomData<T>);

    impl<T: FromText> Visitor<'_> for Reader<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("a string")
        }
        fn visit_unit<E>(self) -> Result<T, E> {
            Ok(T::default())
        }
        fn visit_str<E>(self, text: &str) -> Result<T, E> {
            Ok(T::from_text(text))
        }
    }

    from.deserialize_any(Reader(PhantomData))
}

/// A type that is read from a list, which may be of any length.
pub(crate) trait FromList<'de>: Default {
    fn from_list<A: SeqAccess<'de>>(array: A) -> Result<Self, A::Error>;
}

/// Reads a list without keeping it; null is the default.
pub(crate) fn list<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromList<'de>,
{
    struct Reader<T>(PhantomData<T>);

    impl<'de, T: FromList<'de>> Visitor<'de> for Reader<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("a list")
        }
        fn visit_unit<E>(self) -> Result<T, E> {
            Ok(T::default())
        }
        fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<T, A::Error> {
            T::from_list(array)
        }
    }

    from.deserialize_any(Reader(PhantomData))
}

/// Reads a field that may be null, which is the default.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl<const MOST: usize> FromText for Text<MOST> {
    fn from_text(text: &str) -> Self {
        let too_long = text.len() > MOST;
        Self {
            value: (!too_long).then(|| text.into()),
            too_long,
        }
    }
}

impl<const MOST: usize> FromText for Said<MOST> {
    fn from_text(text: &str) -> Self {
        Self(cut(text, MOST).into())
    }
}

impl FromText for Time {
    fn from_text(text: &str) -> Self {
        Self(text.parse().ok())
    }
}

impl FromText for Filled {
    fn from_text(text: &str) -> Self {
        Self(!text.is_empty())
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Text<MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from)
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Said<MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from)
    }
}

impl<'de> Deserialize<'de> for Filled {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from)
    }
}

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Option::<IgnoredAny>::deserialize(from).map(|found| Self(found.is_some()))
    }
}

impl<const MOST: usize> Text<MOST> {
    /// Returns the text; `None` also for an empty one.
    pub(crate) fn filled(self) -> Option<Box<str>> {
        self.value.filter(|text| !text.is_empty())
    }
}

/// The text, or `None`.
impl<const MOST: usize> Deref for Text<MOST> {
    type Target = Option<Box<str>>;

    fn deref(&self) -> &Self::Target {
        &self.value
    }
}

impl<T, const MOST: usize> Default for List<T, MOST> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            too_long: false,
        }
    }
}

impl<T, const MOST: usize> Deref for List<T, MOST> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> FromList<'de> for List<T, MOST> {
    fn from_list<A: SeqAccess<'de>>(mut array: A) -> Result<Self, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = array.next_element()? {
            if items.len() >= MOST {
                return drain_array(array).map(|()| Self {
                    items: Vec::new(),
                    too_long: true,
                });
            }
            // A list has room for four at first, which for containers is a lot.
            if items.len() == items.capacity() && size_of::<T>() > 256 {
                items.reserve_exact(items.len().max(1));
            }
            items.push(item);
        }
        Ok(Self {
            items,
            too_long: false,
        })
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for List<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        list(from)
    }
}

impl Texts {
    /// Returns all of them; `None` if there are too many: a selector could ask for one that is
    /// missing.
    pub(crate) fn all(self) -> Option<BTreeMap<Box<str>, Box<str>>> {
        (!self.too_many).then_some(self.read)
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Texts;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a map of strings")
            }
            fn visit_unit<E>(self) -> Result<Texts, E> {
                Ok(Texts::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
                let mut texts = Texts::default();
                while let Some((key, text)) = map.next_entry::<Text, Text<{ bounds::RECORD }>>()? {
                    let (Some(key), Some(text)) = (key.value, text.value) else {
                        continue;
                    };
                    if texts.read.len() >= bounds::ITEMS {
                        texts.too_many = true;
                        return drain_map(map).map(|()| texts);
                    }
                    texts.read.insert(key, text);
                }
                Ok(texts)
            }
        }

        from.deserialize_any(Reader)
    }
}

/// Returns these texts as selectors take them.
pub(crate) fn strings(texts: BTreeMap<Box<str>, Box<str>>) -> BTreeMap<String, String> {
    let texts = texts.into_iter();
    texts.map(|(key, text)| (key.into(), text.into())).collect()
}

pub(crate) fn drain_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

pub(crate) fn drain_array<'de, A: SeqAccess<'de>>(mut array: A) -> Result<(), A::Error> {
    while array.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: for<'a> Deserialize<'a>>(json: &str) -> T {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn null_is_absent_and_not_too_long() {
        assert_eq!(read::<Text>("null"), Text::default());
        assert_eq!(read::<List<i64>>("null"), List::default());
        assert_eq!(read::<Texts>("null"), Texts::default());
        assert_eq!(read::<Time>("null"), Time(None));
        assert_eq!(read::<Present>("null"), Present(false));
        assert!(read::<Texts>(r#"{"a":null}"#).read.is_empty());
    }

    #[test]
    fn a_wrong_type_is_an_error() {
        for json in ["true", "1.5", "{\"a\":[1]}", "[[],{}]"] {
            assert!(serde_json::from_str::<Text>(json).is_err(), "{json}");
        }
        assert!(serde_json::from_str::<List<i64>>("\"a\"").is_err());
        assert!(serde_json::from_str::<Texts>("[]").is_err());
    }

    #[test]
    fn a8_what_is_longer_than_its_bound_is_absent_and_recorded() {
        let text = |length: usize| read::<Text>(&format!("\"{}\"", "a".repeat(length)));
        let longest = text(bounds::TEXT);
        assert!(
            longest
                .as_ref()
                .is_some_and(|text| text.len() == bounds::TEXT)
        );
        let longer = text(bounds::TEXT + 1);
        assert!(longer.is_none() && longer.too_long);
        let list = |length: usize| {
            let list = read::<List<i64, 3>>(&format!("[{}]", vec!["1"; length].join(",")));
            (list.len(), list.too_long)
        };
        assert_eq!((list(3), list(4)), ((3, false), (0, true)));
    }

    /// A selector with `DoesNotExist` would else match labels that are not read.
    #[test]
    fn of_too_many_labels_none_are_taken_for_all() {
        let labels = |count: usize| {
            let members: Vec<_> = (0..count).map(|nth| format!("\"k{nth}\":\"v\"")).collect();
            read::<Texts>(&format!("{{{}}}", members.join(","))).all()
        };
        let all = labels(bounds::ITEMS).unwrap();
        assert_eq!(all.len(), bounds::ITEMS);
        assert_eq!(labels(bounds::ITEMS + 1), None);
    }

    #[test]
    fn a8_a_message_is_cut() {
        let said: Said = read(&format!("\"{}\"", "\u{e9}".repeat(5_000)));
        assert!(said.0.len() <= bounds::MESSAGE && said.0.ends_with("\u{e9}..."));
    }

    #[test]
    fn a_time_that_cannot_be_held_is_absent() {
        assert_eq!(read::<Time>("\"9999-12-31T23:59:59Z\""), Time(None));
    }

    #[test]
    fn presence_is_seen_whatever_the_type() {
        for json in ["\"\"", "1", "{}", "[]"] {
            assert!(read::<Present>(json).0, "{json}");
        }
    }
}
