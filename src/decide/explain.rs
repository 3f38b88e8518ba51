//! The decision about a pod, step by step: what was looked at, what was seen, and where the rule comes from.
//!
//! The steps are those of [`decide`], asked through the same functions, so that an explanation cannot say anything else than what
//! the controller does.

use super::circumstances::Circumstances;
use super::decision::{Action, Decision, Report};
use super::headroom::Headroom;
use super::ladder::{Rung, Step};
use super::memory::Memory;
use super::openkruise;
use super::preflight::{Preflight, preflight};
use super::roles::{self, Mains};
use super::swap;
use super::terminate::{Unended, ask, decide, out_of_scope, refused, turn};
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy, Terminated};

const SCOPE: &str = "OpenKruise: isInterestingPod, without its exclusion of phase Pending";
const ROLES: &str = "OpenKruise: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT[_WITH_IMAGE] in the container's env";
const MAINS: &str = "OpenKruise: under Never any exit code, under OnFailure exit code 0";
const NODE: &str = "labels and taints of the node, and what was proved there";
const OPENKRUISE: &str = "OpenKruise: getSidecarContainerNames; one actor per pod";
const FIT: &str = "command, PATH and mounts of the container, beside the paths of the exit image (truth table, rows 7 to 10 and 36)";
const RESTARTS: &str = "Kubernetes: pastBackoffLimitOnFailure";
const LADDER: &str = "the ladder of the node's class";

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub subject: String,
    /// What was seen.
    pub seen: String,
    /// Where the rule comes from.
    pub rule: &'static str,
}

/// A decision and what led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In the order in which things were looked at; what comes after the finding that decided was not looked at.
    pub findings: Vec<Finding>,
    /// What comes of it.
    pub decision: Decision,
}

