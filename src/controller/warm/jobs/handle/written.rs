//! The results of writes.

use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pull_job::object::PullJob;

use crate::frame::clock::Now;
use crate::warm::jobs::PullJobs;
use crate::warm::jobs::entry::Entry;
use crate::warm::jobs::{PullAnswer, PullWrite, key_of};

impl PullJobs {
    pub(in crate::warm::jobs) fn written(
        &mut self,
        (write, answer): (PullWrite, PullAnswer),
        now: Now,
    ) {
        let moment = now.moment;
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
                self.jobs.with(&key, moment, |entry| {
                    entry.warmed(&warmers, &node, &action, answer, moment)
                });
            }
            (PullWrite::Report { job, report }, PullAnswer::Reported(result)) => {
                self.with_job(&job, moment, |entry| {
                    entry.reported(&job, &report, result, moment)
                });
            }
            (PullWrite::DeleteJob(job), PullAnswer::Done(_)) => {
                self.with_job(&job, moment, |entry| entry.deletion_was_sent(moment));
            }
            (PullWrite::Release(job), PullAnswer::Done(answer)) => {
                self.finalizers.written(&job, answer.is_ok(), moment)
            }
            (PullWrite::Untaint(untaint), PullAnswer::Done(answer)) => {
                self.untainted(&untaint, &answer, moment)
            }
            (PullWrite::CreateCache(cache), PullAnswer::Done(answer)) => {
                self.caches
                    .iter_mut()
                    .for_each(|caches| caches.was_written(&cache, &answer, moment));
            }
            (PullWrite::DeletePod(pod), PullAnswer::Done(answer)) => {
                self.deletion_was_answered(&pod, &answer, moment)
            }
            // Other pairs do not occur.
            _ => {}
        }
    }

    /// Runs `work` on the job that a write was for; not on another one that has its name by now.
    fn with_job(&mut self, job: &PullJob, now: Moment, work: impl FnOnce(&mut Entry)) {
        self.jobs.with(&key_of(job), now, |entry| {
            if *entry.uid() == *job.uid {
                work(entry);
            }
        });
    }
}
