//! Ending sidecars: when, which ones, with which image, and what to report.
//!
//! The conditions are OpenKruise's (`isInterestingPod`), with these differences: phase `Pending`
//! does not exclude a pod whose main containers are done (a sidecar in ImagePullBackOff keeps it
//! Pending, and the swap releases it: `docs/measured.md`, row 25); a missing status of a sidecar is
//! tolerated; a pod whose containers are all sidecars is refused, not ended.

mod crashes;
pub mod ending;
pub mod explain;
pub mod memory;
pub mod methods;
pub mod openkruise;
pub(crate) mod turn;

use std::fmt::Write as _;
use std::time::Duration;

use self::ending::{KILLED, describe_code, describe_end, is_killed, lateness, own_end};
use self::memory::image_troubles::ImageTroubles;
use self::memory::{Memory, SwapRecord};
use self::methods::{AllowedMethods, Step, finish, recreate, swap};
use self::openkruise::OpenKruise;
use self::turn::{Turn, allow_finish, turns};
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::Ledger;
use crate::cluster::node_class::{NodeClass, OVERRIDE};
use crate::cluster::node_verdicts::UnderNever;
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::Footprint;
use crate::objects::pod::roles::{self, Mains, Unended, unended};
use crate::objects::pod::{
    Container, Phase, Pod, RestartPolicy, RuleMethod, SidecarRule, Terminated,
};
use crate::objects::values::env::{
    ACS_IS_SIDECAR, ACS_SIDECAR, ECI_CONTAINER_TYPE, ECI_SIDECAR, IGNORE_EXIT_CODE, MarkProblem,
    WHEN_JOB_EXIT, WITH_IMAGE,
};
use crate::report::decision::{Action, Decision, Method, Report, listed, one_per_reason};
use crate::report::reason::Reason;

/// Decides what to do about a pod. `memory` must have observed this state of the pod
/// ([`Memory::observe`]). Total: every pod, however strange, gets a decision.
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
                ..mains_not_done(case).unwrap_or_else(|| sidecars(case))
            }
        });
    let mut decision = when_free(decision, memory, around);
    // Each report is made once per pod and reason.
    decision
        .reports
        .retain(|report| !memory.said.contains(&report.reason));
    decision
}

/// Returns the decision for a pod that is not selected: nothing is written or reported. Its reason
/// also shows whether anybody could end the pod; if not, it need not be kept.
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

