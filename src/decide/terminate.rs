//! Ending sidecars: when, which, and with what image; and what to say about it.
//!
//! The conditions are OpenKruise's (`isInterestingPod`), with these differences: phase `Pending` does not exclude a pod
//! whose mains are done (a sidecar in ImagePullBackOff keeps it Pending, and the swap releases it: truth table, row 25); a
//! missing status of a sidecar is tolerated; a pod whose containers are all sidecars is refused, not ended.

use std::fmt::Write as _;
use std::time::Duration;

use super::evidence::{self, Progress};
use super::exit_images::{ExitImages, NoChoice};
use super::memory::{Memory, SwapRecord};
use super::reason::Reason;
use super::roles::{self, Mains};
use crate::objects::env::{MarkProblem, WHEN_JOB_EXIT, WITH_IMAGE};
use crate::objects::pod::{Container, Pod, RestartPolicy};

/// What a started exit image may take until it counts as running on: it exits in milliseconds, but its end becomes visible
/// with the kubelet's next relist (1 s), the poll of a virtual node (5 s), and more under load.
const EXIT_IMAGE_RUNS: Duration = Duration::from_secs(20);
/// What a node may take to react to a swap, besides the grace periods of the containers it stops one after another.
const SWAP_VISIBLE: Duration = Duration::from_secs(60);
/// The grace period where the pod gives none (the API server's default).
const DEFAULT_GRACE_SECONDS: u32 = 30;
/// How often the image of one container is swapped when something keeps changing it back.
const SWAPS_PER_CONTAINER: u32 = 3;

/// One guarded image change: the container at `index` of `spec.containers`, if it is still called `container` and still has
/// the image `from`, gets the image `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Position in `spec.containers`.
    pub index: usize,
    /// Name of the container.
    pub container: Box<str>,
    /// Its image now.
    pub from: Box<str>,
    /// The exit image.
    pub to: Box<str>,
}

/// Something to tell about a pod: one Event, one line in the log, one count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Why.
    pub reason: Reason,
    /// In words, with the fix where there is one.
    pub note: String,
}

/// What is to be done about a pod now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Why this, and nothing else.
    pub reason: Reason,
    /// The images to change, all in one patch; empty where nothing is to be written.
    pub swaps: Vec<Swap>,
    /// What to tell; with swaps, only after they were applied.
    pub report: Option<Report>,
    /// When to look again if the pod does not change, as time since the start of the process.
    pub again: Option<Duration>,
}

impl Decision {
    const fn quiet(reason: Reason) -> Self {
        Self { reason, swaps: Vec::new(), report: None, again: None }
    }

    const fn later(reason: Reason, again: Duration) -> Self {
        Self { reason, swaps: Vec::new(), report: None, again: Some(again) }
    }

    const fn tell(reason: Reason, note: String) -> Self {
        Self { reason, swaps: Vec::new(), report: Some(Report { reason, note }), again: None }
    }
}

/// Decides about a pod. `memory` must have observed this state of the pod ([`Memory::observe`]); `now` is the time since the
/// start of the process. Total: every pod, however strange, gets a decision.
#[must_use]
pub fn decide(pod: &Pod, memory: &Memory, exit_images: &ExitImages, now: Duration) -> Decision {
    let decision = out_of_scope(pod, memory)
        .or_else(|| refused(pod))
        .or_else(|| mains_not_done(pod))
        .unwrap_or_else(|| sidecars(pod, memory, exit_images, now));
    unless_said(decision, memory)
}

/// A report is made once per pod and reason; the decision stays what it is.
fn unless_said(mut decision: Decision, memory: &Memory) -> Decision {
    if decision.swaps.is_empty() {
        decision.report = decision.report.filter(|report| !memory.said.contains(&report.reason));
    }
    decision
}

fn out_of_scope(pod: &Pod, memory: &Memory) -> Option<Decision> {
    if pod.restart_policy == RestartPolicy::Always {
        return Some(Decision::quiet(Reason::RestartPolicyAlways));
    }
    if pod.deleting {
        return Some(Decision::quiet(Reason::PodDeleting));
    }
    if pod.phase.is_terminal() {
        return Some(finished(pod, memory));
    }
    None
}

