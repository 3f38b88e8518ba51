//! The audit log: who wrote what to which pod, and when, by the clock of the API server.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::Result;
use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Reads a log as it grows.
pub struct AuditLog {
    file: PathBuf,
    offset: u64,
}

/// One request that was answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    stage: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    user: User,
    #[serde(default, rename = "requestURI")]
    uri: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    #[serde(rename = "requestReceivedTimestamp", deserialize_with = "micros")]
    received: i64,
    #[serde(rename = "stageTimestamp", deserialize_with = "micros")]
    answered: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let time: Timestamp = String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)?;
    Ok(time.as_microsecond())
}

/// When a request came and when it was answered, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When the server had it.
    pub received: i64,
    /// When its answer was complete.
    pub answered: i64,
}

impl AuditLog {
    /// A log of which everything is new.
    pub fn new(file: PathBuf) -> Self {
        Self { file, offset: 0 }
    }

    /// What has come since the last call.
    ///
    /// # Errors
    /// Where the log cannot be read.
    pub fn take(&mut self) -> Result<Vec<Entry>> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.offset += whole as u64;
        text[..whole]
            .lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }
}

impl Entry {
    /// Whether this user was answered: watches count when they begin, everything else when it ends.
    pub fn is_of(&self, user: &str) -> bool {
        let stage = if self.verb == "watch" {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        self.user.username == user && self.stage == stage
    }

    fn succeeded(&self) -> bool {
        (200..300).contains(&self.response_status.code)
    }

    /// What it is about, as in `pods/status`.
    pub fn resource(&self) -> String {
        let ObjectRef {
            resource,
            subresource,
            ..
        } = &self.object_ref;
        if subresource.is_empty() {
            resource.clone()
        } else {
            format!("{resource}/{subresource}")
        }
    }

    fn span(&self) -> Span {
        Span {
            received: self.received,
            answered: self.answered,
        }
    }
}

/// The first write of each pod of a set by this user that succeeded.
pub fn first_writes(
    entries: &[Entry],
    user: &str,
    resource: &str,
    set: &str,
) -> HashMap<String, Span> {
    one_of_each(writes(entries, user, resource, set), |new, known| {
        new.received < known.received
    })
}

/// As [`first_writes`], the last one.
pub fn last_writes(
    entries: &[Entry],
    user: &str,
    resource: &str,
    set: &str,
) -> HashMap<String, Span> {
    one_of_each(writes(entries, user, resource, set), |new, known| {
        new.received > known.received
    })
}

/// Of each name the span that is before all others.
fn one_of_each<'a>(
    spans: impl Iterator<Item = (&'a str, Span)>,
    is_before: fn(&Span, &Span) -> bool,
) -> HashMap<String, Span> {
    let mut chosen = HashMap::new();
    for (name, span) in spans {
        let known = chosen.entry(name.to_owned()).or_insert(span);
        if is_before(&span, known) {
            *known = span;
        }
    }
    chosen
}

/// Writes of pods of a set by this user that succeeded.
fn writes<'a>(
    entries: &'a [Entry],
    user: &'a str,
    resource: &'a str,
    set: &str,
) -> impl Iterator<Item = (&'a str, Span)> + use<'a> {
    let prefix = format!("{set}-");
    entries
        .iter()
        .filter(move |entry| {
            entry.is_of(user)
                && entry.succeeded()
                && ["patch", "update"].contains(&entry.verb.as_str())
                && entry.resource() == resource
                && entry.object_ref.name.starts_with(&prefix)
        })
        .map(|entry| (entry.object_ref.name.as_str(), entry.span()))
}

/// How often a user sent each verb for each resource.
pub fn requests(entries: &[Entry], user: &str) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_of(user)) {
        *counts
            .entry((entry.verb.clone(), entry.resource()))
            .or_default() += 1;
    }
    counts
}

/// Requests to a resource with one of these verbs.
pub fn count(entries: &[Entry], user: &str, verbs: &[&str], resource: &str) -> usize {
    requests(entries, user)
        .iter()
        .filter(|((verb, of), _)| verbs.contains(&verb.as_str()) && of == resource)
        .map(|(_, number)| number)
        .sum()
}

