//! How the containers of a pod ended, for metrics and for Events.

use std::time::Duration;

use super::memory::{Memory, SwapRecord};
use crate::objects::pod::{Container, Pod, Terminated, roles};
use crate::report::decision::Method;

/// The exit code of a container ended by [`SIGKILL`]: 128 and the number.
pub(super) const KILLED: i64 = 137;
const SIGKILL: i64 = 9;
/// The reason of an end that the kubelet has not seen (Kubernetes: `ContainerReasonStatusUnknown`).
const UNKNOWN: &str = "ContainerStatusUnknown";
/// The exit code of a container ended by SIGTERM.
const TERMINATED: i64 = 143;

/// The ends of the containers of a finished pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The ends of its sidecars, in the order of the spec.
    pub sidecars: Vec<SidecarEnd>,
    /// The time from the end of the main containers to that of the last of all containers; `None`
    /// if the node has not reported it.
    pub pod_after: Option<Duration>,
}

/// The end of a sidecar itself, not of its exit image, as far as its node has shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarEnd {
    /// The method that ended it; `None` if it ended by itself.
    pub method: Option<Method>,
    /// The exit code of the sidecar.
    pub code: Code,
    /// The time since the end of the main containers; `None` if the node has not reported it.
    pub after: Option<Duration>,
}

/// The exit codes that metrics distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Code {
    /// Exit code 0.
    #[strum(serialize = "0")]
    Zero,
    /// Ended by SIGKILL: it did not stop in its grace period.
    #[strum(serialize = "137")]
    Killed,
    /// Ended by SIGTERM.
    #[strum(serialize = "143")]
    Terminated,
    /// Any other exit code.
    Other,
    /// The node has shown no exit code of the sidecar itself.
    Unseen,
}

impl Code {
    /// All values, in the order of their declaration.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    fn of(end: Option<&Terminated>) -> Self {
        match end {
            // A kubelet writes it where the container was not there (any more), with 137.
            Some(end) if &*end.reason == UNKNOWN => Self::Unseen,
            Some(end) if is_killed(end) => Self::Killed,
            Some(end) => match end.exit_code {
                Some(0) => Self::Zero,
                Some(TERMINATED) => Self::Terminated,
                Some(_) => Self::Other,
                None => Self::Unseen,
            },
            None => Self::Unseen,
        }
    }
}

/// Returns how the containers of a pod ended, by the clock of its node, in whole seconds.
pub fn ends(pod: &Pod, memory: &Memory) -> Ends {
    let mains = roles::mains_ended_at(pod);
    let after = |end: &Terminated| {
        let after = end.finished_at?.duration_since(mains?);
        Some(Duration::try_from(after).unwrap_or_default())
    };
    let sidecars = roles::sidecars(pod).map(|sidecar| {
        let end = own_end(sidecar, memory);
        SidecarEnd {
            method: memory.method_of(&sidecar.name),
            code: Code::of(end),
            after: end.and_then(after),
        }
    });
    let all = pod.containers.iter().map(|container| container.end());
    let pod_after = all
        .map(|end| end.and_then(after))
        .collect::<Option<Vec<_>>>();
    Ends {
        sidecars: sidecars.collect(),
        pod_after: pod_after.and_then(|after| after.into_iter().max()),
    }
}

pub(super) fn is_killed(end: &Terminated) -> bool {
    let is_it = end.exit_code == Some(KILLED) || end.signal == Some(SIGKILL);
    is_it && &*end.reason != UNKNOWN
}

/// Returns how a sidecar itself ended, as far as the node has shown it.
pub(super) fn own_end<'a>(sidecar: &'a Container, memory: &'a Memory) -> Option<&'a Terminated> {
    match memory.swap_of(&sidecar.name) {
        Some(swapped) => swapped.real_end.as_ref(),
        None => sidecar.end(),
    }
}

/// Describes how long after the main containers the sidecars ended, by the clock of the node in
/// whole seconds; empty if they ended in the same second.
pub(crate) fn lateness(pod: &Pod, memory: &Memory) -> String {
    let ends = ends(pod, memory);
    let seconds = |after: Option<Duration>| after.map(|after| after.as_secs()).filter(|s| *s > 0);
    let late = roles::sidecars(pod).zip(&ends.sidecars);
    let mut late: String = late
        .filter_map(|(sidecar, end)| {
            let seconds = seconds(end.after)?;
            Some(format!(
                "; {} ended {seconds} s after the main containers",
                sidecar.name
            ))
        })
        .collect();
    if let Some(seconds) = seconds(ends.pod_after) {
        late.push_str(&format!("; the pod ended {seconds} s after them"));
    }
    late
}

/// Describes how a container that shows no exit image ended, and by which method.
pub(crate) fn describe(sidecar: &Container, memory: &Memory) -> String {
    let name = &sidecar.name;
    match (sidecar.end(), memory.method_of(name)) {
        (Some(end), method) => format!("{name} ended ({}, {})", describe_code(end), by(method)),
        (None, None) => format!("the end of {name} is not reported"),
        (None, method) => format!("the end of {name} is not reported ({})", by(method)),
    }
}

fn by(method: Option<Method>) -> String {
    method.map_or_else(
        || "by itself".to_owned(),
        |method| format!("method {}", method.as_str()),
    )
}

pub(crate) fn describe_end(sidecar: &Container, record: &SwapRecord, memory: &Memory) -> String {
    let name = &sidecar.name;
    let by = by(memory.method_of(name));
    let shown = sidecar
        .end()
        .map_or_else(|| "not reported".to_owned(), describe_code);
    match &record.real_end {
        Some(real) if sidecar.end() == Some(real) => {
            format!("{name} ended ({shown}, {by}), exit image not reported")
        }
        Some(real) => format!(
            "{name} ended ({}, {by}), exit image {shown}",
            describe_code(real)
        ),
        None => match record.is_of_exit_image(sidecar) {
            Some(true) => {
                format!("{name} ended (its own exit code was not shown, {by}), exit image {shown}")
            }
            None if record.before.is_none() && sidecar.end().is_some() => format!(
                "{name} ended ({by}); whether {shown} is its own or of the exit image is not known"
            ),
            Some(false) | None => describe(sidecar, memory),
        },
    }
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