pub(crate) fn out_of_scope(case: Case<'_>) -> Option<Decision> {
    let pod = case.pod;
    if pod.restart_policy == RestartPolicy::Always {
        return Some(Decision::quiet(Reason::RestartPolicyAlways));
    }
    if pod.deleting {
        return Some(Decision::quiet(Reason::PodDeleting));
    }
    if pod.phase.is_terminal() {
        return Some(finished(case));
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
    if all.is_empty() && roles::returning(pod).next().is_none() {
        return Decision::quiet(Reason::SidecarsEnded);
    }
    if let Some(until) = crashes::starts_until(case, &all) {
        return Decision::later(Reason::SidecarsEnded, until);
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
    if let Some(decision) = at_once(case) {
        return decision;
    }
    if all.is_empty() {
        return crashes::not_started(case);
    }
    let mut last = Decision::quiet(Reason::SidecarsEnded);
    for turn in turns(case) {
        match climb_turn(case, &turn) {
            Step::Here(decision) => {
                return Decision {
                    again: decision.again.into_iter().chain(turn.waits).min(),
                    ..decision
                };
            }
            Step::Next { reports, again } => {
                if let Some(decision) = overtaken(case, &turn, &all, &reports) {
                    return decision;
                }
                last = nothing_led_on(case, &turn, reports, again);
                if turn.waits.is_some() {
                    break;
                }
            }
        }
    }
    last
}

/// Decides where no sidecar is to be started once more: the phase ends them all. `None` if that is
/// not so, or the phase may not be written.
pub(crate) fn at_once(case: Case<'_>) -> Option<Decision> {
    let decision = finish::at_once(case)?;
    Some(after(vec![no_more_starts(case)?], decision))
}

/// Returns why no container of the pod is to be started once more.
pub(crate) fn no_more_starts(case: Case<'_>) -> Option<Report> {
    swap::fails_again(case).or_else(|| crashes::again(case))
}

/// Decides where a sidecar of a step can be ended by the phase alone, which ends those of later steps
/// too: then they end together, and none before it. `None` if that is not so, or the phase may not be
/// written; then the next step goes on.
fn overtaken(
    case: Case<'_>,
    turn: &Turn<'_>,
    all: &[Unended<'_>],
    why: &[Report],
) -> Option<Decision> {
    let (memory, around) = (case.memory, case.around);
    let runs_on = |(_, sidecar): &Unended<'_>| {
        !turn::is_finished(sidecar, around) && memory.swap_of(&sidecar.name).is_none()
    };
    let is_held = turn.unended.iter().any(runs_on);
    if turn.is_last || turn.waits.is_some() || !is_held || !finish::may_end(case) {
        return None;
    }
    let due = all
        .iter()
        .filter_map(|(_, sidecar)| turn::due(case, sidecar));
    if let Some(until) = due.max().filter(|at| *at > around.now) {
        return Some(Decision::later(Reason::SidecarDelayed, until));
    }
    match finish::step(case, all) {
        Step::Here(decision) => Some(after(why.to_vec(), decision)),
        Step::Next { .. } => None,
    }
}

/// Returns the decision of the first method that can act in a step, or the reports of all methods.
fn climb_turn(case: Case<'_>, turn: &Turn<'_>) -> Step {
    let Turn {
        unended, methods, ..
    } = turn;
    let mut refused = Vec::new();
    let mut earliest: Option<Moment> = None;
    if unended.is_empty() {
        return Step::next(refused, earliest);
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
    Step::next(refused, earliest)
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
    Report::new(Reason::NoRung, note)
}

// The inputs of a decision about a pod besides the pod and its memory.

/// The state of the installation, the node and the time.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The exit images of the installation.
    pub exit_images: &'a ExitImages,
    /// The methods that the administrator allows.
    pub allowed: &'a AllowedMethods,
    /// The restarts that count against the limits of Jobs; it must have observed this state of the
    /// pod ([`Ledger::observe`]).
    pub headroom: &'a Ledger,
    /// Exit images that cannot be pulled, or that a namespace may not use.
    pub image_troubles: &'a ImageTroubles,
    /// The class of the pod's node.
    pub node: NodeClass,
    /// Other facts about the node.
    pub facts: NodeFacts,
    /// The state of OpenKruise, where it is there.
    pub openkruise: OpenKruise<'a>,
    /// The time until which nothing is ended, because the pod was read before the policies were
    /// known that may apply to its sidecars.
    pub policies_unseen_until: Option<Moment>,
    /// The time of the decision.
    pub now: Moment,
    /// The wall-clock time of that start, by the clock of the API server; `None` if unknown.
    pub started_at: Option<jiff::Timestamp>,
}

/// A pod, its memory and its circumstances.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub pod: &'a Pod,
    pub memory: &'a Memory,
    pub around: &'a Circumstances<'a>,
}

impl Circumstances<'_> {
    /// Returns true if a kubelet runs the pods of the node, or may: finishing a pod needs more care
    /// then, which does no harm elsewhere.
    pub(crate) const fn may_be_kubelet(&self) -> bool {
        self.node.is_kubelet() || self.facts.may_be_kubelet
    }

    /// Returns true if pods like this one may be swapped on their node.
    pub(crate) fn may_swap(&self, pod: &Pod) -> bool {
        self.allowed
            .methods(self.node, &pod.restart_policy, self.bears_swap(pod))
            .contains(&Method::Swap)
    }

    /// Returns true if this pod may be swapped although it is under `Never`, or may be the one that
    /// proves it. A pod whose main container has failed loses no work by another failure, but its
    /// end proves nothing either.
    pub(crate) fn bears_swap(&self, pod: &Pod) -> bool {
        match self.facts.under_never {
            UnderNever::No => false,
            UnderNever::Try => self.headroom.bears_failure(pod) && roles::mains_succeeded(pod),
            UnderNever::Yes => true,
        }
    }
}

