//! An explanation of the decision about a pod: each step with what was checked, what was observed,
//! and where the rule comes from.
//!
//! The steps are those of [`decide`] and use the same functions, so an explanation cannot differ
//! from what the controller does.

use std::collections::BTreeMap;

use super::memory::Memory;
use super::methods::preflight::{Preflight, preflight, uncertain};
use super::methods::{Step, finish, swap};
use super::turn::{self, Turn, turns};
use super::{
    Case, Circumstances, ask, at_once, decide, main_failed, no_more_starts, openkruise,
    out_of_scope, refused,
};
use crate::cluster::headroom::Headroom;
use crate::cluster::node_class::NodeClass;
use crate::objects::pod::annotations::SIDECARS;
use crate::objects::pod::roles::{self, Mains, Unended, unended};
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy};
use crate::objects::values::env::WHEN_JOB_EXIT;
use crate::report::decision::{Action, Decision, Method, Report, Swap, listed};
use crate::report::reason::Reason;

const SCOPE: &str = "OpenKruise: isInterestingPod, without its exclusion of phase Pending";
const ROLES: &str =
    "OpenKruise: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT[_WITH_IMAGE] in the container's env";
const RULES: &str = "SidecarPolicy, NamespacedSidecarPolicy and the annotations swaplet.io/sidecars, delay, order and wait-for-exit of the pod";
const MAINS: &str = "OpenKruise: under Never any exit code, under OnFailure exit code 0";
const NODE: &str =
    "labels, annotations and taints of the node, and what was proved there (swaplet nodes)";
const OPENKRUISE: &str = "OpenKruise: getSidecarContainerNames; one actor per pod";
const FIT: &str =
    "command, PATH and mounts of the container beside the paths of the exit image (swaplet check)";
const RESTARTS: &str = "Kubernetes: pastBackoffLimitOnFailure";
const METHODS: &str = "the methods of the node's class (swaplet nodes --help)";

/// What a finding about a method begins with that decides, before its action.
pub const APPLIES: &str = "applies: ";

/// One step of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The object or rule that was checked.
    pub subject: String,
    /// The state that was observed.
    pub seen: String,
    /// The source of the rule.
    pub rule: &'static str,
}

/// A decision with the findings that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The findings in the order of the checks; what comes after the one that decided was not
    /// checked.
    pub findings: Vec<Finding>,
    /// The decision itself, as [`decide`] returns it.
    pub decision: Decision,
    /// The decision in one sentence.
    pub sentence: String,
    /// What happens next, and what the user can do, a sentence or two each; empty if nothing
    /// happens and nothing needs to be done.
    pub next: Vec<String>,
}

/// Decides about a pod like [`decide`], and explains how. `node_why` is how the class of its node
/// was determined.
pub fn explain(
    pod: &Pod,
    memory: &Memory,
    around: &Circumstances<'_>,
    node_why: &str,
) -> Explanation {
    let decision = decide(pod, memory, around);
    let case = Case {
        pod,
        memory,
        around,
    };
    let mut findings = vec![scope(pod)];
    findings.extend(pod.containers.iter().map(|each| container(pod, each)));
    findings.extend(refused_policy(pod));
    findings.extend(steps(pod));
    if out_of_scope(case).is_none() && refused(pod).is_none() {
        findings.push(mains(pod));
        findings.extend(if roles::mains_state(pod) == Mains::Done {
            methods(case, node_why, &decision)
        } else {
            outlook(case, node_why)
        });
    }
    let (sentence, next) = (sentence(pod, &decision), what_next(pod, &decision, around));
    Explanation {
        findings,
        decision,
        sentence,
        next,
    }
}

fn finding(subject: impl Into<String>, seen: String, rule: &'static str) -> Finding {
    Finding {
        subject: subject.into(),
        seen,
        rule,
    }
}

fn scope(pod: &Pod) -> Finding {
    let deleting = if pod.deleting { ", being deleted" } else { "" };
    finding(
        "pod",
        format!(
            "restartPolicy {}, phase {}{deleting}",
            policy(&pod.restart_policy),
            pod.phase.as_str()
        ),
        SCOPE,
    )
}

