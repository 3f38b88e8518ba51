//! The pinning of a job's tags: registries are queried, and their answers are stored in the status
//! before anything is pulled.

use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pull_job::Status;
use swaplet_core::warm::pull_job::object::{ListStatus, PullJob, PullStatus};
use swaplet_core::warm::pull_job::pins::{Pull, Resolved};

use super::Entry;

impl Entry {
    /// Returns the images whose digest is to be queried now.
    pub fn question(&mut self, now: Moment) -> Vec<Box<str>> {
        if self.is_completed() {
            return Vec::new();
        }
        let Ok(spec) = &self.job.spec else {
            return Vec::new();
        };
        self.pins.question(spec, &self.job.pinned, now)
    }

    /// Records the answers of registries.
    pub fn answered(&mut self, answers: Vec<(Box<str>, Resolved)>, now: Moment) {
        let (namespace, job) = (&self.job.namespace, &self.job.name);
        for (image, unresolved) in answers
            .iter()
            .filter_map(|(image, resolved)| Some((image, resolved.as_ref().err()?)))
        {
            tracing::warn!(%namespace, %job, %image, error = %unresolved.words, "the tag cannot be pinned to a digest");
        }
        self.has_news = true;
        if let Ok(spec) = &self.job.spec {
            self.pins.answered(answers, spec, now);
        }
    }

    /// Returns true if registries have to answer before the job can begin.
    pub(crate) fn waits_for_digests(&self) -> bool {
        self.job
            .spec
            .as_ref()
            .is_ok_and(|spec| self.pins.holds_up(spec, &self.job.pinned))
    }

    /// Checks whether the API server has kept the digests that were written.
    pub(crate) fn digests_were_written(&mut self, written: &Status, stored: &PullJob) {
        let (Status::Pull(PullStatus { pinned, .. }) | Status::List(ListStatus { pinned, .. })) =
            written;
        if let (true, Ok(spec)) = (
            stored.pinned.is_empty() && pinned.as_ref().is_some_and(|pinned| !pinned.is_empty()),
            &self.job.spec,
        ) {
            self.has_news = true;
            self.pins.are_not_kept(spec);
        }
    }

    /// Returns an image for which nothing is pulled because its tag is not pinned, with the reason.
    pub(crate) fn not_pinned(&self) -> Option<String> {
        self.run
            .as_ref()?
            .targets
            .iter()
            .find_map(|target| match &target.pull {
                Pull::Image(_) => None,
                Pull::Waits => Some(format!("{}: its tag is not pinned yet", target.image)),
                Pull::Fails(why) => Some(format!("{}: {why}", target.image)),
            })
    }
}
