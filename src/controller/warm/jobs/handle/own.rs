//! Pre-downloads that are done without an object, because none can be created.

use std::collections::BTreeSet;

use swaplet_core::warm::pull_job::object::{Completion, JobKind, PullJob};

use crate::warm::jobs::PullJobs;
use crate::warm::jobs::entry::Entry;
use crate::warm::jobs::key_of;

impl PullJobs {
    /// Replaces the pre-downloads without an object by these.
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

    /// Returns true if there is an uncompleted job besides the one for the installation's own
    /// images.
    pub fn is_asked_for(&self) -> bool {
        self.jobs
            .all
            .values()
            .any(|entry| !entry.is_of_installation() && !entry.is_completed())
    }
}

impl Entry {
    /// Returns true for the job of the installation's own images: it is the only job without an
    /// object that is of type `Never`.
    pub fn is_of_installation(&self) -> bool {
        !self.has_object()
            && self
                .spec()
                .is_ok_and(|spec| spec.completion == Completion::Never)
    }
}