fn policy(policy: &RestartPolicy) -> String {
    match policy {
        RestartPolicy::Unknown(text) => format!("{text:?}"),
        known => known.as_str().to_owned(),
    }
}

fn container(pod: &Pod, container: &Container) -> Finding {
    let mut seen = role(pod, container).to_owned();
    if let Some(own) = &container.restart_policy {
        seen.push_str(&format!(", its own restartPolicy {}", policy(own)));
    }
    if let Some(rule) = &container.rule {
        seen.push_str(&format!(", by {rule}"));
    }
    if let Some(image) = container.exit_image_asked() {
        seen.push_str(&format!(", requests exit image {image}"));
    }
    if container.mark.ignores_exit_code() {
        seen.push_str(", its exit code does not count");
    }
    finding(
        format!("container {}", container.name),
        format!("{seen}; image {}; {}", container.image, state(container)),
        if container.rule.is_some() {
            RULES
        } else {
            ROLES
        },
    )
}

fn role(pod: &Pod, container: &Container) -> &'static str {
    if roles::is_left_to_platform(pod, container) {
        "left to the platform under the node"
    } else if roles::is_sidecar(pod, container) {
        "sidecar"
    } else if roles::is_called_sidecar(container) {
        "left alone, and not waited for"
    } else if container.mark.problem.is_some() {
        "main, because its mark is not valid"
    } else {
        "main"
    }
}

fn state(container: &Container) -> String {
    let Some(status) = &container.status else {
        return "not reported by the node".to_owned();
    };
    let mut state = match &status.state {
        ContainerState::Waiting { reason, message } if message.is_empty() => {
            format!("waiting ({reason})")
        }
        ContainerState::Waiting { reason, message } => format!("waiting ({reason}: {message})"),
        ContainerState::Running { .. } => "running".to_owned(),
        ContainerState::Terminated(end) => format!("ended ({})", super::ending::describe_code(end)),
        ContainerState::Unreported => "reported without a state".to_owned(),
    };
    if status.restart_count > 0 {
        state.push_str(&format!("; restarts: {}", status.restart_count));
    }
    if let Some(end) = &status.last_end {
        state.push_str(&format!(
            "; the container before it ended ({})",
            super::ending::describe_code(end)
        ));
    }
    state
}

fn mains(pod: &Pod) -> Finding {
    let seen = match roles::mains_state(pod) {
        Mains::Done => "done".to_owned(),
        Mains::Running(main) => format!("{} is not done", main.name),
        Mains::NotReported(main) => format!("{} is not reported by the node", main.name),
        Mains::Restarting(Some(by)) => {
            format!("{} has ended, and restarts all containers", by.name)
        }
        Mains::Restarting(None) => "the node restarts all containers".to_owned(),
    };
    finding("main containers", seen, MAINS)
}

fn node(pod: &Pod, around: &Circumstances<'_>, why: &str) -> Finding {
    if around.facts.unseen_until.is_some() {
        return finding("node", format!("{} is not observed yet", pod.node), NODE);
    }
    let beside = if around.node == NodeClass::Daemon {
        "; OpenKruise's daemon is Ready beside its kubelet"
    } else {
        ""
    };
    finding(
        "node",
        format!("{} counts as {} ({why}{beside})", pod.node, around.node),
        NODE,
    )
}

/// Returns the findings about the node and the sidecars while a main container is not done.
fn outlook(case: Case<'_>, node_why: &str) -> Vec<Finding> {
    let (pod, around) = (case.pod, case.around);
    let mut findings = vec![node(pod, around, node_why)];
    let turns = turns(case);
    if turns
        .iter()
        .any(|turn| turn.methods.contains(&Method::Swap))
    {
        let unended = unended(pod);
        findings.extend(unended.iter().map(|(_, sidecar)| fit(case, sidecar)));
    }
    findings
}

