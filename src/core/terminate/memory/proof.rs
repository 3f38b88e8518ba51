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
use crate::terminate::{ended_by_itself, is_ended_by_others};

/// Returns what the pod proves about its node now; `None` if nothing (any more, or yet).
pub fn proved(pod: &Pod, memory: &Memory, now: Moment) -> Option<Proved> {
    if memory.rejected {
        return Some(Proved::Rejects);
    }
    let swapped: Vec<_> = memory.swapped_among(roles::sidecars(pod)).collect();
    let updates = swapped
        .iter()
        .any(|(sidecar, record)| evidence::proves_update(sidecar, record.before.as_ref()));
    let is_under_never = pod.restart_policy == RestartPolicy::Never;
    if updates && is_under_never && pod.phase == Phase::Succeeded && ended_by_swap(pod, memory) {
        return Some(Proved::UpdatesUnderNever);
    }
    let by_swaps = is_under_never && failed_by_swaps(pod, memory, &swapped);
    if by_swaps && !swapped.iter().any(is_end_of_exit_image) {
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

/// Returns true if a pod has failed by its swaps where nothing is started again under `Never`, that
/// of the pod or of the sidecar.
pub fn swaps_failed(pod: &Pod, memory: &Memory) -> bool {
    if pod.phase != Phase::Failed {
        return false;
    }
    let swapped: Vec<_> = memory.swapped_among(roles::sidecars(pod)).collect();
    failed_by_swaps(pod, memory, &swapped)
}

/// Returns true if it has failed because an exit image could not be started, or has failed itself.
/// That says nothing of the node.
pub fn image_failed(pod: &Pod, memory: &Memory) -> bool {
    let mut swapped = memory.swapped_among(roles::sidecars(pod));
    swaps_failed(pod, memory) && swapped.any(|swapped| is_end_of_exit_image(&swapped))
}

/// A sidecar that shows the image of a swap, and the record of the swap.
type Swapped<'a> = (&'a Container, &'a SwapRecord);

/// Returns true if a pod under `Never`, or with such a sidecar that has failed, has failed by its
/// swaps, although its main containers had succeeded. Only swaps of this process count, because
/// anyone who may change a pod can give it an exit image. A container that no swap touched and that
/// has failed is the cause itself, as is a sidecar that has failed before its swap; none that has
/// ended with 0 after its swap is.
fn failed_by_swaps(pod: &Pod, memory: &Memory, swapped: &[Swapped<'_>]) -> bool {
    let is_untouched = |container: &&Container| {
        !roles::is_left_to_platform(pod, container)
            && !swapped
                .iter()
                .any(|(sidecar, _)| sidecar.name == container.name)
    };
    let has_failed = |container: &Container| container.end().is_some_and(Terminated::has_failed);
    let ended_well = |(sidecar, record): &Swapped<'_>| {
        !has_failed(sidecar) && evidence::proves_update(sidecar, record.before.as_ref())
    };
    let failed_by_itself = |(sidecar, record): &Swapped<'_>| {
        has_failed(sidecar) && ended_by_itself(pod, sidecar, record, memory)
    };
    let fails_for_good = |(sidecar, _): &Swapped<'_>| {
        has_failed(sidecar) && *sidecar.effective_policy(pod) == RestartPolicy::Never
    };
    (pod.restart_policy == RestartPolicy::Never || swapped.iter().any(fails_for_good))
        && pod.phase == Phase::Failed
        && !swapped.iter().all(ended_well)
        && swapped.iter().all(|(_, record)| record.before.is_some())
        && ended_by_swap(pod, memory)
        && roles::mains_succeeded(pod)
        && !swapped.iter().any(failed_by_itself)
        && !pod.containers.iter().filter(is_untouched).any(has_failed)
}

/// Returns true if the container has ended with an error that is the exit image's own: it could not
/// be started, or it was.
fn is_end_of_exit_image((sidecar, record): &Swapped<'_>) -> bool {
    sidecar.end().is_some_and(|end| {
        let proves_update = || evidence::proves_update(sidecar, record.before.as_ref());
        end.has_failed() && (evidence::is_start_error(end) || proves_update())
    })
}

/// Returns true if nobody else has ended the pod, as far as its state shows.
fn ended_by_swap(pod: &Pod, memory: &Memory) -> bool {
    !pod.deleting && !is_ended_by_others(pod) && memory.phase_written_at().is_none()
}
