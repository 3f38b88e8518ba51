//! Takes out of answers what differs between any two servers: ids, versions and times.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Times that the sequences themselves write are older than this year and are compared as they are.
const PRESENT: i16 = 2020;
/// The lengths of a uid and of a time as text.
const UID: usize = 36;
const TIME: usize = 20;

/// The answers of one side, which are masked together: an id gets the number of its first
/// appearance.
#[derive(Default)]
pub struct Mask {
    uids: Vec<String>,
    /// The versions of each object that were seen, by uid: the mask keeps only their order.
    versions: BTreeMap<String, BTreeSet<u64>>,
}

impl Mask {
    /// Masks all answers of one side.
    pub fn answers(answers: &[Value]) -> Vec<Value> {
        let mut mask = Self::default();
        answers.iter().for_each(|answer| mask.learn(answer));
        answers.iter().map(|answer| mask.value(answer)).collect()
    }

    /// Collects the versions of objects, at any depth.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                if let Some((uid, version)) = identity(map) {
                    self.versions.entry(uid).or_default().insert(version);
                }
                map.values().for_each(|value| self.learn(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => self.object(map),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn object(&mut self, map: &Map<String, Value>) -> Value {
        let version = identity(map).map(|(uid, version)| self.rank(&uid, version));
        let kept = map.iter().filter(|(field, _)| *field != "managedFields");
        let masked = kept.map(|(field, value)| match (field.as_str(), &version) {
            ("resourceVersion", Some(rank)) => (field.clone(), rank.as_str().into()),
            // The real server validates some things twice and tells each time.
            ("causes", _) => (field.clone(), once(&self.value(value))),
            // Of lists and of watches: the whole server's, and it has other things to do.
            ("resourceVersion", None) => (field.clone(), "<version>".into()),
            ("continue", _) => (field.clone(), "<continue>".into()),
            // Keys of data may be ids as well.
            _ => (self.text(field), self.value(value)),
        });
        Value::Object(masked.collect())
    }

    fn rank(&self, uid: &str, version: u64) -> String {
        let before = self
            .versions
            .get(uid)
            .into_iter()
            .flatten()
            .filter(|other| **other < version);
        format!("<version {}>", before.count())
    }

    fn text(&mut self, text: &str) -> String {
        if is_present(text) {
            return format!("<time of {} characters>", text.len());
        }
        self.within(text)
    }

    /// Ids, versions and times inside texts for people.
    fn within(&mut self, text: &str) -> String {
        let mut masked = String::new();
        let mut left = text;
        while let Some(next) = left.chars().next() {
            let uid = left.get(..UID).filter(|candidate| is_uid(candidate));
            let time = left.get(..TIME).filter(|candidate| is_present(candidate));
            let taken = uid
                .or(time)
                .or_else(|| version(left))
                .map_or(next.len_utf8(), str::len);
            match (uid, time) {
                (Some(uid), _) => masked.push_str(&self.uid(uid)),
                (_, Some(_)) => masked.push_str("<time>"),
                _ if taken > 1 && next == '(' => masked.push_str("(<number>)"),
                _ => masked.push(next),
            }
            left = &left[taken..];
        }
        masked
    }

    fn uid(&mut self, uid: &str) -> String {
        let known = self.uids.iter().position(|known| known == uid);
        let index = known.unwrap_or_else(|| {
            self.uids.push(uid.to_owned());
            self.uids.len() - 1
        });
        format!("<uid {index}>")
    }
}

/// Of the metadata of an object: its uid and version.
fn identity(metadata: &Map<String, Value>) -> Option<(String, u64)> {
    let uid = metadata.get("uid")?.as_str()?.to_owned();
    Some((
        uid,
        metadata.get("resourceVersion")?.as_str()?.parse().ok()?,
    ))
}

/// A number in parentheses, as messages tell versions.
fn version(text: &str) -> Option<&str> {
    let end = text.find(')')?;
    let digits = text.get(1..end)?;
    let legal = text.starts_with('(')
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    legal.then(|| &text[..=end])
}

/// Each item of a list once.
fn once(list: &Value) -> Value {
    let mut all: Vec<Value> = Vec::new();
    for item in list.as_array().into_iter().flatten() {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all.into()
}

fn is_present(text: &str) -> bool {
    text.get(4..5) == Some("-")
        && text.parse::<jiff::Timestamp>().is_ok()
        && text[..4].parse::<i16>().is_ok_and(|year| year >= PRESENT)
}

fn is_uid(text: &str) -> bool {
    let shape = |(index, one): (usize, char)| match index {
        8 | 13 | 18 | 23 => one == '-',
        _ => one.is_ascii_hexdigit(),
    };
    text.len() == UID && text.chars().enumerate().all(shape)
}

#[test]
fn masks_ids_and_keeps_the_order_of_versions() {
    let uid = "0a0a0a0a-0a0a-4a0a-8a0a-0a0a0a0a0a0a";
    let of = |version: &str| serde_json::json!({"metadata": {"uid": uid, "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"}});
    let masked = Mask::answers(&[of("17"), of("19"), of("17"), format!("uid {uid}!").into()]);
    let versions: Vec<_> = masked[..3]
        .iter()
        .map(|one| one["metadata"]["resourceVersion"].as_str().unwrap())
        .collect();
    assert_eq!(versions, ["<version 0>", "<version 1>", "<version 0>"]);
    assert_eq!(
        (masked[0]["metadata"]["uid"].as_str(), masked[3].as_str()),
        (Some("<uid 0>"), Some("uid <uid 0>!"))
    );
    assert_eq!(
        masked[0]["metadata"]["creationTimestamp"],
        "<time of 20 characters>"
    );
}
