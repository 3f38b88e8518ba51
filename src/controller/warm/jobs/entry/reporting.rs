//! The writes to the job object itself, and its Events.

use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::decision::Report as Told;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pull_job::object::PullJob;
use swaplet_core::warm::pull_job::{Known, status, time_to_live, unusable};
use swaplet_core::warm::warming::Ended;

use super::{Entry, FIRST_RETRY};
use crate::frame::clock::Now;
use crate::frame::writer::report::Notice;
use crate::frame::writer::{Target, is_missing_right};
use crate::warm::jobs::PullWrite;
use crate::warm::jobs::step::{AGAIN, log_refusal};
use crate::warm::write::Report;

/// The interval of status writes of a job under way: each image on each node changes its counts.
const REPORT_AGAIN: Duration = Duration::from_secs(3);
/// The most Events of one job, because each node may fail.
const MOST_EVENTS: usize = 10;
/// The back-off after status writes that were not applied.
const RETRY: Backoff = Backoff {
    first: FIRST_RETRY,
    longest: Duration::from_secs(60),
};

impl Entry {
    /// Returns an Event about an image that is missing on a node; `None` for a job without an
    /// object, beyond the limit (the status has all), and for a missing right.
    pub fn notice(&mut self, ended: &Ended, why: &str) -> Option<Notice> {
        // A missing right is reported once, for all jobs.
        if !self.has_object || self.events >= MOST_EVENTS || is_missing_right(why) {
            return None;
        }
        self.events += 1;
        let note = format!(
            "the image {} is not on node {}: {why}",
            ended.image, ended.node
        );
        Some(Notice {
            target: Target::of_pull_job(&self.job),
            report: Told {
                reason: Reason::PullImageFailed,
                note,
            },
        })
    }

    /// Returns the next write to the job: its status or its deletion.
    pub fn report(&mut self, now: Now) -> Option<PullWrite> {
        if !self.has_object || self.is_writing || now.moment < self.not_before {
            return None;
        }
        let write = if self.is_completed() {
            self.delete_in_time(now)
        } else {
            self.report_news(now)
        };
        self.is_writing = write.is_some();
        write
    }

    fn delete_in_time(&self, now: Now) -> Option<PullWrite> {
        let is_due = time_to_live(&self.job, now.today).is_some_and(|left| left.is_zero());
        is_due.then(|| PullWrite::DeleteJob(self.job.clone()))
    }

    fn report_news(&mut self, now: Now) -> Option<PullWrite> {
        let may_begin = self.may_begin();
        // Counting takes time in proportion to the nodes, so it is done only if something has
        // changed, or if the end depends on time.
        let counts = self
            .run
            .as_mut()
            .is_some_and(|run| run.warming.take_changed() || run.warming.waits_for_its_end());
        if !std::mem::take(&mut self.has_news) && !counts {
            return None;
        }
        let (status, is_over) = match (&self.job.spec, &mut self.run) {
            (Err(problem), _) => (unusable(self.job.kind, problem), true),
            (Ok(_), Some(run)) => {
                // Nothing is left to do for one that gave up, although its pods were never listed.
                let may_end = may_begin || run.gave_up.is_some();
                let is_over = may_end && run.is_over(now.moment);
                let known = Known {
                    spec: &run.spec,
                    warming: &run.warming,
                    cached: &run.cached,
                    waits_for_watch: self.selected.waits,
                    waits_for_pods: (!self.selected.are_known()).then_some(&*self.selected.trouble),
                    waits_for_room: self.waits_for_room,
                };
                (status(self.job.kind, known, run.stage(is_over)), is_over)
            }
            (Ok(_), None) => return None,
        };
        if !is_over && self.reported.as_ref() == Some(&status) {
            return None;
        }
        let started_at = self.started_at.unwrap_or(now.today);
        let report = Report {
            status,
            started_at,
            completed_at: is_over.then_some(now.today),
        };
        Some(PullWrite::Report {
            job: self.job.clone(),
            report: Box::new(report),
        })
    }

