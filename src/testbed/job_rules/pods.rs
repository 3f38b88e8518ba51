//! The properties of pods that the rules depend on.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;

/// The finalizer that holds a pod until its job has recorded how it ended.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The first and the longest wait before a failed pod is replaced.
const POD_BACKOFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// The memory of failures, for a longer wait after each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backoff {
    /// The number of failed pods since the last success.
    pub failures: u32,
    /// When the last of them ended.
    pub last: Option<Timestamp>,
}

/// Returns true if, under `OnFailure`, the containers of all Pending and Running pods have
/// restarted too often. With a limit of zero any restart is too many.
pub fn past_backoff_limit(spec: &JobSpec, pods: &[Pod]) -> bool {
    if spec
        .template
        .spec
        .as_ref()
        .and_then(|spec| spec.restart_policy.as_deref())
        != Some("OnFailure")
    {
        return false;
    }
    let living = pods
        .iter()
        .filter(|pod| matches!(phase(pod), "Running" | "Pending"));
    let restarts: i32 = living
        .flat_map(statuses)
        .map(|status| status.restart_count)
        .sum();
    match spec.backoff_limit.unwrap_or(6) {
        0 => restarts > 0,
        limit => restarts >= limit,
    }
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| {
        status
            .init_container_statuses
            .iter()
            .flatten()
            .chain(status.container_statuses.iter().flatten())
    })
}

impl Backoff {
    /// Counts pods that ended; a success resets the count.
    pub(super) fn note(&mut self, good: &[Pod], bad: &[Pod]) {
        let success = good.iter().filter_map(end_of).max();
        if success.is_some() {
            *self = Self::default();
        }
        let later: Vec<_> = bad
            .iter()
            .filter_map(end_of)
            .filter(|end| success.is_none_or(|success| *end > success))
            .collect();
        self.failures += u32::try_from(later.len()).unwrap_or(u32::MAX);
        self.last = later.into_iter().max().or(self.last);
    }

    /// Returns how long the next pod must still wait.
    pub(super) fn wait(&self, now: Timestamp) -> Duration {
        let Some(last) = self.last.filter(|_| self.failures > 0) else {
            return Duration::ZERO;
        };
        let wait = POD_BACKOFF
            .0
            .saturating_mul(1 << (self.failures - 1).min(10))
            .min(POD_BACKOFF.1);
        let passed = Duration::try_from(now.duration_since(last)).unwrap_or_default();
        wait.saturating_sub(passed)
    }
}

/// Returns when a pod ended: by its containers, else by its condition, else by its deletion, else
/// by its creation.
fn end_of(pod: &Pod) -> Option<Timestamp> {
    let containers = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let ends: Option<Vec<_>> = containers
        .map(|all| all.iter().map(container_end).collect::<Option<_>>())
        .unwrap_or_default();
    let by_containers = ends.and_then(|ends| ends.into_iter().max());
    let not_ready = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .find(|one| one.type_ == "Ready" && one.status == "False");
    let by_condition = not_ready.and_then(|one| one.last_transition_time.as_ref());
    let others = by_condition
        .or(pod.metadata.deletion_timestamp.as_ref())
        .or(pod.metadata.creation_timestamp.as_ref());
    by_containers.or(others.map(|time| time.0))
}

fn container_end(status: &ContainerStatus) -> Option<Timestamp> {
    let terminated = status.state.as_ref()?.terminated.as_ref()?;
    terminated.finished_at.as_ref().map(|time| time.0)
}

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

pub(super) fn is_active(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && pod.metadata.deletion_timestamp.is_none()
}

/// Returns true for a finished pod, and for a deleting one unless only failed ones are replaced.
pub(super) fn has_ended(pod: &Pod, spec: &JobSpec) -> bool {
    let deleted = pod.metadata.deletion_timestamp.is_some() && !replaces_only_failed(spec);
    matches!(phase(pod), "Succeeded" | "Failed") || deleted
}

pub(super) fn replaces_only_failed(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed")
}

pub(super) fn terminating(pods: &[Pod]) -> usize {
    pods.iter()
        .filter(|pod| {
            pod.metadata.deletion_timestamp.is_some()
                && !matches!(phase(pod), "Succeeded" | "Failed")
        })
        .count()
}

pub(super) fn tracked(pods: &[Pod]) -> impl Iterator<Item = &Pod> {
    pods.iter().filter(|pod| {
        pod.finalizers()
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
    })
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    pod.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Returns the names of the pods in the order of removal: idle ones first, then the youngest.
pub(super) fn for_removal<'a>(active: &[&'a Pod]) -> impl Iterator<Item = String> + use<'a> {
    let mut pods = active.to_vec();
    pods.sort_by_key(|pod| {
        (
            phase(pod) == "Running",
            std::cmp::Reverse(pod.creation_timestamp()),
            pod.name_any(),
        )
    });
    pods.into_iter().map(ResourceExt::name_any)
}

/// Removes the uids that are no longer in `held` from a list; returns their number.
pub(super) fn drain(list: &mut Option<Vec<String>>, held: &BTreeSet<String>) -> usize {
    let before = list.as_ref().map_or(0, Vec::len);
    if let Some(uids) = list {
        uids.retain(|uid| held.contains(uid));
    }
    *list = list.take().filter(|uids| !uids.is_empty());
    before - list.as_ref().map_or(0, Vec::len)
}

pub(super) fn extend(list: &mut Option<Vec<String>>, uids: impl Iterator<Item = String>) {
    let mut all = list.take().unwrap_or_default();
    for uid in uids {
        if !all.contains(&uid) {
            all.push(uid);
        }
    }
    *list = (!all.is_empty()).then_some(all);
}

pub(super) fn add(counter: &mut Option<i32>, count: usize) {
    if count > 0 {
        *counter = Some(counter.unwrap_or(0) + number(count));
    }
}

pub(super) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