/// Bad input: one Warning that names the field and the fix, and nothing is written.
fn refused(pod: &Pod) -> Option<Decision> {
    let marked = roles::sidecars(pod).next().is_some();
    if let Some(field) = pod.malformed.filter(|field| marked || hides_roles(field)) {
        let note = format!("{field} has a type that Kubernetes does not allow; this pod is left alone");
        return Some(Decision::tell(Reason::PodMalformed, note));
    }
    if !marked {
        return Some(mark_problem(pod).unwrap_or(Decision::quiet(Reason::NoSidecar)));
    }
    if let Some(note) = unknown_policy(pod) {
        return Some(Decision::tell(Reason::RestartPolicyUnknown, note));
    }
    if roles::mains(pod).next().is_none() {
        let note = format!(
            "every container is marked as a sidecar, so none says when the work is done: remove {WHEN_JOB_EXIT} and {WITH_IMAGE} from the main container"
        );
        return Some(Decision::tell(Reason::OnlySidecars, note));
    }
    None
}

/// A pod that nobody marked is left alone in silence, whatever its status looks like; but where the containers cannot be read,
/// nobody knows whether it is marked.
fn hides_roles(malformed: &str) -> bool {
    malformed == "spec" || malformed.starts_with("spec.containers")
}

/// What a policy means that this version does not know, of the pod or of one container, is not guessed.
fn unknown_policy(pod: &Pod) -> Option<String> {
    if let RestartPolicy::Unknown(policy) = &pod.restart_policy {
        return Some(format!("spec.restartPolicy is {policy:?}; sidecars are ended under Never and OnFailure only"));
    }
    pod.containers.iter().find_map(|container| match &container.restart_policy {
        Some(RestartPolicy::Unknown(policy)) => Some(format!(
            "container {}: its own restartPolicy is {policy:?}, which this version does not know; this pod is left alone",
            container.name
        )),
        _ => None,
    })
}

fn mark_problem(pod: &Pod) -> Option<Decision> {
    let (container, problem) = pod.containers.iter().find_map(|c| Some((&c.name, c.mark.problem.as_ref()?)))?;
    let note = match problem {
        MarkProblem::FromReference { variable } => {
            format!("container {container}: {variable} comes by valueFrom, which is not read: give it a literal value")
        }
        MarkProblem::NotAFlag { variable } => {
            format!("container {container}: {variable} is neither \"true\" nor \"false\", so the container is not marked as a sidecar")
        }
        MarkProblem::EmptyImage => format!(
            "container {container}: {WITH_IMAGE} is empty, so the container is not marked as a sidecar: name an image, or set {WHEN_JOB_EXIT} to \"true\""
        ),
    };
    Some(Decision::tell(Reason::MarkInvalid, note))
}

fn mains_not_done(pod: &Pod) -> Option<Decision> {
    match roles::mains_state(pod) {
        Mains::Done => None,
        // A broken mark beside a good one is told while the mains run, so that it can be mended before the next run.
        Mains::Running(_) | Mains::NotReported(_) => {
            let told = mark_problem(pod).and_then(|problem| problem.report);
            Some(Decision { report: told, ..Decision::quiet(Reason::MainsRunning) })
        }
    }
}

/// The mains are done and the pod is not finished: what about its sidecars?
fn sidecars(pod: &Pod, memory: &Memory, exit_images: &ExitImages, now: Duration) -> Decision {
    let waiting: Vec<_> = pod.containers.iter().enumerate().filter(|(_, c)| c.mark.is_sidecar() && c.end().is_none()).collect();
    if waiting.is_empty() {
        return Decision::quiet(Reason::SidecarsEnded);
    }
    if let Some(always) = waiting.iter().find(|(_, c)| *c.effective_policy(pod) == RestartPolicy::Always) {
        let note = format!(
            "container {}: its own restartPolicy is Always, so any exit image would be started again for ever: remove it",
            always.1.name
        );
        return Decision::tell(Reason::SidecarRestartsAlways, note);
    }
    let plan = Plan::make(&waiting, memory, exit_images);
    match plan {
        Err(refusal) => refusal,
        Ok(plan) if plan.swaps.is_empty() => pending(pod, memory, now),
        Ok(plan) => plan.decide(memory, now),
    }
}

