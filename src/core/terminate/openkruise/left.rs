//! The pods that are left to OpenKruise, and what is reported about them.

use std::time::Duration;

use super::{Coexist, Daemon, OpenKruise, Terminator};
use crate::objects::pod::roles::Unended;
use crate::objects::pod::{Container, Phase};
use crate::objects::recreate_request::{RecreateRequest, RequestPhase};
use crate::objects::values::env::{WHEN_JOB_EXIT, WITH_IMAGE};
use crate::report::decision::{Decision, Report, listed};
use crate::report::reason::Reason;
use crate::terminate::memory::Memory;
use crate::terminate::{Case, Circumstances};

/// How long a pod whose main containers are done may stay Pending until OpenKruise is not expected
/// to observe another phase; long enough for an image that is still being pulled.
const STAYS_PENDING: Duration = Duration::from_secs(60);

/// Returns the decision to leave the pod to OpenKruise, with what to report; `None` if swaplet
/// takes it. A pod on which swaplet has acted stays its own.
pub(crate) fn left(case: Case<'_>, unended: &[Unended<'_>]) -> Option<Decision> {
    let (memory, around) = (case.memory, case.around);
    let OpenKruise {
        seen,
        coexist,
        terminator,
        ..
    } = around.openkruise;
    if memory.has_acted() {
        return None;
    }
    if !seen {
        return Some(Decision::quiet(Reason::OpenKruiseUnseen));
    }
    match (coexist, terminator) {
        (Coexist::Own, _) | (_, Terminator::Absent) | (Coexist::Auto, Terminator::Off) => None,
        (Coexist::Defer, _) => Some(left_because(
            "--coexist=defer leaves every pod to OpenKruise while its manager is there",
        )),
        (Coexist::Auto, Terminator::Unknown) => Some(unclear()),
        (Coexist::Auto, Terminator::On) => acts_on(case, unended),
    }
}

fn left_because(why: &str) -> Decision {
    Decision::reporting(
        Reason::LeftToOpenKruise,
        format!("main containers are done; {why}"),
    )
}

fn unclear() -> Decision {
    let note = "OpenKruise is installed, or may be as its API group may not be asked for, and whether its SidecarTerminator is on cannot be read: allow swaplet to read its Deployment \
        (deploy/openkruise.yaml), or set who ends sidecars with --coexist=own or --coexist=defer";
    Decision::reporting(Reason::OpenKruiseUnclear, note.to_owned())
}

/// Decides while the SidecarTerminator is on: does it act on this pod, and on all of its sidecars?
fn acts_on(case: Case<'_>, unended: &[Unended<'_>]) -> Option<Decision> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let OpenKruise {
        daemon, request, ..
    } = around.openkruise;
    let labelled_virtual = around.facts.labelled_virtual;
    let has_daemon =
        daemon == Daemon::Ready || daemon == Daemon::NotReady && around.may_be_kubelet();
    if !labelled_virtual && !has_daemon {
        // OpenKruise would create a request that nothing ever handles.
        return None;
    }
    if unended
        .iter()
        .any(|(_, sidecar)| !sidecar.mark.is_sidecar())
    {
        // To OpenKruise that is a running main container, for which it waits.
        return None;
    }
    if pod.phase == Phase::Pending {
        return while_pending(memory, around);
    }
    let (acts, leaves): (Vec<_>, Vec<_>) = unended
        .iter()
        .map(|(_, sidecar)| *sidecar)
        .partition(|sidecar| is_marked(sidecar, labelled_virtual));
    if acts.is_empty() {
        return None;
    }
    // On ordinary nodes it then ends the whole pod by its phase.
    let ignores = acts.iter().any(|sidecar| sidecar.mark.ignores_exit_code());
    let ends_the_pod = !labelled_virtual && ignores;
    let ignored = ignored(&leaves, labelled_virtual).filter(|_| !ends_the_pod);
    let incomplete = ignored.or_else(|| given_up(&acts, request));
    Some(incomplete.map_or_else(
        || left_because("OpenKruise's SidecarTerminator is on, and ends the sidecars of this pod"),
        |report| Decision::reporting(report.reason, report.note),
    ))
}

/// Returns true if OpenKruise acts on the sidecar: on a virtual node if it names an image,
/// elsewhere if it has the plain mark.
const fn is_marked(sidecar: &Container, labelled_virtual: bool) -> bool {
    if labelled_virtual {
        sidecar.mark.with_image.is_some()
    } else {
        sidecar.mark.when_job_exit
    }
}

/// Leaves a Pending pod, on which OpenKruise does not act, to it for a while: the phase may change.
fn while_pending(memory: &Memory, around: &Circumstances<'_>) -> Option<Decision> {
    let until = memory.mains_done_at.unwrap_or(around.now) + STAYS_PENDING;
    (around.now < until).then(|| Decision::later(Reason::LeftToOpenKruise, until))
}

/// Reports the sidecars on which OpenKruise does not act and which keep the pod from ending.
fn ignored(leaves: &[&Container], labelled_virtual: bool) -> Option<Report> {
    let names = listed(leaves.iter().map(|sidecar| &sidecar.name));
    let (node, mark) = if labelled_virtual {
        ("virtual", WITH_IMAGE)
    } else {
        ("ordinary", WHEN_JOB_EXIT)
    };
    (!leaves.is_empty()).then(|| Report {
        reason: Reason::OpenKruiseIncomplete,
        note: format!(
            "OpenKruise's SidecarTerminator acts on this pod, but not on {names}, which on {node} nodes need {mark}: add it, or switch \
             the SidecarTerminator off and run swaplet with --coexist=own"
        ),
    })
}

/// Reports a completed request whose sidecar runs, still or again: OpenKruise does not try twice.
fn given_up(acts: &[&Container], request: Option<&RecreateRequest>) -> Option<Report> {
    let request = request.filter(|request| request.phase == RequestPhase::Completed)?;
    let (sidecar, recreated) = acts
        .iter()
        .find_map(|sidecar| Some((sidecar, request.container(&sidecar.name)?)))?;
    let words = [&*request.message, &*recreated.message]
        .into_iter()
        .find(|words| !words.is_empty());
    let words = words.unwrap_or("the kubelet has started it again after an exit code other than 0");
    Some(Report::new(
        Reason::OpenKruiseIncomplete,
        format!(
            "OpenKruise's request {} is completed and container {} has not ended ({words}); OpenKruise does not try again: switch its \
             SidecarTerminator off and run swaplet with --coexist=own",
            RecreateRequest::name_for(&request.pod_uid),
            sidecar.name
        ),
    ))
}
