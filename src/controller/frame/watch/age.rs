//! The time since the API server was last heard of on each watch: by an event, a bookmark, a page
//! of a list, or the opening of the watch.
//!
//! Watches are reopened every 45 s, so the age of a live one stays under a minute, even on a quiet
//! cluster. Events that the loop does not take are not read any more either, so the age grows for a
//! stuck loop as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The ages of all watches that record them.
#[derive(Clone, Debug, Default)]
pub struct WatchAges(Arc<Mutex<Ages>>);

#[derive(Debug, Default)]
struct Ages {
    /// The watches by their number; `None` where the API server forbids the watch.
    watches: BTreeMap<u64, (Box<str>, Option<Instant>)>,
    begun: u64,
}

/// The age of one watch, which counts until it is dropped.
#[derive(Debug)]
pub struct WatchAge {
    ages: WatchAges,
    number: u64,
}

impl WatchAges {
    /// Begins the age of a watch of this resource, as heard of now.
    pub fn begin(&self, resource: &str) -> WatchAge {
        let mut ages = self.lock();
        ages.begun += 1;
        let number = ages.begun;
        ages.watches
            .insert(number, (resource.into(), Some(Instant::now())));
        WatchAge {
            ages: self.clone(),
            number,
        }
    }

    /// Returns, by resource in the plural, the age of the watch that was heard of longest ago. A
    /// watch that is forbidden has none.
    pub fn all(&self) -> BTreeMap<Box<str>, Duration> {
        let now = Instant::now();
        let mut oldest = BTreeMap::new();
        for (resource, at) in self.lock().watches.values() {
            if let Some(at) = at {
                let age = oldest.entry(resource.clone()).or_insert(Duration::ZERO);
                *age = (*age).max(now.saturating_duration_since(*at));
            }
        }
        oldest
    }

    fn lock(&self) -> MutexGuard<'_, Ages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchAge {
    /// Records that the API server has sent something.
    pub fn heard(&self) {
        self.note(Some(Instant::now()));
    }

    /// Records that the API server forbids the watch.
    pub fn forbidden(&self) {
        self.note(None);
    }

    fn note(&self, at: Option<Instant>) {
        if let Some((_, noted)) = self.ages.lock().watches.get_mut(&self.number) {
            *noted = at;
        }
    }
}

impl Drop for WatchAge {
    fn drop(&mut self) {
        self.ages.lock().watches.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn seconds(ages: &WatchAges) -> Vec<(String, u64)> {
        ages.all()
            .into_iter()
            .map(|(resource, age)| (resource.into_string(), age.as_secs()))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_a_resource_counts_as_long_as_it_is_watched() {
        let ages = WatchAges::default();
        let (a, b, jobs) = (ages.begin("pods"), ages.begin("pods"), ages.begin("jobs"));
        advance(Duration::from_secs(50)).await;
        b.heard();
        jobs.forbidden();
        assert_eq!(seconds(&ages), [("pods".to_owned(), 50)]);
        drop(a);
        jobs.heard();
        advance(Duration::from_secs(7)).await;
        assert_eq!(
            seconds(&ages),
            [("jobs".to_owned(), 7), ("pods".to_owned(), 7)]
        );
        drop((b, jobs));
        assert_eq!(seconds(&ages), []);
    }
}