/// Facts about a pod's node besides its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The time until which the class is unknown, because the watch has not shown the node yet.
    pub unseen_until: Option<Moment>,
    /// The time until which the swap of another pod probes this node, and this pod waits for it: one
    /// pod at a time, so that at most one is harmed. For pods of other namespaces no pod waits long.
    pub probed_until: Option<Moment>,
    /// Whether a pod under `Never` may be swapped there, if the node replaces containers.
    pub under_never: UnderNever,
    /// The time at which the class changes by itself, because what was proved on the node expires.
    pub class_until: Option<Moment>,
    /// True if a kubelet may run the pods of the node although its class says otherwise, by what
    /// was proved there or because that cannot be checked.
    pub may_be_kubelet: bool,
    /// True if the node has the label `type=virtual-kubelet`, the only sign by which OpenKruise
    /// knows virtual nodes.
    pub labelled_virtual: bool,
}

// Why a pod has failed whose main containers have succeeded, where that is not by what was written
// to it.

/// The reasons of pods that their deadline, their node, the scheduler, the garbage collector or an
/// eviction has ended, whatever was written to them (Kubernetes: `status.reason` by the kubelet, and
/// the reasons of the condition `DisruptionTarget`).
const ENDED_BY_OTHERS: [&str; 14] = [
    "DeadlineExceeded",
    "DeletionByPodGC",
    "DeletionByTaintManager",
    "Evicted",
    "EvictionByEvictionAPI",
    "NodeAffinity",
    "NodeLost",
    "NodeShutdown",
    "Preempting",
    "PreemptionByScheduler",
    "Shutdown",
    "Terminated",
    "TerminationByKubelet",
    "UnexpectedAdmissionError",
];

const A_SECOND: Duration = Duration::from_secs(1);

/// Returns true if somebody else has ended the pod, by what it says itself.
pub(crate) fn is_ended_by_others(pod: &Pod) -> bool {
    ENDED_BY_OTHERS.contains(&&*pod.reason)
}

/// Returns true if the pod has failed although its main containers have succeeded.
fn has_lost_work(pod: &Pod) -> bool {
    pod.phase == Phase::Failed && roles::mains_succeeded(pod)
}

/// Describes who has failed a pod whose main containers have succeeded, with the fix; `None` if that
/// may be what was written.
fn failed_by_others(case: Case<'_>) -> Option<String> {
    ended_by_others(case.pod).or_else(|| failed_by_itself(case))
}

/// Describes that somebody else has ended the pod, if the pod says so.
fn ended_by_others(pod: &Pod) -> Option<String> {
    let fix = if &*pod.reason == "DeadlineExceeded" {
        "; raise spec.activeDeadlineSeconds if it needs longer"
    } else {
        ""
    };
    is_ended_by_others(pod).then(|| {
        format!(
            "the pod is Failed by {}, although every main container exited with 0{fix}",
            pod.reason
        )
    })
}

/// Describes the containers that failed by themselves, so that the pod is Failed whatever became of
/// the others.
fn failed_by_itself(case: Case<'_>) -> Option<String> {
    let pod = case.pod;
    let mains_ended = roles::mains_ended_at(pod);
    let others = pod.containers.iter();
    let failed: Vec<_> = others
        .filter_map(|other| Some((other, own_failure(case, other)?)))
        .collect();
    let (first, _) = failed.first()?;
    let words = failed.iter().map(|(other, end)| {
        let code = describe_code(end);
        let before = end.finished_at.zip(mains_ended).map(|(end, mains)| {
            let seconds = end.duration_since(mains).as_secs();
            let side = if seconds < 0 { "before" } else { "after" };
            format!(", {} s {side} the main containers", seconds.abs())
        });
        format!(
            "{} ended by itself ({code}{})",
            other.name,
            before.unwrap_or_default()
        )
    });
    let name = &first.name;
    let is_left = first
        .rule
        .as_ref()
        .is_some_and(|rule| rule.method == RuleMethod::Leave);
    let fix = if is_left {
        String::new()
    } else if first.mark.ignores_exit_code() {
        let allow = allow_finish(case, "");
        format!("{IGNORE_EXIT_CODE} in {name} needs the phase to be written{allow}, ")
    } else if first.mark.when_job_exit {
        format!("set {IGNORE_EXIT_CODE} to \"true\" in {name}, ")
    } else {
        format!("set {WHEN_JOB_EXIT} and {IGNORE_EXIT_CODE} to \"true\" in {name}, ")
    };
    Some(format!(
        "the pod is Failed although every main container exited with 0, because {}: {fix}let it exit with 0, or use restartPolicy OnFailure",
        listed(words)
    ))
}

