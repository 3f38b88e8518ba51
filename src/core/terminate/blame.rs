//! Why a pod has failed whose main containers have succeeded, where that is not by what was written
//! to it.

use std::time::Duration;

use super::circumstances::Case;
use super::ending::describe_code;
use super::memory::{Memory, SwapRecord};
use crate::objects::pod::evidence::Footprint;
use crate::objects::pod::{Container, Phase, Pod, RestartPolicy, Terminated, roles};
use crate::objects::values::env::IGNORE_EXIT_CODE;
use crate::report::decision::Method;

/// The reasons of pods that their deadline, their node, the scheduler, the garbage collector or an
/// eviction has ended, whatever was written to them (Kubernetes: `status.reason` by the kubelet, and
/// the reasons of the condition `DisruptionTarget`).
const ENDED_BY_OTHERS: [&str; 14] = [
    "DeadlineExceeded",
    "DeletionByPodGC",
    "DeletionByTaintManager",
    "Evicted",
    "EvictionByEvictionAPI",
    "NodeAffinity",
    "NodeLost",
    "NodeShutdown",
    "Preempting",
    "PreemptionByScheduler",
    "Shutdown",
    "Terminated",
    "TerminationByKubelet",
    "UnexpectedAdmissionError",
];

const A_SECOND: Duration = Duration::from_secs(1);

/// Returns true if somebody else has ended the pod, by what it says itself.
pub(crate) fn is_ended_by_others(pod: &Pod) -> bool {
    ENDED_BY_OTHERS.contains(&&*pod.reason)
}

/// Returns true if the pod has failed although its main containers have succeeded.
pub(super) fn has_lost_work(pod: &Pod) -> bool {
    pod.phase == Phase::Failed && roles::mains_succeeded(pod)
}

/// Describes who has failed a pod whose main containers have succeeded, with the fix; `None` if that
/// may be what was written.
pub(super) fn failed_by_others(case: Case<'_>) -> Option<String> {
    ended_by_others(case.pod).or_else(|| failed_by_itself(case))
}

/// Describes that somebody else has ended the pod, if the pod says so.
pub(super) fn ended_by_others(pod: &Pod) -> Option<String> {
    let fix = if &*pod.reason == "DeadlineExceeded" {
        "; raise spec.activeDeadlineSeconds if it needs longer"
    } else {
        ""
    };
    is_ended_by_others(pod).then(|| {
        format!(
            "the pod is Failed by {}, although every main container exited with 0{fix}",
            pod.reason
        )
    })
}

/// Describes the containers that failed by themselves, so that the pod is Failed whatever became of
/// the others.
fn failed_by_itself(case: Case<'_>) -> Option<String> {
    let pod = case.pod;
    let mains_ended = roles::mains_ended_at(pod);
    let others = pod.containers.iter();
    let failed: Vec<_> = others
        .filter_map(|other| Some((other, own_failure(case, other)?)))
        .collect();
    let (first, _) = failed.first()?;
    let words: Vec<_> = failed
        .iter()
        .map(|(other, end)| {
            let code = describe_code(end);
            let before = end.finished_at.zip(mains_ended).map(|(end, mains)| {
                let seconds = end.duration_since(mains).as_secs();
                let side = if seconds < 0 { "before" } else { "after" };
                format!(", {} s {side} the main containers", seconds.abs())
            });
            format!(
                "{} ended by itself ({code}{})",
                other.name,
                before.unwrap_or_default()
            )
        })
        .collect();
    let fix = if first.mark.ignores_exit_code() {
        format!(
            "{IGNORE_EXIT_CODE} in {} needs the phase to be written: allow finish (start the controller without --finish=never)",
            first.name
        )
    } else {
        format!("set {IGNORE_EXIT_CODE} to \"true\" in {}", first.name)
    };
    Some(format!(
        "the pod is Failed although every main container exited with 0, because {}: {fix}, let it exit with 0, or use restartPolicy OnFailure",
        words.join(", ")
    ))
}

/// Returns true if the sidecar itself, not its exit image, has ended, and certainly not by its swap.
pub(super) fn ended_by_itself(
    pod: &Pod,
    sidecar: &Container,
    record: &SwapRecord,
    memory: &Memory,
) -> bool {
    let is_own = |before: &Footprint| !before.shows_new_container(&Footprint::of(sidecar));
    record.before.as_ref().is_some_and(is_own)
        && (ended_before(pod, sidecar, record, memory) || others_started(pod, record, memory))
}

/// Returns true if it has ended before the swap was written. The times of the node are compared with
/// each other alone, for its clock may be wrong: the main containers ended before that was observed.
fn ended_before(pod: &Pod, sidecar: &Container, record: &SwapRecord, memory: &Memory) -> bool {
    let is_before = || {
        let finished = sidecar.end()?.finished_at?;
        let earlier = roles::mains_ended_at(pod)?.duration_since(finished);
        // Times are whole seconds.
        let earlier = Duration::try_from(earlier).ok()?.checked_sub(A_SECOND)?;
        Some(memory.mains_done_at? <= record.at + earlier)
    };
    is_before().unwrap_or(false)
}

/// Returns true if another container has started the same exit image, by the same write, and it has
/// ended with 0: a kubelet that had stopped this one for it would have started it here as well.
fn others_started(pod: &Pod, record: &SwapRecord, memory: &Memory) -> bool {
    let mut others = memory.swaps.iter().filter(|other| {
        other.container != record.container && other.to == record.to && other.at == record.at
    });
    others.any(|other| {
        let mut containers = pod.containers.iter();
        containers.any(|container| container.name == other.container && other.has_worked(container))
    })
}

/// Returns how a container failed that nothing was written for and that is not started again. On
/// other nodes than kubelets only before the main containers ended: a provider may stop all
/// containers of a pod for the swap of one.
fn own_failure<'a>(case: Case<'_>, other: &'a Container) -> Option<&'a Terminated> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let is_swapped = memory
        .swap_of(&other.name)
        .is_some_and(|record| !ended_by_itself(pod, other, record, memory));
    let is_touched = is_swapped || memory.method_of(&other.name) == Some(Method::Recreate);
    if is_touched
        || roles::is_left_to_platform(pod, other)
        || *other.effective_policy(pod) != RestartPolicy::Never
    {
        return None;
    }
    let is_early = |end: &Terminated| {
        end.finished_at.is_some() && end.finished_at < roles::mains_ended_at(pod)
    };
    let failed = other
        .end()
        .filter(|end| end.exit_code.is_some_and(|code| code != 0));
    failed.filter(|end| around.node.is_kubelet() || is_early(end))
}
