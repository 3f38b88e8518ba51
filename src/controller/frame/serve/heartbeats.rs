//! The heartbeats of the loops of this process, which the liveness probe checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The longest time between two turns of a loop, even if nothing happens.
const INTERVAL: Duration = Duration::from_secs(30);
/// The time after which a loop counts as stuck: each of its turns decides and waits for nothing,
/// which takes milliseconds. It is long enough for a process that is starved of CPU.
const LATE: Duration = Duration::from_secs(120);

/// The last turn of each loop that runs.
#[derive(Clone, Default)]
pub(crate) struct Heartbeats(Arc<Mutex<BTreeMap<&'static str, Instant>>>);

impl Heartbeats {
    /// Begins the heartbeat of one loop, which counts until it is dropped.
    pub(crate) fn begin(&self, of: &'static str) -> Heartbeat {
        let heartbeat = Heartbeat {
            of,
            all: self.clone(),
            last: Instant::now(),
        };
        self.note(of, Some(heartbeat.last));
        heartbeat
    }

    /// Returns a message about the loop that is stuck longest; `None` if none is.
    pub(crate) fn late(&self) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, age) = all
            .iter()
            .map(|(of, last)| (of, last.elapsed()))
            .max_by_key(|(_, age)| *age)
            .filter(|(_, age)| *age > LATE)?;
        let age = age.as_secs();
        Some(format!("the loop of {of} has been stuck for {age} s"))
    }

    /// Returns the loops that run.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<&'static str> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.keys().copied().collect()
    }

    fn note(&self, of: &'static str, last: Option<Instant>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match last {
            Some(last) => drop(all.insert(of, last)),
            None => drop(all.remove(of)),
        }
    }
}

/// The heartbeat of a loop that runs.
pub struct Heartbeat {
    of: &'static str,
    all: Heartbeats,
    last: Instant,
}

impl Heartbeat {
    /// Records a turn of the loop.
    pub(crate) fn beat(&mut self) {
        self.last = Instant::now();
        self.all.note(self.of, Some(self.last));
    }

    /// Completes when the next turn is due, whether or not there is something to do.
    pub(crate) async fn due(&self) {
        sleep_until(self.last + INTERVAL).await;
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.all.note(self.of, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_named_and_one_that_has_ended_is_not() {
        let all = Heartbeats::default();
        assert_eq!(all.late(), None, "nothing runs, so nothing stands still");
        let (mut pods, jobs) = (all.begin("pods"), all.begin("pull jobs"));
        tokio::time::advance(LATE).await;
        assert_eq!(all.late(), None);
        pods.beat();
        tokio::time::advance(Duration::from_secs(1)).await;
        let late = "the loop of pull jobs has been stuck for 121 s";
        assert_eq!(all.late().as_deref(), Some(late));
        drop(jobs);
        assert_eq!(all.late(), None);
    }
}
