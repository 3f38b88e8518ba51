//! Pre-downloads that are done without an object, because none can be made.

use std::collections::BTreeSet;

use swaplet_core::warm::pull_job::object::{Completion, JobKind, PullJob};

use crate::warm::jobs::PullJobs;
use crate::warm::jobs::entry::Entry;
use crate::warm::jobs::messages::key_of;

impl PullJobs {
    /// These there are from now on.
    pub(crate) fn see_own(&mut self, jobs: &[PullJob]) {
        let keys: BTreeSet<_> = jobs.iter().map(key_of).collect();
        self.jobs.all.retain(|key, entry| {
            entry.has_object() || key.0 != JobKind::ImagePullJob || keys.contains(key)
        });
        for job in jobs {
            self.jobs
                .all
                .entry(key_of(job))
                .or_insert_with(|| Entry::without_object(job.clone()));
        }
    }

    /// Whether somebody has asked for images who is not the installation itself, and that is not
    /// over.
    pub fn is_asked_for(&self) -> bool {
        self.jobs
            .all
            .values()
            .any(|entry| !entry.is_of_installation() && !entry.is_completed())
    }
}

impl Entry {
    /// Whether it keeps on the nodes what the installation itself needs: of jobs without an object
    /// no other goes on for ever.
    pub fn is_of_installation(&self) -> bool {
        !self.has_object()
            && self
                .spec()
                .is_ok_and(|spec| spec.completion == Completion::Never)
    }
}