/// How often a user began to read all objects of a resource: lists, of which further pages do not
/// count, and watches that stream what is there.
pub fn full_reads(entries: &[Entry], user: &str, resource: &str) -> usize {
    let reads = entries
        .iter()
        .filter(|entry| entry.is_of(user) && entry.resource() == resource);
    let is_full = |entry: &&Entry| match entry.verb.as_str() {
        "list" => !entry.uri.contains("continue="),
        "watch" => entry.uri.contains("sendInitialEvents=true"),
        _ => false,
    };
    reads.filter(is_full).count()
}

/// Events that a user sent between these times.
pub fn events_between(entries: &[Entry], user: &str, from: i64, to: i64) -> usize {
    let events = entries
        .iter()
        .filter(|entry| entry.is_of(user) && entry.object_ref.resource == "events");
    events
        .filter(|entry| (from..to).contains(&entry.span().received))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(
        user: &str,
        verb: &str,
        resource: &str,
        subresource: &str,
        name: &str,
        code: u16,
        second: u32,
    ) -> String {
        let stage = if verb == "watch" {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        format!(
            r#"{{"kind":"Event","stage":"{stage}","verb":"{verb}","user":{{"username":"{user}","groups":["g"]}},"objectRef":{{"resource":"{resource}","subresource":"{subresource}","name":"{name}"}},"responseStatus":{{"metadata":{{}},"code":{code}}},"requestReceivedTimestamp":"2026-11-25T09:00:{second:02}.000001Z","stageTimestamp":"2026-11-25T09:00:{second:02}.002001Z"}}"#
        )
    }

    fn read(lines: &[String]) -> Vec<Entry> {
        lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn the_first_write_that_succeeded_counts_and_only_of_the_set() {
        let entries = read(&[
            entry("a", "patch", "pods", "", "burst-1", 422, 1),
            entry("a", "patch", "pods", "", "burst-1", 200, 3),
            entry("a", "patch", "pods", "", "burst-1", 200, 2),
            entry("a", "patch", "pods", "status", "burst-2", 200, 2),
            entry("a", "patch", "pods", "", "probe-1", 200, 2),
            entry("b", "patch", "pods", "", "burst-3", 200, 2),
        ]);
        let first = first_writes(&entries, "a", "pods", "burst");
        assert_eq!(first.len(), 1);
        assert_eq!(first["burst-1"].received % 60_000_000, 2_000_001);
        assert_eq!(first["burst-1"].answered - first["burst-1"].received, 2_000);
    }

    #[test]
    fn requests_are_counted_by_verb_and_events_by_their_time() {
        let entries = read(&[
            entry("a", "create", "events", "", "", 201, 1),
            entry("a", "create", "events", "", "", 201, 5),
            entry("a", "watch", "pods", "", "", 200, 1),
            entry("b", "create", "events", "", "", 201, 1),
        ]);
        assert_eq!(count(&entries, "a", &["create", "patch"], "events"), 2);
        assert_eq!(requests(&entries, "a").len(), 2);
        let first = entries[0].span().received;
        assert_eq!(events_between(&entries, "a", first, first + 1_000_000), 1);
    }

    #[test]
    fn a_list_in_pages_and_a_watch_that_streams_are_full_reads() {
        let line = |verb: &str, uri: &str| {
            entry("a", verb, "pods", "", "", 200, 1).replacen(
                '{',
                &format!(r#"{{"requestURI":"{uri}","#),
                1,
            )
        };
        let entries = read(&[
            line("list", "/api/v1/pods?limit=500"),
            line("list", "/api/v1/pods?limit=500&continue=abc"),
            line("watch", "/api/v1/pods?watch=1&sendInitialEvents=true"),
            line("watch", "/api/v1/pods?watch=1&resourceVersion=7"),
        ]);
        assert_eq!(full_reads(&entries, "a", "pods"), 2);
        assert_eq!(full_reads(&entries, "b", "pods"), 0);
    }

    #[test]
    fn a_line_that_is_not_complete_yet_is_read_later() {
        let file = std::env::temp_dir().join(format!("swaplet-bench-audit-{}", std::process::id()));
        let line = entry("a", "create", "events", "", "", 201, 1);
        std::fs::write(&file, format!("{line}\n{}", &line[..40])).unwrap();
        let mut log = AuditLog::new(file.clone());
        assert_eq!(log.take().unwrap().len(), 1);
        assert_eq!(log.take().unwrap().len(), 0);
        std::fs::write(&file, format!("{line}\n{line}\n")).unwrap();
        assert_eq!(log.take().unwrap().len(), 1);
        std::fs::remove_file(file).unwrap();
    }
}