    pub fn reported(
        &mut self,
        job: &PullJob,
        report: &Report,
        result: Result<(), WriteError>,
        now: Moment,
    ) {
        self.is_writing = false;
        match result {
            Ok(()) => {
                // The first write records the start; what it delayed is reported by the next one.
                self.has_news = true;
                (self.failures, self.not_before) = (0, now + REPORT_AGAIN);
                // A job that has changed meanwhile was observed after this write, with its start.
                if job.generation == self.job.generation {
                    self.started_at = Some(report.started_at);
                    self.reported = Some(report.status.clone());
                    self.completed = report.completed_at.map(|_| job.generation);
                }
            }
            // The watch will show why.
            Err(WriteError::Conflict | WriteError::Gone) => {
                (self.not_before, self.has_news) = (now + RETRY.first, true)
            }
            Err(WriteError::Denied(error) | WriteError::Failed { error, .. }) => {
                // A missing right is reported once, for all jobs.
                if !is_missing_right(&error) {
                    tracing::warn!(namespace = %job.namespace, job = %job.name, error, "the status was not written; trying again later");
                }
                self.not_before = now + RETRY.after(self.failures);
                (self.failures, self.has_news) = (self.failures + 1, true);
            }
        }
    }

    /// Records the answer to the deletion of the job. The watch shows when it is gone.
    pub fn was_deleted(&mut self, answer: &Result<(), WriteError>, now: Moment) {
        log_refusal(
            &self.job,
            "the job, whose time is over, is not deleted",
            answer,
        );
        self.is_writing = false;
        self.not_before = now + AGAIN.after(self.failures);
        self.failures += u32::from(answer.is_err());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use swaplet_core::warm::pull_job::object::JobKind;

    use super::*;

    const STARTED: &str = "2026-01-01T00:00:00Z";
    const COMPLETED: &str = "2026-01-01T00:01:00Z";

    fn job(generation: i64, status: &Value) -> Arc<PullJob> {
        let mut metadata = json!({"name": "j", "namespace": "team", "uid": "u"});
        metadata["generation"] = generation.into();
        let object = json!({"metadata": metadata, "spec": {"image": "a"}, "status": status});
        let object = serde_json::from_value(object).unwrap();
        PullJob::read(JobKind::ImagePullJob, object).unwrap().into()
    }

    fn started(generation: i64) -> Arc<PullJob> {
        job(generation, &json!({"startTime": STARTED}))
    }

    fn completed(generation: i64) -> Arc<PullJob> {
        let mut status = json!({"startTime": STARTED, "completionTime": COMPLETED});
        status["observedGeneration"] = 1.into();
        job(generation, &status)
    }

    #[test]
    fn a_job_that_changes_before_its_completion_is_answered_starts_anew() {
        let mut entry = Entry::new(started(1));
        entry.apply(completed(1));
        entry.apply(completed(2));
        assert_eq!(entry.started_at, None);
        let report = Report {
            status: unusable(JobKind::ImagePullJob, "x"),
            started_at: STARTED.parse().unwrap(),
            completed_at: Some(COMPLETED.parse().unwrap()),
        };
        entry.reported(&started(1), &report, Ok(()), Moment::START);
        assert_eq!((entry.started_at, &entry.reported), (None, &None));
        assert!(!entry.is_completed());
    }

    #[test]
    fn a_job_that_was_completed_and_changed_while_nothing_was_seen_starts_anew() {
        let mut entry = Entry::new(started(1));
        entry.apply(completed(2));
        assert_eq!(entry.started_at, None);
        entry.apply(started(2));
        assert_eq!(entry.started_at, Some(STARTED.parse().unwrap()));
    }

    /// OpenKruise's CRD has no `observedGeneration`.
    #[test]
    fn r20b_a_completed_job_that_is_edited_starts_anew_also_where_no_generation_is_kept() {
        let completed = |generation| {
            job(
                generation,
                &json!({"startTime": STARTED, "completionTime": COMPLETED}),
            )
        };
        let mut entry = Entry::new(completed(1));
        entry.apply(completed(1));
        assert!(entry.is_completed());
        entry.apply(completed(2));
        assert!(!entry.is_completed());
        let report = Report {
            status: unusable(JobKind::ImagePullJob, "x"),
            started_at: STARTED.parse().unwrap(),
            completed_at: Some(COMPLETED.parse().unwrap()),
        };
        entry.reported(&completed(2), &report, Ok(()), Moment::START);
        assert!(entry.is_completed());
    }
}
