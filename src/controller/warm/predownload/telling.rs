//! Why nothing could be done for a workload, and what its owners are told.

use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::warm::predownload::Action;
use swaplet_core::warm::predownload::workload::Workload;

use super::{Predownload, key_of};
use crate::frame::isolated::defects::note;
use crate::frame::list::words;
use crate::frame::writer::report::Notice;
use crate::frame::writer::{Target, is_missing_right};

/// Why nothing could be done for a workload; it is tried again in any case.
pub(super) enum Trouble {
    /// Until somebody mends it, so the workload is told.
    Lasting(String),
    /// No job can be made, and it is done without one; told as well.
    NoObject(String),
    /// A job that is not needed any more may not be deleted; told as well.
    Stays(String),
    /// The right is missing that this is for; in the words of the API server.
    Forbidden(&'static str, String),
    /// Perhaps not the next time.
    Passing(String),
    /// The decision has panicked, with these words.
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

    pub(super) fn of(right: &'static str, what: &str, error: &kube::Error) -> Self {
        let words = words(error);
        if is_missing_right(&words) {
            Self::Forbidden(right, words)
        } else {
            Self::Passing(format!("{what}: {words}"))
        }
    }
}

impl Predownload {
    pub(super) fn tell_trouble(&mut self, workload: &Workload, trouble: Trouble) {
        let (kind, name) = (workload.kind.as_str(), &workload.name);
        match trouble {
            Trouble::Lasting(why) => self.tell_failure(workload, why),
            Trouble::NoObject(how) => self.tell_once(workload, Reason::CreatedImagePullJob, how),
            Trouble::Stays(why) => self.tell_once(workload, Reason::WriteDenied, why),
            Trouble::Forbidden(what, words) => {
                self.health.note_denial(what, &workload.namespace, &words)
            }
            Trouble::Passing(error) => {
                tracing::warn!(namespace = %workload.namespace, "cannot pre-download the images of {kind} {name}: {error}; trying again");
            }
            Trouble::Defect(defect) => {
                self.metrics.decisions_failed(1);
                let again = self.defects.meet(key_of(workload), self.clock.now());
                self.due.insert(key_of(workload), self.clock.instant(again));
                self.tell_once(workload, Reason::DecisionFailed, note(kind, &defect));
            }
        }
    }

    pub(super) fn tell_failure(&mut self, workload: &Workload, why: String) {
        self.tell_once(workload, Reason::FailedCreateImagePullJob, why);
    }

    /// Not with each try.
    fn tell_once(&mut self, workload: &Workload, reason: Reason, why: String) {
        let before = self.told.insert(key_of(workload), why.clone());
        if before.as_ref() != Some(&why) {
            self.tell(workload, reason, why);
        }
    }

    fn tell(&self, workload: &Workload, reason: Reason, note: String) {
        self.reporter.tell(Notice {
            target: Target::of_workload(workload),
            report: Report { reason, note },
        });
    }

    pub(super) fn tell_applied(&self, workload: &Workload, action: &Action) {
        match action {
            Action::Create { name, image, .. } => {
                let note = format!(
                    "{image} is pulled to the nodes of the old pods, by ImagePullJob {name}"
                );
                self.tell(workload, Reason::CreatedImagePullJob, note);
            }
            Action::Delete(job) => {
                let (kind, name) = (workload.kind.as_str(), &workload.name);
                tracing::info!(namespace = %workload.namespace, job = %job.name, "{kind} {name} needs no pre-download any more");
            }
        }
    }
}
