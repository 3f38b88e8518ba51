//! The facts that a pod proves about its node.
//!
//! On an ordinary node nothing is learned from a swap without effect: the kubelet is only busy.
//! `ProviderFailed` is believed everywhere, because only a virtual-kubelet writes it. A swapped
//! container that has ended proves nothing, for it may have ended by itself: a new container must
//! be observed.

use super::{Memory, SwapRecord};
use crate::cluster::node_verdicts::Proved;
use crate::objects::moment::Moment;
use crate::objects::pod::{Container, Phase, Pod, RestartPolicy, Terminated, evidence, roles};
use crate::terminate::methods::swap::patience;

/// Returns what the pod proves about its node now; `None` if nothing (any more, or yet).
#[must_use]
pub fn proved(pod: &Pod, memory: &Memory, now: Moment) -> Option<Proved> {
    if memory.rejected {
        return Some(Proved::Rejects);
    }
    let swapped = swapped(pod, memory);
    let updates = swapped
        .iter()
        .any(|(sidecar, record)| evidence::proves_update(sidecar, record.before.as_ref()));
    let is_under_never = pod.restart_policy == RestartPolicy::Never;
    if updates && is_under_never && pod.phase == Phase::Succeeded && ended_by_swap(pod, memory) {
        return Some(Proved::UpdatesUnderNever);
    }
    if failed_by_swaps(pod, memory, &swapped) && !swapped.iter().any(is_end_of_exit_image) {
        return Some(Proved::FailsUnderNever);
    }
    if updates {
        return Some(Proved::Updates);
    }
    let patience = patience(pod);
    let ignored = |(sidecar, record): &Swapped<'_>| {
        record.at + patience <= now && evidence::proves_inaction(sidecar, record.before.as_ref())
    };
    (!pod.deleting && !pod.phase.is_terminal() && swapped.iter().any(ignored))
        .then_some(Proved::Inert)
}

/// Returns true if a pod under `Never` has failed because an exit image could not be started, or
/// has failed itself. That says nothing of the node.
#[must_use]
pub fn image_failed(pod: &Pod, memory: &Memory) -> bool {
    if pod.phase != Phase::Failed {
        return false;
    }
    let swapped = swapped(pod, memory);
    failed_by_swaps(pod, memory, &swapped) && swapped.iter().any(is_end_of_exit_image)
}

/// A sidecar that shows the image of a swap, and the record of the swap.
type Swapped<'a> = (&'a Container, &'a SwapRecord);

fn swapped<'a>(pod: &'a Pod, memory: &'a Memory) -> Vec<Swapped<'a>> {
    roles::sidecars(pod)
        .filter_map(|sidecar| Some((sidecar, record(sidecar, memory)?)))
        .collect()
}

/// Returns true if a pod under `Never` has failed by its swaps, although its main containers had
/// succeeded. Only swaps of this process count: anyone who may change a pod can give it an exit
/// image, and a failure counts for all nodes of the provider.
fn failed_by_swaps(pod: &Pod, memory: &Memory, swapped: &[Swapped<'_>]) -> bool {
    pod.restart_policy == RestartPolicy::Never
        && pod.phase == Phase::Failed
        && !swapped.is_empty()
        && swapped.iter().all(|(_, record)| record.before.is_some())
        && ended_by_swap(pod, memory)
        && roles::mains_succeeded(pod)
        && !had_failed(pod)
}

/// Returns true if the container has ended with an error that is the exit image's own: it could not
/// be started, or it was.
fn is_end_of_exit_image((sidecar, record): &Swapped<'_>) -> bool {
    let has_failed = |end: &&Terminated| end.exit_code.is_some_and(|code| code != 0);
    sidecar.end().filter(has_failed).is_some_and(|end| {
        evidence::is_start_error(end) || evidence::proves_update(sidecar, record.before.as_ref())
    })
}

/// The reasons of pods that their deadline, their node or the scheduler has ended, whatever was
/// swapped in them.
const ENDED_BY_OTHERS: [&str; 6] = [
    "DeadlineExceeded",
    "Evicted",
    "NodeLost",
    "NodeShutdown",
    "Preempting",
    "Terminated",
];

/// Returns true if nobody else has ended the pod, as far as its state shows.
fn ended_by_swap(pod: &Pod, memory: &Memory) -> bool {
    !pod.deleting
        && !ENDED_BY_OTHERS.contains(&&*pod.reason)
        && memory
            .finish
            .as_deref()
            .is_none_or(|record| record.written_at().is_none())
}

/// Returns true if a container has failed before the main containers ended, so that the pod is
/// Failed whatever became of the swap. A later end may be of the swap: a provider may stop all
/// containers for it. What the platform ends counts for nothing.
fn had_failed(pod: &Pod) -> bool {
    let mains_ended = roles::mains_ended_at(pod);
    let has_failed = |end: &Terminated| {
        end.exit_code.is_some_and(|code| code != 0)
            && end.finished_at.is_some()
            && end.finished_at < mains_ended
    };
    pod.containers.iter().any(|container| {
        !roles::is_left_to_platform(pod, container) && container.end().is_some_and(has_failed)
    })
}

/// Returns the swap that the spec still shows: somebody may have undone it.
fn record<'a>(sidecar: &Container, memory: &'a Memory) -> Option<&'a SwapRecord> {
    memory
        .swap_of(&sidecar.name)
        .filter(|record| record.to == sidecar.image && record.is_of_a_swap(sidecar))
}
