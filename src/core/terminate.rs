//! Ending sidecars: when, which, and with what image; and what to say about it.
//!
//! The conditions are OpenKruise's (`isInterestingPod`), with these differences: phase `Pending`
//! does not exclude a pod whose main containers are done (a sidecar in ImagePullBackOff keeps it
//! Pending, and the swap releases it: `docs/measured.md`, row 25); a missing status of a sidecar is
//! tolerated; a pod whose containers are all sidecars is refused, not ended.

pub mod circumstances;
pub(crate) mod ending;
pub mod explain;
pub mod finish;
pub mod memory;
pub mod methods;
pub mod openkruise;
pub(crate) mod preflight;
pub mod recreate;
mod scope;
pub mod swap;

use self::scope::{left_to_platform, mains_not_done, refused};
use std::fmt::Write as _;
use std::time::Duration;

use self::circumstances::Circumstances;
use self::memory::Memory;
use self::methods::{AllowedMethods, Step};
use crate::cluster::node_class::OVERRIDE;
use crate::objects::pod::roles::{self};
use crate::objects::pod::{Container, Pod, RestartPolicy};
use crate::report::decision::{Action, Decision, Method, Report};
use crate::report::reason::Reason;

/// A sidecar that has not ended, with its position in `spec.containers`.
pub(crate) type Unended<'a> = (usize, &'a Container);

/// Decides about a pod. `memory` must have observed this state of the pod ([`Memory::observe`]).
/// Total: every pod, however strange, gets a decision.
#[must_use]
pub fn decide(pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Decision {
    let decision = out_of_scope(pod, memory, around)
        .or_else(|| refused(pod))
        .unwrap_or_else(|| {
            let unended = unended(pod);
            let left = openkruise::left(pod, &unended, memory, around).is_some();
            let wants = if left {
                Vec::new()
            } else {
                swap::wants(pod, &unended, memory, around)
            };
            Decision {
                wants,
                ..mains_not_done(pod).unwrap_or_else(|| sidecars(pod, memory, around))
            }
        });
    unless_said(when_free(decision, memory, around), memory)
}

/// What is said of a pod that is none of those that are to be ended: whatever else it is, nothing
/// is written and nothing is told. One that could not be ended by anybody need not be kept either.
#[must_use]
pub fn unselected(pod: &Pod) -> Decision {
    Decision::quiet(if pod.deleting {
        Reason::PodDeleting
    } else if pod.phase.is_terminal() {
        Reason::PodFinished
    } else if roles::sidecars(pod).next().is_none() {
        Reason::NoSidecar
    } else {
        Reason::NotSelected
    })
}

/// One write per pod at a time, and a pause after one that failed.
fn when_free(decision: Decision, memory: &Memory, around: &Circumstances<'_>) -> Decision {
    if decision.action.is_none() {
        return decision;
    }
    if memory.in_flight {
        return Decision::quiet(Reason::WriteInFlight);
    }
    match memory.not_before.filter(|at| *at > around.now) {
        Some(at) => Decision::later(Reason::WriteBackoff, at),
        None => decision,
    }
}

/// A report is made once per pod and reason; the decision stays what it is.
fn unless_said(mut decision: Decision, memory: &Memory) -> Decision {
    decision
        .reports
        .retain(|report| !memory.said.contains(&report.reason));
    decision
}

pub(crate) fn out_of_scope(
    pod: &Pod,
    memory: &Memory,
    around: &Circumstances<'_>,
) -> Option<Decision> {
    if pod.restart_policy == RestartPolicy::Always {
        return Some(Decision::quiet(Reason::RestartPolicyAlways));
    }
    if pod.deleting {
        return Some(Decision::quiet(Reason::PodDeleting));
    }
    if pod.phase.is_terminal() {
        return Some(ending::finished(pod, memory, around));
    }
    None
}

/// The sidecars that have not ended and are ours to end.
pub(crate) fn unended(pod: &Pod) -> Vec<Unended<'_>> {
    let is_unended =
        |container: &Container| roles::is_sidecar(pod, container) && container.end().is_none();
    pod.containers
        .iter()
        .enumerate()
        .filter(|(_, container)| is_unended(container))
        .collect()
}

