//! OpenKruise's finalizer on jobs that are being deleted. Nothing else removes it where OpenKruise
//! is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use swaplet_core::warm::pull_job::object::PullJob;

use crate::warm::jobs::messages::{Key, PullWrite, key_of};

/// The wait before the removal from the same job is retried.
const AGAIN: Duration = Duration::from_secs(30);

/// The jobs that are being deleted and have the finalizer.
#[derive(Default)]
pub(crate) struct Finalizers {
    jobs: BTreeMap<Key, Held>,
}

struct Held {
    job: PullJob,
    not_before: Duration,
}

impl Finalizers {
    pub fn observe(&mut self, key: &Key, job: &PullJob) {
        if !job.deleting || job.other_finalizers.is_none() {
            return self.forget(key);
        }
        let known = self
            .jobs
            .get(key)
            .filter(|held| held.job.uid == job.uid && held.job.version == job.version);
        let not_before = known.map_or(Duration::ZERO, |held| held.not_before);
        self.jobs.insert(
            key.clone(),
            Held {
                job: job.clone(),
                not_before,
            },
        );
    }

    pub fn forget(&mut self, key: &Key) {
        self.jobs.remove(key);
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.jobs.keys()
    }

    pub fn step(&mut self, now: Duration) -> Vec<PullWrite> {
        let due = self.jobs.values_mut().filter(|held| now >= held.not_before);
        due.map(|held| {
            held.not_before = now + AGAIN;
            PullWrite::Release(Box::new(held.job.clone()))
        })
        .collect()
    }

    /// Records that the finalizer was removed; a later version that the watch shows counts.
    pub fn written(&mut self, job: &PullJob) {
        let key = key_of(job);
        if self
            .jobs
            .get(&key)
            .is_some_and(|held| held.job.uid == job.uid && held.job.version == job.version)
        {
            self.forget(&key);
        }
    }

    pub fn next_due(&self) -> Option<Duration> {
        self.jobs.values().map(|held| held.not_before).min()
    }
}
