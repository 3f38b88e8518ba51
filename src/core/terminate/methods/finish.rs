//! The method `finish`: the pod's phase is written, and the node ends what still runs.
//!
//! OpenKruise's `KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE` does the same (`sidecarterminator`,
//! "mark terminated"). A kubelet needs a nudge with it. If the phase arrives with a change of the
//! metadata, it takes the phase for the end of the pod; if alone, it reverts the phase when it
//! compares statuses, every 10 s (`docs/measured.md`, rows 31 and 32). Until its pod worker has
//! noticed, that comparison may still revert the phase, and a pod whose sidecar is stopped in that
//! moment is judged by the sidecar's exit code: `Failed`, for good (the same, "The phase against
//! the kubelet's own writes"). So a kubelet's pod is finished only when it has been quiet, and
//! again at once when the phase was reverted.
//!
//! How long it has to be quiet was measured (`docs/measured.md`, "The phase against the kubelet's
//! own writes").

use std::time::Duration;

use crate::objects::moment::Moment;
use crate::objects::pod::roles::{self, Unended};
use crate::objects::pod::{Container, ContainerState, Phase, Pod};
use crate::report::decision::{Action, Decision, Finish, Method, Report, listed};
use crate::report::reason::Reason;
use crate::terminate::memory::Memory;
use crate::terminate::memory::finish_record::{FinishRecord, PATIENCE, QUIET, QUIET_STATUS};
use crate::terminate::methods::swap::changes;
use crate::terminate::methods::{Step, swap};
use crate::terminate::{Case, Circumstances, ended_by_others, ending, has_lost_work, turn};

/// The most writes of the phase of one pod: a kubelet reverts it at most every 10 s, so this covers
/// two minutes.
const WRITES: u32 = 12;
/// How long a finished pod on a virtual node is watched: two polls of a provider that is polled
/// every 5 s.
const VIRTUAL_SETTLES: Duration = Duration::from_secs(10);
/// How long a finished pod is watched after its last change: two of the kubelet's comparisons.
const SETTLES: Duration = Duration::from_secs(20);
/// How long a kubelet may take to show that all containers have ended, besides their grace period.
const TEARDOWN: Duration = Duration::from_secs(60);

/// Decides about a pod whose main containers are done and whose phase is not terminal.
pub(crate) fn step(case: Case<'_>, unended: &[Unended<'_>]) -> Step {
    let (memory, around) = (case.memory, case.around);
    let Some(record) = memory.finish.as_deref() else {
        return Step::next(Vec::new(), None);
    };
    if record.writes >= WRITES {
        let note = format!(
            "the phase was written {WRITES} times and reverted each time: find what writes this pod's status"
        );
        return Step::next(vec![Report::new(Reason::FinishUndone, note)], None);
    }
    if let Some((until, words)) = memory.denied.closes(Method::Finish, around.now) {
        return Step::next(vec![Report::new(Reason::WriteDenied, words)], Some(until));
    }
    let due = record.due(around.may_be_kubelet());
    if due > around.now {
        return Step::Here(wait(record, due, around.now));
    }
    let names = listed(unended.iter().map(|(_, sidecar)| &sidecar.name));
    let restless = record.is_restless(around.now);
    Step::Here(write(case, record, &names, restless))
}

/// Writes the phase of a pod in which a node starts a container again and again, so that it is never
/// quiet for long: in the pause before the next start, as far as the node tells its length. While
/// all of them run it has to be quiet as elsewhere: a node that takes the phase back while it stops
/// one would judge the pod by that. `None` if the phase does not end the pod.
pub(crate) fn at_once(case: Case<'_>) -> Option<Decision> {
    let (pod, around) = (case.pod, case.around);
    let record = case.memory.finish.as_deref().filter(|_| may_end(case))?;
    // Each further start counts for the Job, and a node that starts it each second is never quiet.
    let pause = pause(pod).map(|pause| match swap::has_failed_once_more(case) {
        true => Duration::ZERO,
        false => pause,
    });
    let (due, restless) = match pause {
        Some(pause) => (record.due_in_pause(around.may_be_kubelet(), pause), true),
        None => (
            record.due(around.may_be_kubelet()),
            record.is_restless(around.now),
        ),
    };
    if due > around.now {
        return Some(Decision::later(Reason::FinishWaits, due));
    }
    let unended = roles::unended(pod).into_iter().map(|(_, sidecar)| sidecar);
    let all = unended.chain(roles::returning(pod));
    let names = listed(all.map(|sidecar| &sidecar.name));
    Some(write(case, record, &names, restless))
}

/// Returns how long the status of the pod must not have changed, by what a kubelet says of its
/// back-off: it has work on the pod for a second after a container has failed. `None` if no
/// sidecar is between two starts.
fn pause(pod: &Pod) -> Option<Duration> {
    const WORKS: Duration = Duration::from_secs(1);
    let told = roles::sidecars(pod).filter_map(|sidecar| match &sidecar.status.as_ref()?.state {
        ContainerState::Waiting { message, .. } => {
            let wait = message.strip_prefix("back-off ");
            let wait = wait.and_then(|wait| wait.split_once('s'));
            Some(wait.map_or(WORKS, |(wait, _)| match wait.parse::<u64>() {
                Ok(seconds) if seconds < QUIET.as_secs() => Duration::ZERO,
                // From one minute on it is written as 1m20.
                _ => QUIET_STATUS,
            }))
        }
        _ => None,
    });
    let ended = roles::returning(pod).next().map(|_| WORKS);
    told.min().or(ended)
}

