//! Ending sidecars: when, which ones, with which image, and what to report.
//!
//! The conditions are OpenKruise's (`isInterestingPod`), with these differences: phase `Pending`
//! does not exclude a pod whose main containers are done (a sidecar in ImagePullBackOff keeps it
//! Pending, and the swap releases it: `docs/measured.md`, row 25); a missing status of a sidecar is
//! tolerated; a pod whose containers are all sidecars is refused, not ended.

pub(crate) mod blame;
pub mod circumstances;
mod crashes;
pub mod ending;
pub mod explain;
mod finished;
pub mod memory;
pub mod methods;
pub mod openkruise;
mod scope;
pub(crate) mod turn;

use self::scope::{annotation_problem, left_to_platform, main_failed, mains_not_done, refused};
use std::fmt::Write as _;

use self::circumstances::{Case, Circumstances};
use self::memory::Memory;
use self::methods::{Step, finish, recreate, swap};
use self::turn::{Turn, turns};
use crate::cluster::node_class::OVERRIDE;
use crate::objects::moment::Moment;
use crate::objects::pod::roles::{self, Unended, unended};
use crate::objects::pod::{Pod, RestartPolicy};
use crate::report::decision::{Action, Decision, Method, Report, one_per_reason};
use crate::report::reason::Reason;

