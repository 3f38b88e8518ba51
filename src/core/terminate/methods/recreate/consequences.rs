//! The reasons not to request the end of a container from OpenKruise, and how containers ended.

use std::fmt::Write as _;

use crate::objects::command::Obstacle;
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy, roles};
use crate::objects::recreate_request::RecreateRequest;
use crate::report::decision::{Method, Report};
use crate::report::reason::Reason;
use crate::terminate::circumstances::Case;

/// Describes the request and why it is made.
pub(super) fn note(case: Case<'_>, targets: &[&Container]) -> String {
    let (pod, around) = (case.pod, case.around);
    let names = targets
        .iter()
        .map(|target| &*target.name)
        .collect::<Vec<_>>()
        .join(", ");
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
pub(super) fn obstacle(case: Case<'_>, target: &Container) -> Option<Report> {
    if let Some(by) = roles::may_restart_all(case.pod) {
        let note = format!(
            "container {}: a ContainerRecreateRequest would keep its exit code, and the restartPolicyRules of {} may restart all containers of the pod: {}",
            target.name,
            by,
            Obstacle::RestartsAllContainers.fix()
        );
        return Some(Report {
            reason: Reason::RecreateExitCode,
            note,
        });
    }
    if !is_running(target) {
        let note = format!(
            "container {}: OpenKruise's daemon stops running containers only, and this one is not running",
            target.name
        );
        return Some(Report {
            reason: Reason::RecreateImpossible,
            note,
        });
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
    let reported = |code: &str| Report {
        reason: Reason::RecreateExitCode,
        note: format!(
            "container {}: {code}, which a ContainerRecreateRequest would keep ({}): let the container exit with 0 on SIGTERM, or allow finish",
            target.name,
            consequence(pod, target)
        ),
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

pub(super) fn ended(code: Option<i64>) -> String {
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
pub(super) fn past_exit(case: Case<'_>, target: &Container) -> Option<Option<i64>> {
    let swapped = case.memory.swap_of(&target.name);
    let swapped = swapped.and_then(|record| record.real_end.as_ref());
    let earlier = swapped.or_else(|| target.status.as_ref()?.last_end.as_deref());
    earlier.map(|end| end.exit_code)
}