/// Returns true if the sidecar itself, not its exit image, has ended, and certainly not by its swap.
fn ended_by_itself(pod: &Pod, sidecar: &Container, record: &SwapRecord, memory: &Memory) -> bool {
    let is_own = |before: &Footprint| !before.shows_new_container(&Footprint::of(sidecar));
    record.before.as_ref().is_some_and(is_own)
        && (ended_before(pod, sidecar, record, memory) || others_started(pod, record, memory))
}

/// Returns true if it has ended before the swap was written. The times of the node are compared with
/// each other alone, for its clock may be wrong: the main containers ended before that was observed.
fn ended_before(pod: &Pod, sidecar: &Container, record: &SwapRecord, memory: &Memory) -> bool {
    let is_before = || {
        let finished = sidecar.end()?.finished_at?;
        let earlier = roles::mains_ended_at(pod)?.duration_since(finished);
        // Times are whole seconds.
        let earlier = Duration::try_from(earlier).ok()?.checked_sub(A_SECOND)?;
        Some(memory.mains_done_at? <= record.at + earlier)
    };
    is_before().unwrap_or(false)
}

/// Returns true if another container has started the same exit image, by the same write, and it has
/// ended with 0: a kubelet that had stopped this one for it would have started it here as well.
fn others_started(pod: &Pod, record: &SwapRecord, memory: &Memory) -> bool {
    let mut others = memory.swaps.iter().filter(|other| {
        other.container != record.container && other.to == record.to && other.at == record.at
    });
    others.any(|other| {
        let mut containers = pod.containers.iter();
        containers.any(|container| container.name == other.container && other.has_worked(container))
    })
}

/// Returns how a container failed that nothing was written for and that is not started again. On
/// other nodes than kubelets only before the main containers ended: a provider may stop all
/// containers of a pod for the swap of one.
fn own_failure<'a>(case: Case<'_>, other: &'a Container) -> Option<&'a Terminated> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let is_swapped = memory
        .swap_of(&other.name)
        .is_some_and(|record| !ended_by_itself(pod, other, record, memory));
    let is_touched = is_swapped || memory.method_of(&other.name) == Some(Method::Recreate);
    if is_touched || roles::is_left_to_platform(pod, other) || !other.may_be_under_never(pod) {
        return None;
    }
    let is_early = |end: &Terminated| {
        end.finished_at.is_some() && end.finished_at < roles::mains_ended_at(pod)
    };
    let failed = other.end().filter(|end| end.has_failed());
    failed.filter(|end| around.node.is_kubelet() || is_early(end))
}

// The pods that are left alone, or not ended yet, and why.

/// Refuses a pod that cannot be ended: one Warning names the field and the fix.
pub(crate) fn refused(pod: &Pod) -> Option<Decision> {
    let marked = roles::sidecars(pod).next().is_some();
    // One that is not marked is left alone in silence, unless the field may hide that it is.
    let hides_roles = |field: &str| field == "spec" || field.starts_with("spec.containers");
    if let Some(field) = pod.malformed.filter(|field| marked || hides_roles(field)) {
        let note = format!(
            "{field} is too long, or a part of it is missing or too long; this pod is left alone"
        );
        return Some(Decision::reporting(Reason::PodMalformed, note));
    }
    if let Some(left) = left_to_platform(pod).filter(|_| !marked) {
        return Some(Decision::reporting(left.reason, left.note));
    }
    if !marked {
        return Some(no_sidecar(pod));
    }
    if let Some(note) = unknown_policy(pod) {
        return Some(Decision::reporting(Reason::RestartPolicyUnknown, note));
    }
    if roles::mains(pod).next().is_none() {
        // A container that is neither stays beside the others: nobody waits for it.
        let note = format!(
            "every container is marked as a sidecar, so none shows when the work is done: remove {WHEN_JOB_EXIT} and {WITH_IMAGE} from the main container"
        );
        return Some(Decision::reporting(Reason::OnlySidecars, note));
    }
    None
}

