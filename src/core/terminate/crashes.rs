//! Containers beside the main ones that the node may start again, native sidecars too: each of
//! their starts is a restart that a Job counts, besides those of swaps, and nothing says when the
//! next one comes. So where the phase may be written, it ends such a pod, in the pause before the
//! next start if there is one, and where the node does not start them as it should.

use jiff::{SignedDuration, Timestamp};

use super::methods::{Step, finish};
use super::{Case, exhausted, no_more_starts, turn};
use crate::cluster::headroom::Ledger;
use crate::objects::moment::Moment;
use crate::objects::pod::roles::{self, Unended};
use crate::objects::pod::{Container, Pod, Terminated};
use crate::report::decision::{Decision, Report, listed};
use crate::report::reason::Reason;

/// How long before the end of the main containers a crash still counts: after it a kubelet forgets
/// its back-off (Kubernetes: twice `MaxContainerBackOff`).
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);

/// Returns the report about containers of the pod, other than its main ones, that have ended and
/// were started again, and may be again, if its Job counts that and all sidecars are due to end;
/// `None` if there are none.
pub(super) fn again(case: Case<'_>) -> Option<Report> {
    let pod = case.pod;
    if !case.around.may_be_kubelet() || !Ledger::counts(pod) || !turn::are_all_due(case) {
        return None;
    }
    let crashing = pod.containers.iter().filter(|other| {
        !roles::is_main(pod, other)
            && !case.memory.shows_exit_image(other, case.around.exit_images)
            && restart(pod, other).is_some_and(|end| is_recent(pod, end.finished_at))
    });
    let native = pod.native_end.as_deref();
    let native = native.filter(|end| is_recent(pod, end.finished_at));
    let names = crashing.map(|other| &other.name);
    let names = listed(names.chain(native.map(|end| &end.name)));
    let note = format!(
        "the Job counts each start of {names}, which has ended before and is started again"
    );
    (!names.is_empty()).then_some(Report::new(Reason::NoHeadroom, note))
}

/// Returns the last end of the container, if the node starts it again after such a one.
fn restart<'a>(pod: &Pod, sidecar: &'a Container) -> Option<&'a Terminated> {
    let status = sidecar.status.as_ref()?;
    let end = sidecar.end().or(status.last_end.as_deref())?;
    let comes_back = || sidecar.comes_back_after(pod, end.exit_code) == Some(true);
    (end.exit_code.is_some() && comes_back()).then_some(end)
}

fn is_recent(pod: &Pod, ended: Option<Timestamp>) -> bool {
    let times = ended.zip(roles::mains_ended_at(pod));
    times.is_none_or(|(end, mains)| mains.duration_since(end) < FORGOTTEN)
}

/// How long an end may be shown before a node that is to start the container again counts as one that
/// does not: longer than a kubelet shows it, also a busy one.
const NOT_STARTED: std::time::Duration = std::time::Duration::from_secs(60);

/// Returns until when nothing is done about sidecars that have all ended, because the node is to start
/// some of them again; `None` once it should have, if one has not ended, or if no more starts are to
/// come.
pub(super) fn starts_until(case: Case<'_>, unended: &[Unended<'_>]) -> Option<Moment> {
    let is_told = || finish::may_end(case) && no_more_starts(case).is_some();
    if !unended.is_empty() || case.pod.phase_was_written || is_told() {
        return None;
    }
    let record = case.memory.finish.as_deref()?;
    let until = roles::returning(case.pod).filter_map(|sidecar| {
        let shown = record.returns_since(sidecar)? + NOT_STARTED;
        Some(shown.max(turn::due(case, sidecar).unwrap_or(shown)))
    });
    until.max().filter(|until| *until > case.around.now)
}

/// Decides where nothing runs in the pod, and its node does not start the sidecars again that have
/// failed, as it should: the phase ends the pod.
pub(super) fn not_started(case: Case<'_>) -> Decision {
    let (pod, around) = (case.pod, case.around);
    if pod.phase_was_written {
        return Decision::quiet(Reason::SidecarsEnded);
    }
    let containers = pod.containers.iter().enumerate();
    let ended: Vec<_> = containers
        .filter(|(_, container)| roles::returning(pod).any(|it| it.name == container.name))
        .collect();
    let step = turn::allows_finish(pod, around.allowed).then(|| finish::step(case, &ended));
    match step {
        Some(Step::Here(decision)) => return decision,
        Some(Step::Next { reports, again }) if !reports.is_empty() => {
            return exhausted(pod, reports, again, around);
        }
        _ => {}
    }
    let names = listed(ended.iter().map(|(_, sidecar)| &sidecar.name));
    let (node, policy, seconds) = (&pod.node, &pod.restart_policy, NOT_STARTED.as_secs());
    let allow = turn::allow_finish(case, ", or delete the pod");
    let note = format!(
        "all containers of the pod have ended, {names} with an error, and node {node} has not started them again for {seconds} s, as restartPolicy {policy:?} says{allow}"
    );
    Decision::reporting(Reason::NoRung, note)
}