/// The swaps that are still to be made, and what to say about them.
struct Plan {
    swaps: Vec<Swap>,
    refused: Vec<String>,
}

impl Plan {
    fn make(waiting: &[(usize, &Container)], memory: &Memory, exit_images: &ExitImages) -> Result<Self, Decision> {
        let mut plan = Self { swaps: Vec::new(), refused: Vec::new() };
        for &(index, container) in waiting {
            if memory.shows_exit_image(container, exit_images) {
                continue;
            }
            let choice = exit_images.choose(&container.mark).map_err(|why| no_choice(container, &why))?;
            plan.refused.extend(
                choice
                    .refused
                    .map(|image| format!("container {} asks for {image}, which is not on the list of --exit-images", container.name)),
            );
            plan.swaps.push(Swap { index, container: container.name.clone(), from: container.image.clone(), to: choice.image.into() });
        }
        Ok(plan)
    }

    fn decide(self, memory: &Memory, now: Duration) -> Decision {
        if memory.in_flight {
            return Decision::quiet(Reason::WriteInFlight);
        }
        if let Some(at) = memory.not_before.filter(|at| *at > now) {
            return Decision::later(Reason::WriteBackoff, at);
        }
        let undone =
            self.swaps.iter().find(|swap| memory.swap_of(&swap.container).is_some_and(|record| record.times >= SWAPS_PER_CONTAINER));
        if let Some(swap) = undone {
            let note = format!(
                "container {}: the exit image was replaced by {} {SWAPS_PER_CONTAINER} times; find who changes it (an admission webhook, another controller)",
                swap.container, swap.from
            );
            return Decision::tell(Reason::SwapUndone, note);
        }
        let report = Some(Report { reason: Reason::SidecarSwapped, note: self.note() });
        Decision { reason: Reason::SidecarSwapped, swaps: self.swaps, report, again: None }
    }

    fn note(&self) -> String {
        let mut note = String::from("main containers are done; ending");
        for (nth, swap) in self.swaps.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            let _ = write!(note, "{comma} {} (image {} -> {})", swap.container, swap.from, swap.to);
        }
        for refused in &self.refused {
            let _ = write!(note, "; {refused}: the default exit image is used");
        }
        note
    }
}

fn no_choice(container: &Container, why: &NoChoice) -> Decision {
    let name = &container.name;
    let asked = container.mark.with_image.as_deref().unwrap_or_default();
    match why {
        NoChoice::Invalid(error) => {
            Decision::tell(Reason::ExitImageInvalid, format!("container {name}: {WITH_IMAGE} is not an image: {error}"))
        }
        NoChoice::Missing if asked.is_empty() => Decision::tell(
            Reason::ExitImageMissing,
            format!(
                "container {name}: no exit image is configured: start the controller with --exit-image, or name a listed image in {WITH_IMAGE}"
            ),
        ),
        NoChoice::Missing => Decision::tell(
            Reason::ExitImageMissing,
            format!("container {name}: {asked} is not on the list of --exit-images and there is no default: add it, or set --exit-image"),
        ),
    }
}

/// Every sidecar that has not ended shows an exit image: has the node acted?
fn pending(pod: &Pod, memory: &Memory, now: Duration) -> Decision {
    let mut again: Option<Duration> = None;
    let mut troubles = Vec::new();
    for sidecar in roles::sidecars(pod).filter(|sidecar| sidecar.end().is_none()) {
        let Some(record) = memory.swap_of(&sidecar.name) else { continue };
        match overdue(pod, sidecar, record, now) {
            Err(trouble) => troubles.push(trouble),
            Ok(at) => again = Some(again.map_or(at, |earlier| earlier.min(at))),
        }
    }
    // A trouble that was told must not hide that of another sidecar.
    let new = troubles.iter().position(|trouble| !memory.said.contains(&trouble.reason)).unwrap_or_default();
    let trouble = (new < troubles.len()).then(|| troubles.swap_remove(new));
    Decision { again, ..trouble.unwrap_or(Decision::quiet(Reason::SwapPending)) }
}