/// Keeps a pod that a refused policy names in the index, so that the policy's status can report it.
fn no_sidecar(pod: &Pod) -> Decision {
    let quiet = if pod.refused_policy.is_some() {
        Decision::quiet(Reason::PolicyRefused)
    } else {
        Decision::quiet(Reason::NoSidecar)
    };
    mark_problem(pod)
        .or_else(|| {
            let report = annotation_problem(pod)?;
            Some(Decision::reporting(report.reason, report.note))
        })
        .unwrap_or(quiet)
}

/// Reports an annotation that cannot be used as it is written.
fn annotation_problem(pod: &Pod) -> Option<Report> {
    pod.annotation_problem
        .as_ref()
        .map(|note| Report::new(Reason::AnnotationInvalid, note.to_string()))
}

/// Refuses a pod whose main container failed: a rule with `mainMustSucceed` then ends no sidecar,
/// also if the container's own environment marks it.
fn main_failed(pod: &Pod) -> Option<Decision> {
    if roles::mains_succeeded(pod) {
        return None;
    }
    let kept = pod.containers.iter().find(|container| {
        let asks = |rule: &SidecarRule| rule.main_must_succeed;
        roles::is_sidecar(pod, container)
            && container.end().is_none()
            && container.rule.as_deref().is_some_and(asks)
    })?;
    let source = kept.rule.as_ref().map(|rule| rule.source.to_string());
    let note = format!(
        "a main container has failed, and {} ends {} only where all have succeeded (mainMustSucceed): delete the pod when you have examined it, or set spec.activeDeadlineSeconds of its Job",
        source.unwrap_or_default(),
        kept.name
    );
    Some(Decision::reporting(Reason::MainFailed, note))
}

/// Reports a restart policy, of the pod or a container, that is unknown: its meaning is not
/// guessed.
fn unknown_policy(pod: &Pod) -> Option<String> {
    if let RestartPolicy::Unknown(policy) = &pod.restart_policy {
        return Some(format!(
            "spec.restartPolicy is {policy:?}; sidecars are ended under Never and OnFailure only"
        ));
    }
    pod.containers.iter().find_map(|container| match &container.restart_policy {
        Some(RestartPolicy::Unknown(policy)) => Some(format!(
            "container {}: its own restartPolicy is {policy:?}, which this version does not know; this pod is left alone",
            container.name
        )),
        _ => None,
    })
}

/// Reports sidecars that the platform ends by itself: swaplet would stop them a second time.
fn left_to_platform(pod: &Pod) -> Option<Report> {
    let left = pod.containers.iter().filter(|container| {
        container.mark.is_sidecar() && roles::is_left_to_platform(pod, container)
    });
    let names = listed(left.map(|container| &container.name));
    let (variable, value) = if pod.on_acs {
        (ACS_IS_SIDECAR, ACS_SIDECAR)
    } else {
        (ECI_CONTAINER_TYPE, ECI_SIDECAR)
    };
    let note = format!(
        "{names}: left to the platform under node {}, which ends containers with {variable}={value} by itself when the others are done; \
         remove that variable where swaplet is to do it",
        pod.node
    );
    (!names.is_empty()).then_some(Report::new(Reason::LeftToPlatform, note))
}

fn mark_problem(pod: &Pod) -> Option<Decision> {
    let (container, problem) = pod
        .containers
        .iter()
        .find_map(|c| Some((&c.name, c.mark.problem.as_ref()?)))?;
    let note = match problem {
        MarkProblem::FromReference { variable } => {
            format!(
                "container {container}: {variable} is set by valueFrom, which is not read: give it a literal value"
            )
        }
        MarkProblem::NotAFlag { variable } => {
            format!(
                "container {container}: {variable} is neither \"true\" nor \"false\", so the container is not marked as a sidecar"
            )
        }
        MarkProblem::EmptyImage => format!(
            "container {container}: {WITH_IMAGE} is empty, so the container is not marked as a sidecar: name an image, or set {WHEN_JOB_EXIT} to \"true\""
        ),
    };
    Some(Decision::reporting(Reason::MarkInvalid, note))
}

fn mains_not_done(case: Case<'_>) -> Option<Decision> {
    let pod = case.pod;
    let mains = roles::mains_state(pod);
    if mains == Mains::Done {
        return None;
    }
    let awaited = roles::awaited(pod, mains).and_then(|ended| not_started_again(case, ended));
    let mut decision = awaited.unwrap_or_else(|| Decision::quiet(Reason::MainsRunning));
    // A bad mark beside a good one is reported while the main containers run, so that it can be
    // fixed before the next run.
    let problem = mark_problem(pod).map(|problem| problem.reports);
    decision.reports.extend(problem.unwrap_or_default());
    decision.reports.extend(annotation_problem(pod));
    Some(decision)
}

