//! The rules of the real Job controller (1.34), as one function of a job, its pods and the time.
//!
//! Pods are tracked by finalizer, as there: a finished pod is first noted in the status as
//! uncounted, then loses its finalizer, then is counted. So every step can be repeated, and a pod
//! that vanishes is counted once.

mod indexes;
mod pods;
mod sync;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

pub use indexes::{INDEX, is_indexed};
pub use pods::{Backoff, past_backoff_limit};
use pods::{is_active, tracked};
use sync::Sync;

/// Holds a pod until its job has noted how it ended.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
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

/// Decides the next step for a job.
#[must_use]
pub fn decide(job: &Job, pods: &[Pod], backoff: &Backoff, now: Timestamp) -> Plan {
    let Some(spec) = &job.spec else {
        return Plan::default();
    };
    let old = job.status.clone().unwrap_or_default();
    if finished(&old).is_some() {
        return after_the_end(spec, &old, pods, backoff, now);
    }
    let plan = Plan {
        backoff: backoff.clone(),
        ..Plan::default()
    };
    let active = pods.iter().filter(|pod| is_active(pod)).collect();
    let mut sync = Sync {
        spec,
        pods,
        now,
        active,
        status: old.clone(),
        terminating_before: old.terminating,
        plan,
    };
    sync.run(job.metadata.deletion_timestamp.is_some());
    let Sync {
        status, mut plan, ..
    } = sync;
    plan.status = (status != old).then_some(status);
    plan
}

/// The condition with which a job has ended.
#[must_use]
pub fn finished(status: &JobStatus) -> Option<&JobCondition> {
    condition(status, "Complete").or_else(|| condition(status, "Failed"))
}

fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == kind && condition.status == "True")
}

/// Nothing happens to a finished job, but that stray pods are released and its time to live runs
/// out.
fn after_the_end(
    spec: &JobSpec,
    status: &JobStatus,
    pods: &[Pod],
    backoff: &Backoff,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan {
        backoff: backoff.clone(),
        release: tracked(pods).map(ResourceExt::name_any).collect(),
        ..Plan::default()
    };
    let end = finished(status).and_then(|condition| condition.last_transition_time.as_ref());
    if let (Some(ttl), Some(end)) = (spec.ttl_seconds_after_finished, end) {
        let left = SignedDuration::from_secs(ttl.into()) - now.duration_since(end.0);
        plan.expired = left <= SignedDuration::ZERO;
        plan.wake = Duration::try_from(left).ok().filter(|_| !plan.expired);
    }
    plan
}

#[cfg(test)]
mod tests;
