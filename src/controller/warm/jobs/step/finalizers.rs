//! OpenKruise's finalizer on jobs that are being deleted. Nothing else removes it where OpenKruise
//! is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pull_job::object::PullJob;

use crate::warm::jobs::{Key, PullWrite, key_of};

/// The wait after the answer before the removal from the same job is retried.
const AGAIN: Duration = Duration::from_secs(30);

/// The jobs that are being deleted and have the finalizer.
#[derive(Default)]
pub(crate) struct Finalizers {
    jobs: BTreeMap<Key, Held>,
}

struct Held {
    job: PullJob,
    /// The earliest time of the next removal; `None` while one is in flight.
    not_before: Option<Moment>,
}

impl Finalizers {
    pub fn observe(&mut self, key: &Key, job: &PullJob) {
        if !job.deleting || job.other_finalizers.is_none() {
            return self.forget(key);
        }
        let known = self.jobs.get(key).filter(|held| {
            let is_same = held.job.version == job.version;
            held.job.uid == job.uid && (is_same || held.not_before.is_none())
        });
        let not_before = known.map_or(Some(Moment::START), |held| held.not_before);
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

    pub fn step(&mut self, now: Moment) -> Vec<PullWrite> {
        let is_due = |held: &&mut Held| held.not_before.is_some_and(|time| now >= time);
        let due = self.jobs.values_mut().filter(is_due);
        due.map(|held| {
            held.not_before = None;
            PullWrite::Release(Box::new(held.job.clone()))
        })
        .collect()
    }

    /// Records the answer to a removal; a later version that the watch shows counts.
    pub fn written(&mut self, job: &PullJob, is_removed: bool, now: Moment) {
        let key = key_of(job);
        let held = self.jobs.get_mut(&key);
        let Some(held) = held.filter(|held| held.job.uid == job.uid) else {
            return;
        };
        if held.job.version != job.version {
            held.not_before = Some(now);
        } else if is_removed {
            self.forget(&key);
        } else {
            held.not_before = Some(now + AGAIN);
        }
    }

    pub fn next_due(&self) -> Option<Moment> {
        self.jobs.values().filter_map(|held| held.not_before).min()
    }
}