/// `Ok` with the time at which patience ends, or what is wrong.
fn overdue(pod: &Pod, sidecar: &Container, record: &SwapRecord, now: Duration) -> Result<Duration, Decision> {
    let name = &sidecar.name;
    let (patience, trouble, note) = match evidence::progress(sidecar, record.before.as_ref()) {
        Progress::NotPulled(reason, message) => {
            return Err(Decision::tell(
                Reason::ExitImageNotPulled,
                format!("container {name}: the node cannot pull {}: {reason}: {message}", sidecar.image),
            ));
        }
        Progress::NotStarted(reason, message) => {
            return Err(Decision::tell(
                Reason::ExitImageNotStarted,
                format!("container {name}: the node cannot start {}: {reason}: {message}", sidecar.image),
            ));
        }
        Progress::Runs => (
            EXIT_IMAGE_RUNS,
            Reason::ExitImageRuns,
            "was started and does not end: its command comes from a volume, or the image is not an exit image",
        ),
        Progress::Unchanged | Progress::Ended => (
            unchanged_patience(pod),
            Reason::SwapWithoutEffect,
            "is in the spec, but the node has not reacted: does it support changing the image of a running container?",
        ),
    };
    let at = record.at + patience;
    if at > now { Ok(at) } else { Err(Decision::tell(trouble, format!("container {name}: {} {note}", sidecar.image))) }
}

/// A kubelet stops swapped containers one after another, each with its grace period (truth table, row 26).
fn unchanged_patience(pod: &Pod) -> Duration {
    let grace = Duration::from_secs(pod.grace_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).into());
    let count = u32::try_from(roles::sidecars(pod).count()).unwrap_or(u32::MAX);
    grace.saturating_mul(count).saturating_add(SWAP_VISIBLE)
}

/// The pod is finished: tells the truth about the swaps that were made in it.
fn finished(pod: &Pod, memory: &Memory) -> Decision {
    if memory.swaps.is_empty() {
        return Decision::quiet(Reason::PodFinished);
    }
    let phase = if pod.phase == crate::objects::pod::Phase::Succeeded { "Succeeded" } else { "Failed" };
    let ends = roles::sidecars(pod)
        .filter_map(|sidecar| Some(describe_end(sidecar, memory.swap_of(&sidecar.name)?)))
        .collect::<Vec<_>>()
        .join(", ");
    if phase == "Failed" && roles::mains_succeeded(pod) {
        let note = format!("the pod is Failed although every main container exited with 0: {ends}");
        return Decision::tell(Reason::PodFailedAfterSwap, note);
    }
    Decision::tell(Reason::SidecarEnded, format!("the pod is {phase}: {ends}"))
}

fn describe_end(sidecar: &Container, record: &SwapRecord) -> String {
    let name = &sidecar.name;
    let shown = sidecar.end().map_or_else(|| "not reported".to_owned(), describe_code);
    match &record.real_end {
        Some(real) if sidecar.end() == Some(real) => format!("{name} ended ({shown}), exit image not seen"),
        Some(real) => format!("{name} ended ({}), exit image {shown}", describe_code(real)),
        None if shows_exit_image(sidecar, record) => format!("{name} ended (its own exit code was not shown), exit image {shown}"),
        None => format!("{name} ended ({shown})"),
    }
}

fn shows_exit_image(sidecar: &Container, record: &SwapRecord) -> bool {
    sidecar.status.as_ref().is_some_and(|status| evidence::exit_image_shown(&status.image, &record.to) == Some(true))
}

fn describe_code(end: &crate::objects::pod::Terminated) -> String {
    let code = end.exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
    match (end.signal, &*end.reason) {
        (Some(signal), _) => format!("{code}, signal {signal}"),
        (None, "" | "Completed" | "Error") => code,
        (None, reason) => format!("{code}, {reason}"),
    }
}
