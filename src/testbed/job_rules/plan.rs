//! What is to be done for a job, and how it has ended.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::pods::Backoff;

/// What to do now, in the order of the fields; pods are created after others are deleted, and
/// before the status is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Names of pods that are released and then deleted, without being counted.
    pub forget: Vec<String>,
    /// Names of pods that are deleted.
    pub delete: Vec<String>,
    /// How many pods are created.
    pub create: usize,
    /// The indexes of the pods that are created, if the job has indexes.
    pub indexes: Vec<usize>,
    /// The new status, if it differs.
    pub status: Option<JobStatus>,
    /// Names of pods that lose their finalizer.
    pub release: Vec<String>,
    /// When to look again, if nothing happens before.
    pub wake: Option<Duration>,
    /// Whether the job has outlived its `ttlSecondsAfterFinished`.
    pub expired: bool,
    /// What to remember.
    pub backoff: Backoff,
}

impl Plan {
    /// Whether it changes anything.
    #[must_use]
    pub fn acts(&self) -> bool {
        let pods = [&self.forget, &self.delete, &self.release];
        self.status.is_some()
            || self.create > 0
            || self.expired
            || pods.iter().any(|names| !names.is_empty())
    }
}

/// The condition with which a job has ended.
#[must_use]
pub fn finished(status: &JobStatus) -> Option<&JobCondition> {
    condition(status, "Complete").or_else(|| condition(status, "Failed"))
}

pub(super) fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == kind && condition.status == "True")
}
