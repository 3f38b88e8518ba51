//! Back-offs that double, each under a key; another key (another name of an image) starts again.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::virtual_node::times::later;

/// The first back-off, unless the longest is shorter.
const FIRST: Duration = Duration::from_secs(10);

/// The back-offs of one pod.
#[derive(Clone, Debug, Default)]
pub struct Backoffs {
    entries: HashMap<String, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    wait: Duration,
    updated: Timestamp,
}

impl Backoffs {
    /// Returns the back-off that is active at `now` after an event at `since`, if any.
    pub fn waiting(
        &self,
        key: &str,
        since: Timestamp,
        now: Timestamp,
        longest: Duration,
    ) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        let on = !entry.is_over(since, longest) && now < later(since, entry.wait);
        on.then_some(entry.wait)
    }

    /// Returns the back-off that is active at `now` after the last failure, if any.
    pub fn waiting_since_failure(&self, key: &str, now: Timestamp) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        (now < later(entry.updated, entry.wait)).then_some(entry.wait)
    }

    /// Records a failure: the next one has a longer back-off, unless the last one was long ago.
    pub fn next(&mut self, key: &str, since: Timestamp, now: Timestamp, longest: Duration) {
        let before = self
            .entries
            .get(key)
            .filter(|entry| !entry.is_over(since, longest));
        let wait = before.map_or(FIRST, |entry| entry.wait * 2).min(longest);
        self.entries
            .insert(key.to_owned(), Entry { wait, updated: now });
    }
}

impl Entry {
    /// Returns true if twice the longest back-off (ten minutes) passed without a failure: a reset.
    fn is_over(&self, since: Timestamp, longest: Duration) -> bool {
        since > later(self.updated, longest * 2)
    }
}
