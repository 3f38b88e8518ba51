//! Reports about a pod that is finished.

use super::ending::{KILLED, describe_end, is_killed, lateness, own_end};
use super::memory::Memory;
use super::methods::swap::words::changes;
use super::methods::{finish, recreate};
use super::{Case, failed_by_others, has_lost_work};
use crate::objects::pod::{Pod, Terminated, roles};
use crate::report::decision::{Decision, Report};
use crate::report::reason::Reason;

/// Reports what became of the writes to a finished pod, from what its status shows.
pub(crate) fn finished(case: Case<'_>) -> Decision {
    let (pod, memory) = (case.pod, case.memory);
    if let Some(watched) = finish::watch(case) {
        return watched;
    }
    let mut decision = finish::finished(case).unwrap_or_else(|| swapped(case));
    if !decision.reports.is_empty() {
        decision.reports.extend(killed(pod, memory));
    }
    decision
}

/// Reports the sidecars that did not stop in their grace period.
fn killed(pod: &Pod, memory: &Memory) -> Option<Report> {
    let names: Vec<_> = roles::sidecars(pod)
        .filter(|sidecar| memory.method_of(&sidecar.name).is_some())
        .filter(|sidecar| own_end(sidecar, memory).is_some_and(ran_out_of_time))
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

/// Returns true if it was killed when its grace period was over, not for its memory.
fn ran_out_of_time(end: &Terminated) -> bool {
    is_killed(end) && &*end.reason != "OOMKilled"
}

fn swapped(case: Case<'_>) -> Decision {
    let (pod, memory) = (case.pod, case.memory);
    if memory.swaps.is_empty() {
        return recreate::finished(case).unwrap_or(Decision::quiet(Reason::PodFinished));
    }
    let ends = roles::sidecars(pod)
        .filter_map(|sidecar| {
            let swapped = memory.swap_of(&sidecar.name)?;
            Some(describe_end(sidecar, swapped, memory))
        })
        .collect::<Vec<_>>()
        .join(", ");
    let reported = format!("{ends}{}{}", lateness(pod, memory), changes(case));
    if has_lost_work(pod) {
        if let Some(words) = failed_by_others(case) {
            return Decision::reporting(Reason::SidecarEnded, format!("{words}; {reported}"));
        }
        let note =
            format!("the pod is Failed although every main container exited with 0: {reported}");
        return Decision::reporting(Reason::PodFailedAfterSwap, note);
    }
    let note = format!("the pod is {}: {reported}", pod.phase.as_str());
    Decision::reporting(Reason::SidecarEnded, note)
}
