//! What a pod proves about its node.
//!
//! On an ordinary node nothing is learned from a swap without effect: that is a busy kubelet.
//! `ProviderFailed` is believed everywhere, for only a virtual-kubelet says it. A swapped container
//! that has ended is no proof, for it may have ended by itself: another container must be seen.

use std::time::Duration;

use super::{Memory, SwapRecord};
use crate::cluster::node_verdicts::Proved;
use crate::objects::pod::{Container, Phase, Pod, RestartPolicy, evidence, roles};
use crate::terminate::methods::swap::patience;

/// What the pod proves about its node, as it is seen now; `None` where it proves nothing (any more,
/// or yet).
#[must_use]
pub fn proved(pod: &Pod, memory: &Memory, now: Duration) -> Option<Proved> {
    if memory.rejected {
        return Some(Proved::Rejects);
    }
    let swapped: Vec<_> = roles::sidecars(pod)
        .filter_map(|sidecar| Some((sidecar, record(sidecar, memory)?)))
        .collect();
    let updates = swapped
        .iter()
        .any(|(sidecar, record)| evidence::proves_update(sidecar, record.before.as_ref()));
    if pod.restart_policy == RestartPolicy::Never
        && !swapped.is_empty()
        && ended_by_swap(pod, memory)
    {
        match pod.phase {
            Phase::Succeeded if updates => return Some(Proved::UpdatesUnderNever),
            Phase::Failed if roles::mains_succeeded(pod) => return Some(Proved::FailsUnderNever),
            _ => {}
        }
    }
    if updates {
        return Some(Proved::Updates);
    }
    let patience = patience(pod);
    let ignored = |(sidecar, record): &(&Container, &SwapRecord)| {
        record.at + patience <= now && evidence::proves_inaction(sidecar, record.before.as_ref())
    };
    (!pod.deleting && !pod.phase.is_terminal() && swapped.iter().any(ignored))
        .then_some(Proved::Inert)
}

/// Whether nobody else has ended the pod, as far as it shows.
fn ended_by_swap(pod: &Pod, memory: &Memory) -> bool {
    !pod.deleting
        && memory
            .finish
            .as_deref()
            .is_none_or(|record| record.written_at().is_none())
}

/// The swap that the spec still shows: somebody may have undone it.
fn record<'a>(sidecar: &Container, memory: &'a Memory) -> Option<&'a SwapRecord> {
    memory
        .swap_of(&sidecar.name)
        .filter(|record| record.to == sidecar.image)
}