fn methods(case: Case<'_>, node_why: &str, decision: &Decision) -> Vec<Finding> {
    let (pod, around) = (case.pod, case.around);
    if around.policies_unseen_until.is_some() || main_failed(pod).is_some() {
        return Vec::new();
    }
    let mut findings = vec![node(pod, around, node_why)];
    if around.facts.unseen_until.is_some() {
        return findings;
    }
    if let Some(left) = openkruise::left::left(case, &unended(pod)) {
        findings.push(finding("OpenKruise", sentence(pod, &left), OPENKRUISE));
        return findings;
    }
    if let Some(by_phase) = finish::advance(case, &unended(pod)).or_else(|| at_once(case)) {
        let why = no_more_starts(case).map(|why| finding("restarts", why.note, RESTARTS));
        findings.extend(why);
        let seen = answer(pod, &Step::Here(by_phase), decision);
        findings.push(finding("way finish", seen, METHODS));
        return findings;
    }
    for turn in turns(case) {
        findings.extend(waiting(case, &turn));
        if tried(case, &turn, decision, &mut findings) || turn.waits.is_some() {
            break;
        }
    }
    findings
}

/// Adds the answers of the methods of a step to `findings`, up to the first that can act. Returns
/// true if one can.
fn tried(
    case: Case<'_>,
    turn: &Turn<'_>,
    decision: &Decision,
    findings: &mut Vec<Finding>,
) -> bool {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let Turn {
        unended, methods, ..
    } = turn;
    if methods.contains(&Method::Swap) {
        let unswapped = unended
            .iter()
            .filter(|(_, sidecar)| !memory.shows_exit_image(sidecar, around.exit_images));
        findings.extend(unswapped.map(|(_, sidecar)| fit(case, sidecar)));
        findings.extend(restarts(case, unended));
    }
    for (nth, method) in methods
        .iter()
        .enumerate()
        .take_while(|_| !unended.is_empty())
    {
        let step = ask(*method, case, unended, turn.after(nth));
        let way = format!("way {}", method.as_str());
        findings.push(finding(way, answer(pod, &step, decision), METHODS));
        if matches!(step, Step::Here(_)) {
            return true;
        }
    }
    false
}

/// Returns a finding with the time until the next sidecar of a step is due, or until a step no
/// longer waits for an earlier sidecar that is started again; `None` if all are due.
fn waiting(case: Case<'_>, turn: &Turn<'_>) -> Option<Finding> {
    let (pod, around) = (case.pod, case.around);
    let until = turn.waits?;
    let all = unended(pod).into_iter().map(|(_, sidecar)| sidecar);
    let due = all.filter(|sidecar| turn::due(case, sidecar) == Some(until));
    let due = listed(due.map(|sidecar| &sidecar.name));
    let left = until.since(around.now).as_secs();
    let seen = if due.is_empty() {
        let names = listed(roles::returning(pod).map(|sidecar| &sidecar.name));
        format!("{names} is started again by the node; the next wait for that for {left} s at most")
    } else {
        format!("{due}: {left} s")
    };
    Some(finding("time that is left", seen, RULES))
}

fn fit(case: Case<'_>, sidecar: &Container) -> Finding {
    let (pod, around) = (case.pod, case.around);
    let seen = match preflight(pod, sidecar, around.exit_images) {
        Preflight::Image { image, doubt, .. } => {
            let doubt = doubt.filter(|_| around.may_be_kubelet());
            let doubt = doubt.map(|_| Reason::ExitImageDoubtful);
            match doubt.or_else(|| Some(uncertain(case, sidecar, image)?.reason)) {
                Some(why) => format!("{image}, and it is not certain that it ends it ({why})"),
                None => format!("{image} would end it"),
            }
        }
        Preflight::Awaited(paths) => format!(
            "an exit image with {} is to be pushed first",
            paths.join(", ")
        ),
        Preflight::Blocked { report, .. } => format!("none ({})", report.reason),
    };
    finding(format!("exit image for {}", sidecar.name), seen, FIT)
}

