//! The rules of the real Job controller (1.37), as one function of a job, its pods and the time.
//!
//! Pods are tracked by finalizer, as there: a finished pod is first noted in the status as
//! uncounted, then loses its finalizer, then is counted. So every step can be repeated, and a pod
//! that vanishes is counted once.

mod indexes;
mod plan;
mod pods;
mod sync;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

pub use indexes::{INDEX, is_indexed};
pub use plan::{Plan, finished};
pub use pods::{Backoff, FINALIZER, past_backoff_limit};
use pods::{is_active, tracked};
use sync::Sync;

/// Decides the next step for a job.
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

/// Plans for a finished job: stray pods are released, and its time to live runs out.
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