/// Decides about a pod as [`decide`] does, and tells how.
#[must_use]
pub fn explain(pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Explanation {
    let mut findings = vec![scope(pod)];
    if out_of_scope(pod, memory, around).is_none() {
        findings.extend(pod.containers.iter().map(|each| container(pod, each)));
        if refused(pod).is_none() {
            findings.push(mains(pod));
            if roles::mains_state(pod) == Mains::Done {
                findings.extend(rungs(pod, memory, around));
            }
        }
    }
    Explanation { findings, decision: decide(pod, memory, around) }
}

fn finding(subject: impl Into<String>, seen: String, rule: &'static str) -> Finding {
    Finding { subject: subject.into(), seen, rule }
}

fn scope(pod: &Pod) -> Finding {
    let deleting = if pod.deleting { ", being deleted" } else { "" };
    finding("pod", format!("restartPolicy {}, phase {:?}{deleting}", policy(&pod.restart_policy), pod.phase), SCOPE)
}

fn policy(policy: &RestartPolicy) -> String {
    match policy {
        RestartPolicy::Unknown(text) => format!("{text:?}"),
        known => format!("{known:?}"),
    }
}

fn container(pod: &Pod, container: &Container) -> Finding {
    let role = match container.mark.is_sidecar() {
        _ if roles::is_left_to_platform(pod, container) => "left to the platform under the node",
        true => "sidecar",
        false => "main",
    };
    let own = container.restart_policy.as_ref().map(|own| format!(", its own restartPolicy {}", policy(own))).unwrap_or_default();
    finding(format!("container {}", container.name), format!("{role}{own}; image {}; {}", container.image, state(container)), ROLES)
}

fn state(container: &Container) -> String {
    let Some(status) = &container.status else { return "not reported by the node".to_owned() };
    match &status.state {
        ContainerState::Waiting { reason, message } if message.is_empty() => format!("waiting ({reason})"),
        ContainerState::Waiting { reason, message } => format!("waiting ({reason}: {message})"),
        ContainerState::Running { .. } => "running".to_owned(),
        ContainerState::Terminated(Terminated { exit_code: Some(code), .. }) => format!("ended with exit code {code}"),
        ContainerState::Terminated(_) => "ended, exit code not reported".to_owned(),
        ContainerState::Unreported => "reported without a state".to_owned(),
    }
}

fn mains(pod: &Pod) -> Finding {
    let seen = match roles::mains_state(pod) {
        Mains::Done => "done".to_owned(),
        Mains::Running(main) => format!("{} is not done", main.name),
        Mains::NotReported(main) => format!("{} is not reported by the node", main.name),
    };
    finding("main containers", seen, MAINS)
}

fn rungs(pod: &Pod, memory: &Memory, around: &Circumstances<'_>) -> Vec<Finding> {
    if around.facts.unseen_until.is_some() {
        return vec![finding("node", format!("{} has not been seen yet", pod.node), NODE)];
    }
    let mut findings = vec![finding("node", format!("class {}", around.node), NODE)];
    let (unended, rungs) = turn(pod, memory, around);
    if let Some(left) = openkruise::left(pod, &unended, memory, around) {
        findings.push(finding("OpenKruise", notes_or_reason(&left), OPENKRUISE));
        return findings;
    }
    if rungs.contains(&Rung::Swap) {
        findings.extend(unended.iter().map(|(_, sidecar)| fit(pod, sidecar, around)));
        findings.extend(restarts(pod, &unended, memory, around));
    }
    for (nth, rung) in rungs.iter().enumerate().take_while(|_| !unended.is_empty()) {
        let step = ask(*rung, pod, &unended, &rungs[nth + 1..], memory, around);
        findings.push(finding(format!("rung {rung:?}"), answer(*rung, &step), LADDER));
        if matches!(step, Step::Here(_)) {
            break;
        }
    }
    findings
}

fn fit(pod: &Pod, sidecar: &Container, around: &Circumstances<'_>) -> Finding {
    let seen = match preflight(pod, sidecar, around.exit_images) {
        Preflight::Image { image, .. } => format!("{image} would end it"),
        Preflight::Awaited(paths) => format!("an exit image with {} is to be pushed first", paths.join(", ")),
        Preflight::Blocked { report, .. } => report.reason.to_string(),
    };
    finding(format!("exit image for {}", sidecar.name), seen, FIT)
}

/// Nothing where nobody counts them, or none would be added.
fn restarts(pod: &Pod, unended: &[Unended<'_>], memory: &Memory, around: &Circumstances<'_>) -> Option<Finding> {
    let swaps = swap::wanted(pod, unended, memory, around);
    let answer = around.headroom.answer(pod, swaps);
    (swaps > 0 && answer != Headroom::Free).then(|| finding("restarts of the Job", answer.to_string(), RESTARTS))
}

fn answer(rung: Rung, step: &Step) -> String {
    match step {
        Step::Here(Decision { action: Some(action), .. }) => describe(action),
        Step::Here(decision) => format!("waits: {}", decision.reason),
        Step::Next { reports, .. } if reports.is_empty() => format!("{rung:?} is not open for this pod"),
        Step::Next { reports, .. } => notes(reports),
    }
}

fn notes_or_reason(decision: &Decision) -> String {
    if decision.reports.is_empty() { decision.reason.to_string() } else { notes(&decision.reports) }
}

fn notes(reports: &[Report]) -> String {
    reports.iter().map(|report| format!("{}: {}", report.reason, report.note)).collect::<Vec<_>>().join("; ")
}

/// An action in words.
#[must_use]
pub fn describe(action: &Action) -> String {
    match action {
        Action::Swap(swaps) => {
            let swaps: Vec<_> = swaps.iter().map(|swap| format!("{} (image {} -> {})", swap.container, swap.from, swap.to)).collect();
            format!("swaps {}", swaps.join(", "))
        }
        Action::Finish(finish) => format!("writes phase {}", finish.phase.as_str()),
        Action::Recreate(containers) => format!("asks OpenKruise's daemon to end {}", containers.join(", ")),
    }
}
