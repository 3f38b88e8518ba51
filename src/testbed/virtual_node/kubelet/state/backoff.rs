//! Waits that double, each under a key; another key (another image) starts afresh.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::virtual_node::times::later;

/// The waits of one pod.
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
    /// The wait that is still on at `now` for something that happened at `since`, if any.
    #[must_use]
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

    /// The wait that is on at `now` since the last failure, if any.
    #[must_use]
    pub fn waiting_since_failure(&self, key: &str, now: Timestamp) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        (now < later(entry.updated, entry.wait)).then_some(entry.wait)
    }

    /// The next failure is followed by a longer wait, unless the last one was long ago.
    pub fn next(
        &mut self,
        key: &str,
        since: Timestamp,
        now: Timestamp,
        (first, longest): (Duration, Duration),
    ) {
        let before = self
            .entries
            .get(key)
            .filter(|entry| !entry.is_over(since, longest));
        let wait = before.map_or(first, |entry| (entry.wait * 2).min(longest));
        self.entries
            .insert(key.to_owned(), Entry { wait, updated: now });
    }
}

impl Entry {
    /// Twice the longest wait without a failure, and all is forgotten: ten minutes.
    fn is_over(&self, since: Timestamp, longest: Duration) -> bool {
        since > later(self.updated, longest * 2)
    }
}
