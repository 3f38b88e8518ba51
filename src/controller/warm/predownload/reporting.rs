//! The reasons why nothing could be done for a workload, and how they are reported.

use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::warm::predownload::Action;
use swaplet_core::warm::predownload::workload::Workload;

use super::{Predownload, key_of};
use crate::frame::isolated::defects::note;
use crate::frame::list::words;
use crate::frame::serve::rights::Right;
use crate::frame::writer::report::Notice;
use crate::frame::writer::{Target, is_missing_right};

/// The reason why nothing could be done for a workload; it is retried in any case.
pub(super) enum Trouble {
    /// Lasts until somebody fixes it, so it is reported on the workload.
    Lasting(String),
    /// No job can be created, and the images are pulled without one; reported as well.
    NoObject(String),
    /// A job that is no longer needed cannot be deleted; reported as well.
    Stays(String),
    /// A right is missing; with the API server's message.
    Forbidden(Right, String),
    /// May be over at the next try, so it is only logged.
    Passing(String),
    /// The decision has panicked, with this message.
    Defect(String),
}

impl Trouble {
    pub(super) fn denied(action: &Action, words: String) -> Self {
        match action {
            Action::Create { .. } => Self::Lasting(words),
            Action::Delete(job) => Self::Stays(format!(
                "ImagePullJob {} cannot be deleted: {words}",
                job.name
            )),
        }
    }

    pub(super) fn of(right: Right, what: &str, error: &kube::Error) -> Self {
        let words = words(error);
        if is_missing_right(&words) {
            Self::Forbidden(right, words)
        } else {
            Self::Passing(format!("{what}: {words}"))
        }
    }
}

impl Predownload {
    pub(super) fn report_trouble(&mut self, workload: &Workload, trouble: Trouble) {
        let (kind, name) = (workload.kind.as_str(), &workload.name);
        match trouble {
            Trouble::Lasting(why) => self.report_failure(workload, why),
            Trouble::NoObject(how) => self.report_once(workload, Reason::CreatedImagePullJob, how),
            Trouble::Stays(why) => self.report_once(workload, Reason::WriteDenied, why),
            Trouble::Forbidden(right, words) => {
                self.health.note_denial(right, &workload.namespace, &words)
            }
            Trouble::Passing(error) => {
                tracing::warn!(namespace = %workload.namespace, "cannot pre-download the images of {kind} {name}: {error}; trying again");
            }
            Trouble::Defect(defect) => {
                self.metrics.decisions_failed(1);
                let again = self.defects.meet(key_of(workload), self.clock.now());
                self.due.insert(key_of(workload), self.clock.instant(again));
                self.report_once(workload, Reason::DecisionFailed, note(kind, &defect));
            }
        }
    }

    pub(super) fn report_failure(&mut self, workload: &Workload, why: String) {
        self.report_once(workload, Reason::FailedCreateImagePullJob, why);
    }

    /// Reports a reason, unless it was the last one reported for the workload.
    fn report_once(&mut self, workload: &Workload, reason: Reason, why: String) {
        let before = self.reported.insert(key_of(workload), why.clone());
        if before.as_ref() != Some(&why) {
            self.report(workload, reason, why);
        }
    }

    fn report(&self, workload: &Workload, reason: Reason, note: String) {
        self.reporter.report(Notice {
            target: Target::of_workload(workload),
            report: Report { reason, note },
        });
    }

    pub(super) fn report_applied(&self, workload: &Workload, action: &Action) {
        match action {
            Action::Create { name, image, .. } => {
                let note = format!(
                    "{image} is pulled to the nodes of the old pods, by ImagePullJob {name}"
                );
                self.report(workload, Reason::CreatedImagePullJob, note);
            }
            Action::Delete(job) => {
                let (kind, name) = (workload.kind.as_str(), &workload.name);
                tracing::info!(namespace = %workload.namespace, job = %job.name, "{kind} {name} no longer needs a pre-download");
            }
        }
    }
}
