//! Matching of differences against the list of those that are known.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::compare::Difference;

/// A difference that stays, with its reason.
#[derive(Debug)]
pub struct Known {
    /// Which operations, for example `json-patch pods`; `*` stands for anything.
    pub operation: &'static str,
    /// Where in the answer; `*` stands for anything.
    pub path: &'static str,
    /// What the real thing says there: a part of its JSON text, with `*`.
    pub real: &'static str,
    /// What the fake says there: a part of its JSON text, with `*`.
    pub fake: &'static str,
    /// Why it may stay.
    pub why: &'static str,
}

/// The list, with how often each entry was met.
pub struct KnownList {
    entries: &'static [Known],
    met: Vec<AtomicUsize>,
}

impl KnownList {
    pub fn new(entries: &'static [Known]) -> Self {
        Self {
            entries,
            met: entries.iter().map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Whether the list has this difference; counts it.
    pub fn has(&self, difference: &Difference) -> bool {
        let found = self.entries.iter().position(|known| known.is(difference));
        found
            .inspect(|index| _ = self.met[*index].fetch_add(1, Ordering::Relaxed))
            .is_some()
    }

    /// How many differences were met that are known.
    pub fn count(&self) -> usize {
        self.met.iter().map(|met| met.load(Ordering::Relaxed)).sum()
    }

    /// Entries that were met, and those that were not.
    pub fn by_use(&self) -> (Vec<(usize, &'static Known)>, Vec<&'static Known>) {
        let all: Vec<_> = self
            .met
            .iter()
            .map(|met| met.load(Ordering::Relaxed))
            .zip(self.entries)
            .collect();
        let stale = all
            .iter()
            .filter(|(met, _)| *met == 0)
            .map(|(_, known)| *known)
            .collect();
        (all.into_iter().filter(|(met, _)| *met > 0).collect(), stale)
    }
}

impl Known {
    fn is(&self, difference: &Difference) -> bool {
        let within = |pattern: &str, value: &serde_json::Value| {
            glob(&format!("*{pattern}*"), &value.to_string())
        };
        glob(self.operation, &difference.operation)
            && glob(self.path, &difference.path)
            && within(self.real, &difference.real)
            && within(self.fake, &difference.fake)
    }
}

/// Whether the pattern, in which `*` stands for anything, is the whole text.
pub fn glob(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = text
        .strip_prefix(start)
        .and_then(|text| text.strip_suffix(end))
    else {
        return false;
    };
    for part in middle.split('*') {
        let Some(place) = left.find(part) else {
            return false;
        };
        left = &left[place + part.len()..];
    }
    true
}

#[test]
fn patterns_match_whole_texts() {
    assert!(glob("json-patch *", "json-patch pods") && glob("a*c*", "abcd") && glob("*", ""));
    assert!(!glob("a", "ab") && !glob("a*c", "ab") && !glob("*x*", "abc"));
}
