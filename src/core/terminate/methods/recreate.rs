//! The method `recreate`: a `ContainerRecreateRequest` is created for OpenKruise's daemon and
//! followed to its end.
//!
//! The daemon stops a container like the kubelet does, and nothing replaces the container: so its
//! own exit code counts. One other than 0 fails the pod under `Never`, and under `OnFailure` the
//! kubelet starts the sidecar again for ever (`docs/measured.md`, "OpenKruise 1.9 on an ordinary
//! node"). There is one request per pod, whoever creates it: it is never tried twice.
//!
//! Its name is OpenKruise's own, so a request by OpenKruise, by an earlier run of swaplet or by
//! this one is the same object. Its `statusContext` has the id of the container that was to be
//! stopped, so no memory is needed to detect that another one runs.

mod consequences;
mod progress;

use self::consequences::{note, obstacle, past_exit};
use self::progress::{Progress, progress};

use super::swap;
use crate::objects::moment::Moment;
use crate::objects::pod::roles::Unended;
use crate::terminate::blame::{failed_by_others, has_lost_work};
use crate::terminate::circumstances::Case;
use crate::terminate::ending;
use crate::terminate::memory::asked::{ANSWERS, Asked};
use crate::terminate::methods::Step;

use crate::objects::pod::{Container, Phase, RestartPolicy, roles};
use crate::objects::recreate_request::RecreateRequest;
use crate::report::decision::{Action, Decision, Report, one_per_reason};
use crate::report::reason::Reason;

/// Requests the end of the sidecars that no pending swap may end, follows an existing request, or
/// reports why a request cannot end them.
pub(crate) fn step(case: Case<'_>, unended: &[Unended<'_>]) -> Step {
    let (memory, around) = (case.memory, case.around);
    let sidecars = unended.iter().map(|(_, sidecar)| *sidecar);
    let targets: Vec<_> = sidecars
        .filter(|sidecar| !swap::is_hoped_for(case, sidecar))
        .collect();
    if targets.is_empty() {
        return Step::Next {
            reports: Vec::new(),
            again: None,
        };
    }
    match (around.openkruise.request, &memory.asked) {
        (Some(request), _) => follow(case, &targets, request),
        (None, Some(asked)) if !asked.is_worth_another_try(around.now) => {
            not_seen(asked, around.now)
        }
        (None, _) => ask(case, &targets),
    }
}

fn ask(case: Case<'_>, targets: &[&Container]) -> Step {
    let obstacles: Vec<_> = targets
        .iter()
        .filter_map(|target| obstacle(case, target))
        .collect();
    if !obstacles.is_empty() {
        return Step::Next {
            reports: one_per_reason(obstacles),
            again: None,
        };
    }
    let swaps_wanted = restarts_risked(case, targets);
    if let Some(step) = swap::no_room(case, swaps_wanted).filter(|_| swaps_wanted > 0) {
        return step;
    }
    let note = note(case, targets);
    let names = targets.iter().map(|target| target.name.clone()).collect();
    let requested = Decision::act(
        Action::Recreate(names),
        Report {
            reason: Reason::RecreateRequested,
            note,
        },
    );
    Step::Here(Decision {
        swaps_wanted,
        ..requested
    })
}

/// Returns the number of containers that may be restarted, which counts for the Job like swaps do.
fn restarts_risked(case: Case<'_>, targets: &[&Container]) -> u32 {
    let pod = case.pod;
    let comes_back = |target: &&&Container| {
        *target.effective_policy(pod) != RestartPolicy::Never || target.has_restart_rules()
    };
    let risked = targets
        .iter()
        .filter(comes_back)
        .filter(|target| past_exit(case, target) != Some(Some(0)));
    u32::try_from(risked.count()).unwrap_or(u32::MAX)
}

/// Handles a request that was created, or tried, and that the watch does not show.
fn not_seen(asked: &Asked, now: Moment) -> Step {
    let until = asked.at + ANSWERS;
    let (reason, note) = match &asked.error {
        Some(words) => (
            Reason::RecreateFailed,
            format!("a ContainerRecreateRequest cannot be created: {words}"),
        ),
        None if now < until => return Step::Here(Decision::later(Reason::RecreatePending, until)),
        None => (
            Reason::RecreateUnanswered,
            "the ContainerRecreateRequest is missing: check whether it was deleted".to_owned(),
        ),
    };
    Step::Next {
        reports: vec![Report { reason, note }],
        again: None,
    }
}

fn follow(case: Case<'_>, targets: &[&Container], request: &RecreateRequest) -> Step {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let asked_at = memory.asked_at().unwrap_or(around.now);
    let mut reports = Vec::new();
    let mut again: Option<Moment> = None;
    let mut lead_on = false;
    for target in targets {
        match progress(pod, target, request, asked_at, memory, around.now) {
            Progress::Until(at) => again = Some(again.map_or(at, |earlier| earlier.min(at))),
            Progress::Over(report) => reports.push(report),
            Progress::Past => lead_on = true,
        }
    }
    if lead_on || !reports.is_empty() {
        return Step::Next {
            reports: one_per_reason(reports),
            again,
        };
    }
    let swaps_wanted = restarts_risked(case, targets);
    Step::Here(Decision {
        again,
        swaps_wanted,
        ..Decision::quiet(Reason::RecreatePending)
    })
}

/// Reports on a finished pod that was ended by a request; `None` if it was not.
pub(crate) fn finished(case: Case<'_>) -> Option<Decision> {
    let (pod, memory) = (case.pod, case.memory);
    let left = [Reason::LeftToOpenKruise, Reason::OpenKruiseIncomplete]
        .iter()
        .any(|reason| memory.said.contains(reason));
    if left || memory.asked_at().is_none() {
        return None;
    }
    let described = roles::sidecars(pod).map(|sidecar| ending::describe(sidecar, memory));
    let ends = described.collect::<Vec<_>>().join(", ");
    let late = ending::lateness(pod, memory);
    let ends = format!("{ends}; requested from OpenKruise's daemon{late}");
    if has_lost_work(pod) {
        if let Some(words) = failed_by_others(case) {
            let note = format!("{words}; {ends}");
            return Some(Decision::reporting(Reason::SidecarEnded, note));
        }
        let note = format!(
            "the pod is Failed although every main container exited with 0: {ends}; let it exit with 0 on SIGTERM, or allow finish"
        );
        return Some(Decision::reporting(Reason::PodFailedAfterRecreate, note));
    }
    let phase = if pod.phase == Phase::Succeeded {
        "Succeeded"
    } else {
        "Failed"
    };
    Some(Decision::reporting(
        Reason::SidecarEnded,
        format!("the pod is {phase}: {ends}"),
    ))
}
