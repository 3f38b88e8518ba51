//! The results of writes.

use crate::frame::clock::Now;
use crate::frame::writer::Outcome;
use crate::warm::jobs::PullJobs;
use crate::warm::jobs::messages::{PullAnswer, PullWrite, key_of};
use crate::warm::jobs::step::orphans::DENIED_AGAIN;

impl PullJobs {
    pub(in crate::warm::jobs) fn written(
        &mut self,
        (write, answer): (PullWrite, PullAnswer),
        now: Now,
    ) {
        let since_start = now.since_start;
        match (write, answer) {
            (
                PullWrite::Warm {
                    key,
                    warmers,
                    node,
                    action,
                },
                PullAnswer::Warm(answer),
            ) => {
                self.jobs.with(&key, since_start, |entry| {
                    entry.warmed(&warmers, &node, &action, answer, since_start)
                });
            }
            (PullWrite::Report { job, report }, PullAnswer::Reported(result)) => {
                self.jobs.with(&key_of(&job), since_start, |entry| {
                    entry.reported(&job, &report, result, since_start)
                });
            }
            (PullWrite::DeleteJob(job), PullAnswer::Deleted(_)) => {
                self.jobs.with(&key_of(&job), since_start, |entry| {
                    entry.deletion_was_sent(since_start)
                });
            }
            (PullWrite::Release(job), PullAnswer::Deleted(Ok(()))) => self.finalizers.written(&job),
            (PullWrite::Untaint(untaint), PullAnswer::Warm(answer)) => {
                self.untainted(&untaint, &answer, since_start)
            }
            (PullWrite::CreateCache(cache), PullAnswer::Cache(outcome)) => {
                self.caches
                    .iter_mut()
                    .for_each(|caches| caches.was_written(&cache, &outcome, since_start));
            }
            (PullWrite::DeletePod(pod), PullAnswer::Deleted(Err(Outcome::Denied(_)))) => {
                if let Some(again) = self.deletions.get_mut(&pod.uid) {
                    *again = since_start + DENIED_AGAIN;
                }
            }
            // The watch shows what becomes of a deleted pod; other pairs do not occur.
            _ => {}
        }
    }
}
