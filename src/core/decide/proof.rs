//! What a pod proves about its node.

use std::time::Duration;

use super::evidence;
use super::memory::{Memory, SwapRecord};
use super::node_verdicts::Proved;
use super::roles;
use super::swap::patience;
use crate::objects::pod::{Container, Pod};

/// What the pod proves about its node, as it is seen now; `None` where it proves nothing (any more, or yet).
#[must_use]
pub fn proved(pod: &Pod, memory: &Memory, now: Duration) -> Option<Proved> {
    if memory.rejected {
        return Some(Proved::Rejects);
    }
    let swapped: Vec<_> = roles::sidecars(pod).filter_map(|sidecar| Some((sidecar, record(sidecar, memory)?))).collect();
    if swapped.iter().any(|(sidecar, record)| evidence::proves_update(sidecar, record.before.as_ref())) {
        return Some(Proved::Updates);
    }
    let patience = patience(pod);
    let ignored = |(sidecar, record): &(&Container, &SwapRecord)| {
        record.at + patience <= now && evidence::proves_inaction(sidecar, record.before.as_ref())
    };
    (!pod.deleting && !pod.phase.is_terminal() && swapped.iter().any(ignored)).then_some(Proved::Inert)
}

/// The swap that the spec still shows: somebody may have undone it.
fn record<'a>(sidecar: &Container, memory: &'a Memory) -> Option<&'a SwapRecord> {
    memory.swap_of(&sidecar.name).filter(|record| record.to == sidecar.image)
}
