//! The work queue of the testbed's controllers: keys, each due at some time.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// A set of keys, each with the time at which it is due.
#[derive(Debug)]
pub struct Queue<K> {
    due: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            due: HashMap::new(),
            failures: HashMap::new(),
        }
    }
}

/// The first and the longest backoff after failures, those of the real Job controller.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Adds a key, or brings it forward.
    pub fn add(&mut self, key: K, delay: Duration) {
        let at = Instant::now() + delay;
        let slot = self.due.entry(key).or_insert(at);
        *slot = at.min(*slot);
    }

    /// Adds a key again after a failure, later each time.
    pub fn retry(&mut self, key: K) {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let delay = RETRY.0.saturating_mul(1 << (*failures).min(6)).min(RETRY.1);
        *failures += 1;
        self.add(key, delay);
    }

    /// Forgets the failures of a key.
    pub fn succeeded(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Waits for the next key that is due; forever if there is none.
    pub async fn next(&mut self) -> K {
        // Ties are broken by key, so that runs are deterministic.
        let next = self
            .due
            .iter()
            .min_by_key(|(key, at)| (**at, (*key).clone()))
            .map(|(key, at)| (key.clone(), *at));
        let Some((key, at)) = next else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(at).await;
        self.due.remove(&key);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gives_keys_in_the_order_of_their_times() {
        let mut queue = Queue::default();
        queue.add("late", Duration::from_secs(5));
        queue.add("early", Duration::from_secs(1));
        queue.add("late", Duration::from_secs(9));
        let start = Instant::now();
        assert_eq!((queue.next().await, queue.next().await), ("early", "late"));
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        queue.retry("again");
        queue.next().await;
        queue.retry("again");
        queue.next().await;
        assert_eq!(start.elapsed(), Duration::from_secs(8));
    }
}