fn write(case: Case<'_>, record: &FinishRecord, names: &str, restless: bool) -> Decision {
    let (pod, kubelet) = (case.pod, case.around.may_be_kubelet());
    let phase = if roles::mains_succeeded(pod) {
        Phase::Succeeded
    } else {
        Phase::Failed
    };
    let version = (!restless).then(|| pod.version.clone());
    let action = Action::Finish(Finish {
        phase,
        version,
        nudge: kubelet,
    });
    let mut decision = Decision::act(
        action,
        Report::new(Reason::PhaseWritten, note(phase, names, kubelet, restless)),
    );
    // A repeated write was reported before.
    decision.done = decision.done.filter(|_| record.written_at.is_none());
    decision
}

/// Returns true if this method can end the pod, at the latest when all its sidecars are due.
pub(crate) fn may_end(case: Case<'_>) -> bool {
    let record = case.memory.finish.as_deref();
    record.is_some_and(|record| record.writes < WRITES)
        && turn::may_finish(case.pod, case.memory, case.around.allowed)
}

/// Continues what this method has begun, whatever the order of the methods, and also if the
/// sidecars just ended: a kubelet that reverted the phase judges the pod by them.
pub(crate) fn advance(case: Case<'_>, unended: &[Unended<'_>]) -> Option<Decision> {
    let memory = case.memory;
    memory.phase_written_at()?;
    // An earlier run of the process, which has begun it, may have been allowed more.
    if !turn::may_finish(case.pod, memory, case.around.allowed) {
        return None;
    }
    match step(case, unended) {
        Step::Here(decision) => Some(decision),
        Step::Next { .. } => None,
    }
}

/// Waits for quiet; reports when that takes long, because then something else is wrong with the
/// pod.
fn wait(record: &FinishRecord, due: Moment, now: Moment) -> Decision {
    let impatient = record.unrest_since + PATIENCE;
    if record.written_at.is_some() {
        return Decision::later(Reason::FinishWaits, due);
    }
    if now < impatient {
        return Decision::later(Reason::FinishWaits, due.min(impatient));
    }
    let note = format!(
        "the pod has kept changing for {} s; its phase can be written once its status has not changed for {} s: find what keeps restarting in it",
        PATIENCE.as_secs(),
        QUIET_STATUS.as_secs()
    );
    Decision {
        again: Some(due),
        ..Decision::reporting(Reason::FinishNotQuiet, note)
    }
}

fn note(phase: Phase, names: &str, kubelet: bool, restless: bool) -> String {
    let phase = phase.as_str();
    if kubelet {
        let restless = if restless {
            "; something keeps changing the pod, which is a risk: the node may revert the phase"
        } else {
            ""
        };
        format!(
            "main containers are done; phase {phase} is written, so that the node ends {names}, whatever the exit code{restless}"
        )
    } else {
        format!(
            "main containers are done; phase {phase} is written; on this virtual node {names} may run, and its instance be billed, until the pod is deleted: set \
             spec.ttlSecondsAfterFinished of its Job"
        )
    }
}

/// Waits after the phase was written: the node may still revert it. `None` once nothing is left to
/// observe, or if the phase was not written.
pub(crate) fn watch(case: Case<'_>) -> Option<Decision> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let record = memory.finish.as_deref()?;
    let until = settled(pod, record, record.written_at?, around);
    (until > around.now).then(|| Decision::later(Reason::FinishPending, until))
}

/// Returns when the state that the node shows can be taken for the end.
fn settled(
    pod: &Pod,
    record: &FinishRecord,
    written_at: Moment,
    around: &Circumstances<'_>,
) -> Moment {
    if !around.may_be_kubelet() {
        return written_at + VIRTUAL_SETTLES;
    }
    if pod
        .containers
        .iter()
        .all(|container| container.end().is_some())
    {
        return record.changed_at + SETTLES;
    }
    written_at + swap::grace(pod) + TEARDOWN
}

/// Reports on a pod whose phase this method has written, once nothing is left to observe.
pub(crate) fn finished(case: Case<'_>) -> Option<Decision> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    memory.phase_written_at()?;
    let phase = pod.phase.as_str();
    let ends = listed(roles::sidecars(pod).map(|sidecar| describe(sidecar, memory)));
    let changes = changes(case);
    if let Some(words) = ended_by_others(pod).filter(|_| has_lost_work(pod)) {
        let note = format!("{words}: {ends}{changes}");
        return Some(Decision::reporting(Reason::SidecarEnded, note));
    }
    if has_lost_work(pod) {
        let note = format!(
            "the pod is Failed although every main container exited with 0 ({ends}): the node judged it by a sidecar before it observed the phase{changes}"
        );
        return Some(Decision::reporting(Reason::PodFailedAfterFinish, note));
    }
    let note = if around.may_be_kubelet() {
        let late = ending::lateness(pod, memory);
        format!("the pod is {phase}: {ends}{late}{changes}")
    } else {
        format!(
            "the pod is {phase}: {ends}; what runs on the virtual node ends when the pod is deleted{changes}"
        )
    };
    Some(Decision::reporting(Reason::SidecarEnded, note))
}

fn describe(sidecar: &Container, memory: &Memory) -> String {
    memory.swap_of(&sidecar.name).map_or_else(
        || ending::describe(sidecar, memory),
        |swapped| ending::describe_end(sidecar, swapped, memory),
    )
}