/// Decides what to do about a pod. `memory` must have observed this state of the pod
/// ([`Memory::observe`]). Total: every pod, however strange, gets a decision.
#[must_use]
pub fn decide(pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Decision {
    let case = Case {
        pod,
        memory,
        around,
    };
    let decision = out_of_scope(case)
        .or_else(|| refused(pod))
        .unwrap_or_else(|| {
            let unended = unended(pod);
            let left = openkruise::left::left(case, &unended).is_some();
            let wants = if left {
                Vec::new()
            } else {
                swap::wants(case, &unended)
            };
            Decision {
                wants,
                ..mains_not_done(pod).unwrap_or_else(|| sidecars(case))
            }
        });
    unless_said(when_free(decision, memory, around), memory)
}

/// Returns the decision for a pod that is not selected: nothing is written or reported. Its reason
/// also shows whether anybody could end the pod; if not, it need not be kept.
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

/// Drops the action while a write for the pod is in flight, or during the back-off after a failure.
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

/// Drops reports that were already made: each is made once per pod and reason. The rest of the
/// decision stays as it is.
fn unless_said(mut decision: Decision, memory: &Memory) -> Decision {
    decision
        .reports
        .retain(|report| !memory.said.contains(&report.reason));
    decision
}

pub(crate) fn out_of_scope(case: Case<'_>) -> Option<Decision> {
    let pod = case.pod;
    if pod.restart_policy == RestartPolicy::Always {
        return Some(Decision::quiet(Reason::RestartPolicyAlways));
    }
    if pod.deleting {
        return Some(Decision::quiet(Reason::PodDeleting));
    }
    if pod.phase.is_terminal() {
        return Some(finished::finished(case));
    }
    None
}

/// Decides about the sidecars of a pod that is not finished and whose main containers are done.
fn sidecars(case: Case<'_>) -> Decision {
    let pod = case.pod;
    let mut decision = main_failed(pod).unwrap_or_else(|| climb(case));
    decision.reports.extend(left_to_platform(pod));
    decision
        .reports
        .extend(annotation_problem(pod).filter(|_| decision.reason != Reason::MainFailed));
    decision
}

/// Decides by the first method that can act on the sidecars, step by step.
fn climb(case: Case<'_>) -> Decision {
    let (pod, around) = (case.pod, case.around);
    let all = unended(pod);
    if let Some(decision) = finish::advance(case, &all) {
        return decision;
    }
    let fails_again = swap::fails_again(case).or_else(|| crashes::again(case));
    if all.is_empty() && fails_again.is_none() {
        return Decision::quiet(Reason::SidecarsEnded);
    }
    if let Some(until) = around.policies_unseen_until {
        return Decision::later(Reason::PoliciesUnseen, until);
    }
    if let Some(until) = around.facts.unseen_until {
        return Decision::later(Reason::NodeNotSeen, until);
    }
    // This is about the whole pod, not only the sidecars whose turn it is.
    if let Some(left) = openkruise::left::left(case, &all) {
        return left;
    }
    if let Some(why) = fails_again
        && let Some(decision) = finish::at_once(case)
    {
        return after(vec![why], decision);
    }
    let mut last = Decision::quiet(Reason::SidecarsEnded);
    for turn in turns(case) {
        match climb_turn(case, &turn) {
            Step::Here(decision) => return with_rest(&turn, decision),
            Step::Next { reports, again } => {
                last = nothing_led_on(case, &turn, reports, again);
                if turn.waits.is_some() {
                    break;
                }
            }
        }
    }
    last
}

/// Returns the decision of the first method that can act in a step, or the reports of all methods.
fn climb_turn(case: Case<'_>, turn: &Turn<'_>) -> Step {
    let Turn {
        unended, methods, ..
    } = turn;
    let mut refused = Vec::new();
    let mut earliest: Option<Moment> = None;
    if unended.is_empty() {
        return Step::Next {
            reports: refused,
            again: earliest,
        };
    }
    for (nth, method) in methods.iter().enumerate() {
        match ask(*method, case, unended, turn.after(nth)) {
            Step::Here(decision) => return Step::Here(after(refused, decision)),
            Step::Next { reports, again } => {
                refused.extend(reports);
                earliest = earliest.into_iter().chain(again).min();
            }
        }
    }
    Step::Next {
        reports: refused,
        again: earliest,
    }
}

/// Adds to the decision of a step when the next sidecar is due.
fn with_rest(turn: &Turn<'_>, decision: Decision) -> Decision {
    Decision {
        again: decision.again.into_iter().chain(turn.waits).min(),
        ..decision
    }
}

/// Decides where no method of a step can act. While a sidecar is not due yet nothing is reported,
/// because the method that ends it may end the others too.
fn nothing_led_on(
    case: Case<'_>,
    turn: &Turn<'_>,
    refused: Vec<Report>,
    again: Option<Moment>,
) -> Decision {
    let (pod, around) = (case.pod, case.around);
    if let Some(until) = turn.waits {
        let again = again.map_or(until, |again| again.min(until));
        return Decision::later(Reason::SidecarDelayed, again);
    }
    let lacks_room = refused
        .iter()
        .any(|report| report.reason == Reason::NoHeadroom);
    let swaps_wanted = if lacks_room {
        swap::wanted(case, &turn.unended)
    } else {
        0
    };
    Decision {
        swaps_wanted,
        ..exhausted(pod, refused, again, around)
    }
}

/// Adds the reports of the methods tried before: to the note of an action that is no swap, why it
/// is none; to the reports, what was tried and did not end the sidecar: a request to OpenKruise's
/// daemon, or an exit image that cannot be started, for which no method waits.
fn after(refused: Vec<Report>, mut decision: Decision) -> Decision {
    if let (Some(Action::Finish(_) | Action::Recreate(_)), Some(done)) =
        (&decision.action, &mut decision.done)
    {
        for report in &refused {
            if !done.note.contains(&report.note) {
                let _ = write!(done.note, "; {}: {}", report.reason, report.note);
            }
        }
    }
    let is_failed = |report: &Report| {
        matches!(
            report.reason,
            Reason::RecreateUnanswered | Reason::RecreateFailed | Reason::ExitImageNotStarted
        )
    };
    let failed = refused.into_iter().filter(is_failed).collect();
    decision.reports.extend(one_per_reason(failed));
    decision
}

/// Queries one method for its step; `later` are the methods after it.
pub(crate) fn ask(
    method: Method,
    case: Case<'_>,
    unended: &[Unended<'_>],
    later: &[Method],
) -> Step {
    match method {
        Method::Swap => swap::step(case, unended, later),
        Method::Finish => finish::step(case, unended),
        Method::Recreate => recreate::step(case, unended),
    }
}

/// Reports why no method can act.
fn exhausted(
    pod: &Pod,
    mut refused: Vec<Report>,
    again: Option<Moment>,
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
        "node {node} is {class}, where no allowed method ends the sidecars of a pod with restartPolicy {policy:?}: allow finish (start the controller without --finish=never), delete the pod, or, \
         if the node does restart containers whose image changes, set its label {OVERRIDE} (see swaplet nodes)"
    );
    Report {
        reason: Reason::NoRung,
        note,
    }
}
