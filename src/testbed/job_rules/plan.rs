//! The plan for a job, and how the job has ended.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::pods::Backoff;

/// The next writes, in the order of the fields; pods are created after others are deleted, and
/// before the status is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The names of pods that are released and then deleted, without being counted.
    pub forget: Vec<String>,
    /// The names of pods that are deleted.
    pub delete: Vec<String>,
    /// The number of pods that are created.
    pub create: usize,
    /// The indexes of the pods that are created, if the job has indexes.
    pub indexes: Vec<usize>,
    /// The new status, if it differs.
    pub status: Option<JobStatus>,
    /// The names of pods that lose their finalizer.
    pub release: Vec<String>,
    /// The time until the next sync, if nothing happens before.
    pub wake: Option<Duration>,
    /// True if the job has outlived its `ttlSecondsAfterFinished`.
    pub expired: bool,
    /// The memory of failures for the next sync.
    pub backoff: Backoff,
}

impl Plan {
    /// Returns true if the plan changes anything.
    pub fn acts(&self) -> bool {
        let pods = [&self.forget, &self.delete, &self.release];
        self.status.is_some()
            || self.create > 0
            || self.expired
            || pods.iter().any(|names| !names.is_empty())
    }
}

/// Returns the condition with which a job has ended; `None` while it has not.
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
