//! What to tell about a pod that has come to its end.

use super::circumstances::Circumstances;
use super::memory::{Memory, SwapRecord};
use super::{finish, recreate};
use crate::objects::pod::{Container, Phase, Pod, Terminated, evidence, roles};
use crate::report::decision::Decision;
use crate::report::reason::Reason;

/// The pod is finished: tells the truth about what was written to it.
pub(crate) fn finished(pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Decision {
    finish::watch(pod, memory, around)
        .or_else(|| finish::finished(pod, memory, around))
        .unwrap_or_else(|| swapped(pod, memory))
}

fn swapped(pod: &Pod, memory: &Memory) -> Decision {
    if memory.swaps.is_empty() {
        return recreate::finished(pod, memory).unwrap_or(Decision::quiet(Reason::PodFinished));
    }
    let phase = pod.phase.as_str();
    let ends = roles::sidecars(pod)
        .filter_map(|sidecar| Some(describe_end(sidecar, memory.swap_of(&sidecar.name)?)))
        .collect::<Vec<_>>()
        .join(", ");
    if pod.phase == Phase::Failed && roles::mains_succeeded(pod) {
        let note = format!("the pod is Failed although every main container exited with 0: {ends}");
        return Decision::tell(Reason::PodFailedAfterSwap, note);
    }
    Decision::tell(Reason::SidecarEnded, format!("the pod is {phase}: {ends}"))
}

/// How a container ended by itself.
pub(crate) fn describe(sidecar: &Container) -> String {
    match sidecar.end() {
        Some(end) => format!("{} ended ({})", sidecar.name, describe_code(end)),
        None => format!("the end of {} is not reported", sidecar.name),
    }
}

pub(crate) fn describe_end(sidecar: &Container, record: &SwapRecord) -> String {
    let name = &sidecar.name;
    let shown = sidecar
        .end()
        .map_or_else(|| "not reported".to_owned(), describe_code);
    match &record.real_end {
        Some(real) if sidecar.end() == Some(real) => {
            format!("{name} ended ({shown}), exit image not seen")
        }
        Some(real) => format!("{name} ended ({}), exit image {shown}", describe_code(real)),
        None if shows_exit_image(sidecar, record) => {
            format!("{name} ended (its own exit code was not shown), exit image {shown}")
        }
        None => describe(sidecar),
    }
}

fn shows_exit_image(sidecar: &Container, record: &SwapRecord) -> bool {
    sidecar
        .status
        .as_ref()
        .is_some_and(|status| evidence::exit_image_shown(&status.image, &record.to) == Some(true))
}

pub(crate) fn describe_code(end: &Terminated) -> String {
    let code = end.exit_code.map_or_else(
        || "no exit code".to_owned(),
        |code| format!("exit code {code}"),
    );
    match (end.signal, &*end.reason) {
        (Some(signal), _) => format!("{code}, signal {signal}"),
        (None, "" | "Completed" | "Error") => code,
        (None, reason) => format!("{code}, {reason}"),
    }
}
