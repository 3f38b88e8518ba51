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

use std::fmt::Write as _;
use std::time::Duration;

use super::swap;
use crate::objects::command::Obstacle;
use crate::objects::moment::Moment;
use crate::objects::pod::roles::{self, Unended};
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy};
use crate::objects::recreate_request::{RecreateRequest, Recreated, RequestPhase};
use crate::report::decision::{Action, Decision, Method, Report, listed, one_per_reason};
use crate::report::reason::Reason;
use crate::terminate::memory::{ANSWERS, Asked, Memory};
use crate::terminate::methods::Step;
use crate::terminate::{Case, ending, failed_by_others, has_lost_work};

/// Requests the end of the sidecars that no pending swap may end, follows an existing request, or
/// reports why a request cannot end them.
pub(crate) fn step(case: Case<'_>, unended: &[Unended<'_>]) -> Step {
    let (memory, around) = (case.memory, case.around);
    let sidecars = unended.iter().map(|(_, sidecar)| *sidecar);
    let targets: Vec<_> = sidecars
        .filter(|sidecar| !swap::is_hoped_for(case, sidecar))
        .collect();
    if targets.is_empty() {
        return Step::next(Vec::new(), None);
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
    // What is said of the swap holds for any other end of a container.
    if swap::failed_and_ignored(case).is_some() {
        return Step::next(Vec::new(), None);
    }
    let obstacles: Vec<_> = targets
        .iter()
        .filter_map(|target| obstacle(case, target))
        .collect();
    if !obstacles.is_empty() {
        return Step::next(one_per_reason(obstacles), None);
    }
    let swaps_wanted = restarts_risked(case, targets);
    if let Some(step) = swap::no_room(case, swaps_wanted).filter(|_| swaps_wanted > 0) {
        return step;
    }
    let note = note(case, targets);
    let names = targets.iter().map(|target| target.name.clone()).collect();
    let requested = Decision::act(
        Action::Recreate(names),
        Report::new(Reason::RecreateRequested, note),
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
    Step::next(vec![Report::new(reason, note)], None)
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
        return Step::next(one_per_reason(reports), again);
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
    let ends = listed(described);
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
    let phase = pod.phase.as_str();
    Some(Decision::reporting(
        Reason::SidecarEnded,
        format!("the pod is {phase}: {ends}"),
    ))
}

// The progress of OpenKruise with a request.

/// How long the daemon and the kubelet may take after a response, besides the grace periods of the
/// containers, which are stopped one after another.
const STOPPED_VISIBLE: Duration = Duration::from_secs(60);

/// The progress of one container of a request.
enum Progress {
    /// The daemon, or the node, may still act.
    Until(Moment),
    /// The request does not end it, for this reason.
    Over(Report),
    /// Another method has acted on it since the request.
    Past,
}

fn progress(
    pod: &Pod,
    target: &Container,
    request: &RecreateRequest,
    asked_at: Moment,
    memory: &Memory,
    now: Moment,
) -> Progress {
    if memory
        .swap_of(&target.name)
        .is_some_and(|swap| swap.at > asked_at)
    {
        return Progress::Past;
    }
    let name = RecreateRequest::name_for(&request.pod_uid);
    let over = |reason, what: String| {
        Progress::Over(Report::new(
            reason,
            format!("container {}: {what}", target.name),
        ))
    };
    let Some(recreated) = request.container(&target.name) else {
        return over(
            Reason::RecreateFailed,
            format!(
                "ContainerRecreateRequest {name} is there and does not name it; a pod has only one"
            ),
        );
    };
    if recreated.failed {
        return over(
            Reason::RecreateFailed,
            format!(
                "OpenKruise's daemon could not stop it: {}",
                recreated.message
            ),
        );
    }
    if let Some(what) = came_back(target, recreated) {
        return over(Reason::RecreateFailed, what);
    }
    let (until, reason, what) = deadline(pod, request, asked_at);
    if request.phase == RequestPhase::Completed && !recreated.killed {
        return over(
            Reason::RecreateUnanswered,
            format!("{name} completed without stopping it: {}", request.message),
        );
    }
    if now < until {
        Progress::Until(until)
    } else {
        over(reason, format!("{name} {what}"))
    }
}

fn came_back(target: &Container, recreated: &Recreated) -> Option<String> {
    let end = target
        .status
        .as_ref()
        .and_then(|status| status.last_end.as_deref());
    let code = end
        .and_then(|end| end.exit_code)
        .map_or_else(String::new, |code| format!(" with exit code {code}"));
    recreated.is_back(target).then(|| {
        format!(
            "OpenKruise's daemon stopped it, it ended{code}, and the node started it again: let it exit with 0 on SIGTERM, or allow finish"
        )
    })
}

/// Returns until when the end of a container is awaited, and what is reported then.
fn deadline(
    pod: &Pod,
    request: &RecreateRequest,
    asked_at: Moment,
) -> (Moment, Reason, &'static str) {
    if request.phase == RequestPhase::Unanswered {
        let what = "is not answered by OpenKruise's daemon: check that it runs on the node";
        return (asked_at + ANSWERS, Reason::RecreateUnanswered, what);
    }
    let until = asked_at + swap::graces(pod) + STOPPED_VISIBLE;
    (
        until,
        Reason::RecreateFailed,
        "was accepted by OpenKruise's daemon, and the container has not ended",
    )
}

// The reasons not to request the end of a container from OpenKruise, and how containers ended.

/// Describes the request and why it is made.
fn note(case: Case<'_>, targets: &[&Container]) -> String {
    let (pod, around) = (case.pod, case.around);
    let names = listed(targets.iter().map(|target| &target.name));
    let mut note = format!(
        "main containers are done; requesting OpenKruise's daemon on the node to end {names}, by ContainerRecreateRequest {}",
        RecreateRequest::name_for(&pod.uid)
    );
    for target in targets {
        let _ = match past_exit(case, target) {
            Some(code) => write!(note, "; {} {}", target.name, ended(code)),
            None => write!(
                note,
                "; how {} ends is not known ({})",
                target.name,
                consequence(pod, target)
            ),
        };
    }
    if around.allowed.prefer == Some(Method::Recreate) {
        note.push_str("; chosen by --prefer=crr");
    }
    note
}

/// Reports what keeps a request from ending this container, or would make it do harm.
fn obstacle(case: Case<'_>, target: &Container) -> Option<Report> {
    if let Some(by) = roles::may_restart_all(case.pod) {
        let note = format!(
            "container {}: a ContainerRecreateRequest would keep its exit code, and the restartPolicyRules of {} may restart all containers of the pod: {}",
            target.name,
            by,
            Obstacle::RestartsAllContainers.fix()
        );
        return Some(Report::new(Reason::RecreateExitCode, note));
    }
    if !is_running(target) {
        let note = format!(
            "container {}: OpenKruise's daemon stops running containers only, and this one is not running",
            target.name
        );
        return Some(Report::new(Reason::RecreateImpossible, note));
    }
    trap(case, target)
}

/// Returns true if the container runs and has an id: OpenKruise's webhook rejects others.
fn is_running(target: &Container) -> bool {
    target.status.as_ref().is_some_and(|status| {
        matches!(status.state, ContainerState::Running { .. }) && !status.container_id.is_empty()
    })
}

/// Reports that the exit code with which the container ended before would fail the pod, or restart
/// it.
fn trap(case: Case<'_>, target: &Container) -> Option<Report> {
    let pod = case.pod;
    let reported = |code: &str| {
        Report::new(
            Reason::RecreateExitCode,
            format!(
                "container {}: {code}, which a ContainerRecreateRequest would keep ({}): let the container exit with 0 on SIGTERM, or allow finish",
                target.name,
                consequence(pod, target)
            ),
        )
    };
    match (target.effective_policy(pod), past_exit(case, target)) {
        (RestartPolicy::Always, _) => Some(reported("its own restartPolicy is Always")),
        (_, None | Some(Some(0))) => None,
        // The pod is Failed anyway.
        (RestartPolicy::Never, _)
            if !target.has_restart_rules() && !roles::mains_succeeded(pod) =>
        {
            None
        }
        (_, Some(code)) => Some(reported(&format!("it {}", ended(code)))),
    }
}

fn ended(code: Option<i64>) -> String {
    code.map_or_else(
        || "ended without an exit code before".to_owned(),
        |code| format!("ended with exit code {code} before"),
    )
}

fn consequence(pod: &Pod, target: &Container) -> &'static str {
    match target.effective_policy(pod) {
        RestartPolicy::Never if !target.has_restart_rules() => "any other than 0 fails the pod",
        RestartPolicy::Always => "any brings it back",
        _ => "any other than 0 brings it back",
    }
}

/// Returns the exit code with which the container ended before, by a swap or earlier in this pod.
/// The inner `None` is an end without an exit code.
fn past_exit(case: Case<'_>, target: &Container) -> Option<Option<i64>> {
    let swapped = case.memory.swap_of(&target.name);
    let swapped = swapped.and_then(|record| record.real_end.as_ref());
    let earlier = swapped.or_else(|| target.status.as_ref()?.last_end.as_deref());
    earlier.map(|end| end.exit_code)
}