/// Returns `None` if no swap would be made, or if nobody counts the restarts of the pod.
fn restarts(case: Case<'_>, unended: &[Unended<'_>]) -> Option<Finding> {
    let restarts = swap::wanted(case, unended);
    // Those of later steps have to fit as well.
    let all = restarts.saturating_add(swap::wanted_later(case, unended));
    let answer = swap::headroom(case, all);
    (restarts > 0 && answer != Headroom::Free)
        .then(|| finding("restarts of the Job", answer.to_string(), RESTARTS))
}

/// Describes a method's answer; what `decision` reports in full is named by its reason only.
fn answer(pod: &Pod, step: &Step, decision: &Decision) -> String {
    let is_told = |report: &Report| {
        decision
            .reports
            .iter()
            .any(|reported| reported.reason == report.reason)
    };
    match step {
        Step::Here(Decision {
            action: Some(action),
            ..
        }) => format!("{APPLIES}{}", describe(action)),
        Step::Here(here) if here.reports.is_empty() => sentence(pod, here),
        Step::Here(here) => reasons(&here.reports),
        Step::Next { reports, .. } if reports.is_empty() => "not used for this pod".to_owned(),
        Step::Next { reports, .. } if reports.iter().all(is_told) => {
            format!("does not apply: {}", reasons(reports))
        }
        Step::Next { reports, .. } => format!("does not apply: {}", notes(reports)),
    }
}

fn reasons(reports: &[Report]) -> String {
    listed(reports.iter().map(|report| report.reason))
}

fn notes(reports: &[Report]) -> String {
    reports
        .iter()
        .map(|report| format!("{}: {}", report.reason, report.note))
        .collect::<Vec<_>>()
        .join("; ")
}

// Findings about annotations and policies that name containers of the pod.

/// Returns a finding about a policy that names containers of the pod but is not applied.
fn refused_policy(pod: &Pod) -> Option<Finding> {
    let rule = pod.refused_policy.as_ref()?;
    let seen = format!(
        "{} is not applied: with it no container would be a main container, so none would show when the work is done",
        rule.source
    );
    Some(finding("policy", seen, RULES))
}

/// Returns a finding about the steps in which unended sidecars are ended, if there are several.
fn steps(pod: &Pod) -> Option<Finding> {
    let mut steps = BTreeMap::<i32, Vec<&str>>::new();
    for (_, sidecar) in unended(pod) {
        let names = steps.entry(turn::order(sidecar)).or_default();
        names.push(&sidecar.name);
    }
    if steps.len() < 2 {
        return None;
    }
    let steps: Vec<_> = steps
        .iter()
        .map(|(order, names)| format!("{} (order {order})", names.join(", ")))
        .collect();
    let seen = format!(
        "{}; each when those before it have ended",
        steps.join(", then ")
    );
    Some(finding("turns", seen, RULES))
}

// The text of decisions, for people who want to know why.

/// Returns a phrase for an action that continues a sentence beginning with "swaplet".
pub fn describe(action: &Action) -> String {
    match action {
        Action::Swap(swaps) => format!("changes the image of {}", Swap::list(swaps)),
        Action::Finish(finish) => format!("writes the phase {}", finish.phase.as_str()),
        Action::Recreate(containers) => {
            format!("has OpenKruise's daemon end {}", containers.join(", "))
        }
    }
}

/// Returns the decision in one sentence.
pub fn sentence(pod: &Pod, decision: &Decision) -> String {
    match &decision.action {
        Some(action) => format!("swaplet {}.", describe(action)),
        None if decision.reason == Reason::MainsRunning => {
            format!("swaplet waits: {}.", unfinished_main(pod))
        }
        None => decision.reason.sentence().to_owned(),
    }
}