/// How long a node may show a container as ended that it is to start again: between two starts it
/// shows it as waiting, and all that comes first takes seconds.
const STARTS_AGAIN: Duration = Duration::from_mins(10);

/// Reports a container that its node is to start again, by what the pod says, and has not for long;
/// until then, when that will be.
fn not_started_again(case: Case<'_>, ended: &Container) -> Option<Decision> {
    let pod = case.pod;
    let due = case.memory.mains_ran_at? + STARTS_AGAIN;
    if due > case.around.now {
        return Some(Decision::later(Reason::MainsRunning, due));
    }
    let rule = if ended.has_restart_rules() {
        "restartPolicyRules".to_owned()
    } else {
        format!("restartPolicy {}", ended.effective_policy(pod).as_str())
    };
    let note = format!(
        "{} has ended ({}) and is to be started again by {rule}, so the main containers are not done, but its node has not done that for {} min: run the pod on one that does (a kubelet goes by restartPolicy and restartPolicyRules of a container with the feature gate ContainerRestartRules, on from 1.35, and restarts all containers with RestartAllContainersOnContainerExits, on from 1.36), or delete it",
        ended.name,
        describe_code(ended.end()?),
        STARTS_AGAIN.as_secs() / 60
    );
    Some(Decision::reporting(Reason::MainNotRestarted, note))
}

// Reports about a pod that is finished.

/// Reports what became of the writes to a finished pod, from what its status shows.
pub(crate) fn finished(case: Case<'_>) -> Decision {
    let (pod, memory) = (case.pod, case.memory);
    if let Some(watched) = finish::watch(case) {
        return watched;
    }
    let mut decision = finish::finished(case).unwrap_or_else(|| swapped(case));
    // Whoever ends a pod otherwise need not wait for a grace period.
    let is_ours = !is_ended_by_others(pod) || &*pod.reason == "DeadlineExceeded";
    if is_ours && !decision.reports.is_empty() {
        decision.reports.extend(killed(pod, memory));
    }
    decision
}

/// Reports the sidecars that did not stop in their grace period; not those killed for their memory.
fn killed(pod: &Pod, memory: &Memory) -> Option<Report> {
    let is_late = |end: &Terminated| is_killed(end) && &*end.reason != "OOMKilled";
    let killed = roles::sidecars(pod)
        .filter(|sidecar| memory.method_of(&sidecar.name).is_some())
        .filter(|sidecar| own_end(sidecar, memory).is_some_and(is_late));
    let names = listed(killed.map(|sidecar| &sidecar.name));
    (!names.is_empty()).then(|| Report {
        reason: Reason::SidecarKilled,
        note: format!(
            "{names} ended by SIGKILL (exit code {KILLED}): it had not stopped in its grace period, so what it had not written is lost; let it end on SIGTERM (in a shell: trap 'exit 0' TERM), or raise spec.terminationGracePeriodSeconds"
        ),
    })
}

fn swapped(case: Case<'_>) -> Decision {
    let (pod, memory) = (case.pod, case.memory);
    if memory.swaps.is_empty() {
        return recreate::finished(case).unwrap_or(Decision::quiet(Reason::PodFinished));
    }
    let ends = listed(roles::sidecars(pod).filter_map(|sidecar| {
        let swapped = memory.swap_of(&sidecar.name)?;
        Some(describe_end(sidecar, swapped, memory))
    }));
    let reported = format!("{ends}{}{}", lateness(pod, memory), swap::changes(case));
    if has_lost_work(pod) {
        if let Some(words) = failed_by_others(case) {
            return Decision::reporting(Reason::SidecarEnded, format!("{words}; {reported}"));
        }
        let note =
            format!("the pod is Failed although every main container exited with 0: {reported}");
        return Decision::reporting(Reason::PodFailedAfterSwap, note);
    }
    let note = format!("the pod is {}: {reported}", pod.phase.as_str());
    Decision::reporting(Reason::SidecarEnded, note)
}