/// The main containers are done and the pod is not finished.
fn sidecars(pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Decision {
    let mut decision = climb(pod, memory, around);
    decision.reports.extend(left_to_platform(pod));
    decision
}

/// The first method that leads on says what to do about the sidecars.
fn climb(pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Decision {
    let (unended, methods) = turn(pod, memory, around);
    if let Some(decision) = finish::go_on(pod, &unended, memory, around) {
        return decision;
    }
    if unended.is_empty() {
        return Decision::quiet(Reason::SidecarsEnded);
    }
    if let Some(until) = around.facts.unseen_until {
        return Decision::later(Reason::NodeNotSeen, until);
    }
    // Of the whole pod, not only of the sidecars whose turn it is.
    if let Some(left) = openkruise::left(pod, &self::unended(pod), memory, around) {
        return left;
    }
    let mut refused = Vec::new();
    let mut earliest: Option<Duration> = None;
    for (nth, method) in methods.iter().enumerate() {
        match ask(*method, pod, &unended, &methods[nth + 1..], memory, around) {
            Step::Here(decision) => return after(refused, decision),
            Step::Next { reports, again } => {
                refused.extend(reports);
                earliest = earliest.into_iter().chain(again).min();
            }
        }
    }
    let lacks_room = refused
        .iter()
        .any(|report| report.reason == Reason::NoHeadroom);
    let swaps_wanted = if lacks_room {
        swap::wanted(pod, &unended, memory, around)
    } else {
        0
    };
    Decision {
        swaps_wanted,
        ..exhausted(pod, refused, earliest, around)
    }
}

/// What a method has decided, with what the methods before it have `refused`: what is not a swap
/// tells why it is none, and a request to OpenKruise's daemon that did not do it is told along.
fn after(refused: Vec<Report>, mut decision: Decision) -> Decision {
    if let (Some(Action::Finish(_) | Action::Recreate(_)), Some(done)) =
        (&decision.action, &mut decision.done)
    {
        for report in &refused {
            let _ = write!(done.note, "; {}: {}", report.reason, report.note);
        }
    }
    let is_failed = |report: &Report| {
        matches!(
            report.reason,
            Reason::RecreateUnanswered | Reason::RecreateFailed
        )
    };
    decision
        .reports
        .extend(refused.into_iter().filter(is_failed));
    decision
}

/// The sidecars whose turn it is, and their methods. On kubelets those whose exit code is to be
/// ignored come last, by `finish` (OpenKruise: the normal ones first, then the override, on
/// ordinary nodes only).
pub(crate) fn turn<'a>(
    pod: &'a Pod,
    memory: &Memory,
    around: &Circumstances<'_>,
) -> (Vec<Unended<'a>>, Vec<Method>) {
    let all = unended(pod);
    let ignored = |(_, sidecar): &Unended<'_>| sidecar.mark.ignores_exit_code();
    let allowed = around.allowed.of_pod(pod);
    if !around.node.is_kubelet() || !allowed.finish || !all.iter().any(ignored) {
        let methods = methods(pod, &all, memory, around, &allowed);
        return (all, methods);
    }
    let normal: Vec<_> = all
        .iter()
        .copied()
        .filter(|sidecar| !ignored(sidecar))
        .collect();
    if !normal.is_empty() {
        let methods = methods(pod, &normal, memory, around, &allowed);
        return (normal, methods);
    }
    let finish_first = AllowedMethods {
        prefer: Some(Method::Finish),
        ..allowed
    };
    let methods = methods(pod, &all, memory, around, &finish_first);
    (all, methods)
}

/// A swap that was made is waited for also where its node gets no other (any more).
fn methods(
    pod: &Pod,
    unended: &[Unended<'_>],
    memory: &Memory,
    around: &Circumstances<'_>,
    allowed: &AllowedMethods,
) -> Vec<Method> {
    let mut methods = allowed.methods(around.node, &pod.restart_policy, around.bears_swap(pod));
    if !methods.contains(&Method::Swap) && swap::is_under_way(unended, memory) {
        methods.insert(0, Method::Swap);
    }
    methods
}

/// What one method says; `later` are those after it.
pub(crate) fn ask(
    method: Method,
    pod: &Pod,
    unended: &[Unended<'_>],
    later: &[Method],
    memory: &Memory,
    around: &Circumstances<'_>,
) -> Step {
    match method {
        Method::Swap => swap::step(pod, unended, later, memory, around),
        Method::Finish => finish::step(pod, unended, memory, around),
        Method::Recreate => recreate::step(pod, unended, memory, around),
    }
}

/// No method leads on.
fn exhausted(
    pod: &Pod,
    mut refused: Vec<Report>,
    again: Option<Duration>,
    around: &Circumstances<'_>,
) -> Decision {
    if refused.is_empty() {
        refused.push(no_method(pod, around));
    }
    let reason = refused[0].reason;
    let again = again.or(around.facts.class_until);
    Decision {
        reports: one_per_reason(refused),
        again,
        ..Decision::quiet(reason)
    }
}

fn no_method(pod: &Pod, around: &Circumstances<'_>) -> Report {
    let (class, node, policy) = (around.node, &pod.node, &pod.restart_policy);
    let note = format!(
        "node {node} is {class}, where nothing that is allowed ends the sidecars of a pod with restartPolicy {policy:?}: allow finish (start the controller without --finish=never), delete the pod, or, \
         if the node does restart containers whose image changes, say so with its label {OVERRIDE} (see swaplet nodes)"
    );
    Report {
        reason: Reason::NoRung,
        note,
    }
}

/// What is true of several containers is told in one report.
pub(crate) fn one_per_reason(reports: Vec<Report>) -> Vec<Report> {
    let mut told: Vec<Report> = Vec::new();
    for report in reports {
        match told
            .iter_mut()
            .find(|earlier| earlier.reason == report.reason)
        {
            Some(earlier) => earlier.note = format!("{}; {}", earlier.note, report.note),
            None => told.push(report),
        }
    }
    told
}
