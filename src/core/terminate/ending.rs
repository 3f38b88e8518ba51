//! What to tell about a pod that has come to its end.

use super::circumstances::Circumstances;
use super::memory::{Memory, SwapRecord};
use super::{finish, recreate};
use crate::objects::pod::{Container, Phase, Pod, Terminated, evidence, roles};
use crate::report::decision::{Decision, Report};
use crate::report::reason::Reason;

/// The exit code of what was ended by [`SIGKILL`]: 128 and the number.
const KILLED: i64 = 137;
const SIGKILL: i64 = 9;

/// The pod is finished: tells the truth about what was written to it.
pub(crate) fn finished(pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Decision {
    if let Some(watched) = finish::watch(pod, memory, around) {
        return watched;
    }
    let mut decision =
        finish::finished(pod, memory, around).unwrap_or_else(|| swapped(pod, memory));
    if !decision.reports.is_empty() {
        decision.reports.extend(killed(pod, memory));
    }
    decision
}

/// How a sidecar itself ended, as far as the node has shown it.
fn own_end<'a>(sidecar: &'a Container, memory: &'a Memory) -> Option<&'a Terminated> {
    match memory.swap_of(&sidecar.name) {
        Some(swapped) => swapped.real_end.as_ref(),
        None => sidecar.end(),
    }
}

/// Sidecars that did not stop in their grace period.
fn killed(pod: &Pod, memory: &Memory) -> Option<Report> {
    let is_killed = |end: &Terminated| end.exit_code == Some(KILLED) || end.signal == Some(SIGKILL);
    let names: Vec<_> = roles::sidecars(pod)
        .filter(|sidecar| own_end(sidecar, memory).is_some_and(is_killed))
        .map(|sidecar| &*sidecar.name)
        .collect();
    (!names.is_empty()).then(|| Report {
        reason: Reason::SidecarKilled,
        note: format!(
            "{} ended by SIGKILL (exit code {KILLED}): it had not stopped in its grace period, so what it had not written is lost; let it end on SIGTERM (in a shell: trap 'exit 0' TERM), or raise spec.terminationGracePeriodSeconds",
            names.join(", ")
        ),
    })
}

/// How long after the main containers the sidecars ended, by the clock of the node, which counts
/// whole seconds; nothing where they ended in the same.
fn lateness(pod: &Pod, memory: &Memory) -> String {
    let Some(mains) = roles::mains_ended_at(pod) else {
        return String::new();
    };
    let late = roles::sidecars(pod).filter_map(|sidecar| {
        let ended = own_end(sidecar, memory)?.finished_at?;
        let seconds = ended.duration_since(mains).as_secs();
        (seconds > 0).then(|| {
            format!(
                "; {} ended {seconds} s after the main containers",
                sidecar.name
            )
        })
    });
    late.collect()
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
        let note = format!(
            "the pod is Failed although every main container exited with 0: {ends}{}",
            lateness(pod, memory)
        );
        return Decision::tell(Reason::PodFailedAfterSwap, note);
    }
    let late = lateness(pod, memory);
    Decision::tell(
        Reason::SidecarEnded,
        format!("the pod is {phase}: {ends}{late}"),
    )
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