fn unfinished_main(pod: &Pod) -> String {
    match roles::mains_state(pod) {
        Mains::Running(main) if main.end().is_some() => {
            format!(
                "main container {} has ended, and is to be started again by its node",
                main.name
            )
        }
        Mains::Running(main) => format!("main container {} is not done", main.name),
        Mains::NotReported(main) => {
            format!("main container {} is not reported by the node", main.name)
        }
        Mains::Restarting(None) => {
            "the node starts all containers of the pod again (restartPolicyRules)".to_owned()
        }
        Mains::Restarting(Some(by)) => format!(
            "{} has ended, and by its restartPolicyRules its node is to start all containers again",
            by.name
        ),
        Mains::Done => "the pod must be reconciled again".to_owned(),
    }
}

/// Returns what happens next, and what the user can do.
pub(crate) fn what_next(pod: &Pod, decision: &Decision, around: &Circumstances<'_>) -> Vec<String> {
    let mut next: Vec<String> = decision
        .reports
        .iter()
        .map(|report| format!("{}: {}.", report.reason, report.note))
        .collect();
    next.extend(follows(pod, decision, around));
    next
}

fn follows(pod: &Pod, decision: &Decision, around: &Circumstances<'_>) -> Option<String> {
    if let Some(action) = &decision.action {
        return Some(after(pod, action, around));
    }
    let looks_again = || {
        let seconds = decision.again?.since(around.now).as_secs();
        Some(format!(
            "The pod is reconciled again when it changes, and in {seconds} s at the latest."
        ))
    };
    match decision.reason {
        Reason::MainsRunning => Some(format!("The sidecars are ended as soon as all main containers have ended{}.", done_means(pod))),
        Reason::NoSidecar => Some(format!(
            "To have a container ended when the others are done, give it the variable {WHEN_JOB_EXIT}=true, or name it in the annotation {SIDECARS} of the pod or in a SidecarPolicy. Native sidecars (init containers with restartPolicy Always) need none: \
             the kubelet ends them."
        )),
        Reason::SidecarsEnded => Some("The node writes the phase of the pod by itself.".to_owned()),
        Reason::HeadroomWait => Some("This pod's turn comes in the order in which the main containers ended; a higher spec.backoffLimit of the Job makes it shorter.".to_owned()),
        Reason::ExitImageNotPulled | Reason::ExitImageNotStarted => {
            Some("Where finish is allowed (a controller without --finish=never), the phase is written after a while.".to_owned())
        }
        _ => looks_again(),
    }
}

fn done_means(pod: &Pod) -> &'static str {
    if pod.restart_policy == RestartPolicy::Never {
        ", with any exit code"
    } else {
        " with exit code 0"
    }
}

fn after(pod: &Pod, action: &Action, around: &Circumstances<'_>) -> String {
    let phase = if roles::mains_succeeded(pod) {
        "Succeeded"
    } else {
        "Failed, as its main containers were"
    };
    match action {
        Action::Swap(swaps) => {
            let swapped: Vec<_> = swaps.iter().map(|swap| &*swap.container).collect();
            let others = names(pod, |name| !swapped.contains(&name));
            let then = match &*others {
                "" => String::new(),
                others => format!(", when {others} has ended too,"),
            };
            format!(
                "The node stops {} as always (preStop hook, SIGTERM, grace period) and runs the exit image, which exits with 0 at once; then{then} the pod is {phase}.",
                swapped.join(", ")
            )
        }
        Action::Finish(_) if around.may_be_kubelet() => {
            format!(
                "The node treats the phase as the end of the pod and stops {}, whatever the exit code.",
                names(pod, |_| true)
            )
        }
        Action::Finish(_) => format!(
            "On this virtual node {} may run, and cost, until the pod is deleted.",
            names(pod, |_| true)
        ),
        Action::Recreate(_) => {
            format!(
                "The daemon stops {} as the kubelet does, and nothing replaces it: the exit code of each counts.",
                names(pod, |_| true)
            )
        }
    }
}

/// Returns the names of the unended sidecars that `is_wanted` accepts, joined by commas.
fn names(pod: &Pod, is_wanted: impl Fn(&str) -> bool) -> String {
    let names = unended(pod).into_iter().map(|(_, sidecar)| &sidecar.name);
    listed(names.filter(|name| is_wanted(name)))
}
