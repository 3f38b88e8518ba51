//! Decisions in words, for people who ask why.

use super::super::circumstances::Circumstances;
use crate::objects::pod::roles::{self, Mains};
use crate::objects::pod::{Container, Pod};
use crate::objects::values::env::WHEN_JOB_EXIT;
use crate::report::decision::{Action, Decision, Rung};
use crate::report::reason::Reason;
use crate::terminate;

/// A way to end sidecars, by its word in `--prefer`.
pub(crate) const fn way(rung: Rung) -> &'static str {
    match rung {
        Rung::Swap => "way swap",
        Rung::Finish => "way finish",
        Rung::Recreate => "way crr",
    }
}

/// An action in words that follow "swaplet".
#[must_use]
pub fn describe(action: &Action) -> String {
    match action {
        Action::Swap(swaps) => {
            let swaps: Vec<_> = swaps.iter().map(|swap| format!("{} ({} -> {})", swap.container, swap.from, swap.to)).collect();
            format!("changes the image of {}", swaps.join(", "))
        }
        Action::Finish(finish) => format!("writes the phase {}", finish.phase.as_str()),
        Action::Recreate(containers) => format!("asks OpenKruise's daemon to end {}", containers.join(", ")),
    }
}

/// The decision in one sentence.
#[must_use]
pub fn sentence(pod: &Pod, decision: &Decision) -> String {
    match &decision.action {
        Some(action) => format!("swaplet {}.", describe(action)),
        None if decision.reason == Reason::MainsRunning => format!("swaplet waits: {}.", unfinished_main(pod)),
        None => in_words(decision.reason).to_owned(),
    }
}

fn unfinished_main(pod: &Pod) -> String {
    match roles::mains_state(pod) {
        Mains::Running(main) if main.end().is_some() => {
            format!("main container {} has failed, and is started again", main.name)
        }
        Mains::Running(main) => format!("main container {} is not done", main.name),
        Mains::NotReported(main) => format!("main container {} is not reported by the node", main.name),
        Mains::Done => "the pod has to be looked at again".to_owned(),
    }
}

/// Why nothing is written, in one sentence.
#[must_use]
pub const fn in_words(reason: Reason) -> &'static str {
    match reason {
        Reason::PodDeleting => "The pod is left alone: it is being deleted.",
        Reason::PodFinished => "Nothing is left to do: the pod is finished.",
        Reason::RestartPolicyAlways => "The pod is left alone: it restarts its containers always, as no pod of a Job does.",
        Reason::NoSidecar => "The pod is left alone: no container is marked as a sidecar.",
        Reason::SidecarsEnded => "Nothing is left to do: every sidecar has ended.",
        Reason::LeftToPlatform => "The sidecars are left to the platform under the node.",
        Reason::NotSelected => "The pod is left alone: it is none of those that are to be ended.",
        Reason::MainsRunning => "swaplet waits: a main container is not done.",
        Reason::WriteInFlight => "swaplet waits: a write for this pod is under way.",
        Reason::WriteBackoff => "swaplet waits: a write has failed and is tried again.",
        Reason::HeadroomWait => "swaplet waits: other pods of the Job have to end first, so that no restart of a sidecar fails the Job.",
        Reason::SwapPending => "swaplet waits: the image is changed, and the node has not shown the end of the sidecar yet.",
        Reason::FinishWaits => "swaplet waits: the phase is written once the pod has not changed for a while.",
        Reason::FinishPending => "swaplet waits: the phase is written, and the node has not shown the end of all containers yet.",
        Reason::RecreatePending => "swaplet waits: OpenKruise's daemon is asked, and has not ended the sidecar yet.",
        Reason::ExitCodeProbed => "swaplet waits: another pod finds out with which exit code a sidecar of this kind ends.",
        Reason::OpenKruiseUnseen => "swaplet waits: nobody has looked yet whether OpenKruise ends sidecars here.",
        Reason::ExitImageAwaited => "swaplet waits: the exit image that the sidecar needs is pushed first.",
        Reason::NodeNotSeen => "swaplet waits: the pod's node has not been seen yet.",
        Reason::NodeProbed => "swaplet waits: another pod finds out what the node does with a changed image.",
        Reason::PodMalformed => "The pod is left alone: a field has a type that Kubernetes does not allow.",
        Reason::RestartPolicyUnknown => "The pod is left alone: its restart policy is not known.",
        Reason::OnlySidecars => "The pod is left alone: every container is marked as a sidecar.",
        Reason::MarkInvalid => "The pod is left alone: what should mark a sidecar has no effect as it is written.",
        Reason::ExitImageInvalid => "No sidecar is ended: the exit image that one asks for is no image reference.",
        Reason::ExitImageMissing => "No sidecar is ended: there is no exit image for one of them.",
        Reason::SidecarRestartsAlways => "No sidecar is ended: one would be started again whatever its image.",
        Reason::NeedsImage => "No sidecar is ended: the exit image does not have what one of them executes.",
        Reason::NotSwappable => "No sidecar is ended: no exit image would end one of them.",
        Reason::NoHeadroom => "No sidecar is ended: the restart that this costs would fail the Job.",
        Reason::JobUnknown => "No sidecar is ended: nobody knows how many restarts the Job allows.",
        Reason::NoRung => "No sidecar is ended: nothing that is allowed ends one on this node.",
        Reason::ExitImageNotPulled => "A sidecar has not ended: the node cannot pull the exit image.",
        Reason::ExitImageNotStarted => "A sidecar has not ended: the node cannot start the exit image.",
        Reason::ExitImageRuns => "A sidecar has not ended: what was started with the exit image does not end.",
        Reason::SwapWithoutEffect => "A sidecar has not ended: the node has not reacted to the changed image.",
        Reason::SwapRejected => "A sidecar has not ended: the provider of the node has failed on the changed image.",
        Reason::SwapUndone => "A sidecar has not ended: somebody keeps changing the exit image back.",
        Reason::FinishNotQuiet => "The phase is not written: the pod keeps changing.",
        Reason::FinishUndone => "The pod has not ended: somebody keeps taking the phase back.",
        Reason::RecreateImpossible => "No sidecar is ended: OpenKruise's daemon cannot be asked to stop one of them.",
        Reason::RecreateExitCode => "No sidecar is ended: the exit code of one of them would fail the pod, or bring it back.",
        Reason::RecreateUnanswered => "A sidecar has not ended: nobody carries out the request to OpenKruise's daemon.",
        Reason::RecreateFailed => "A sidecar has not ended: the request to OpenKruise's daemon has failed.",
        Reason::LeftToOpenKruise => "The sidecars are left to OpenKruise.",
        Reason::OpenKruiseIncomplete => "The sidecars are left to OpenKruise, which does not end all of them.",
        Reason::OpenKruiseUnclear => "The sidecars are left alone: nobody can tell whether OpenKruise ends them.",
        Reason::SidecarSwapped => "The images of the sidecars were changed.",
        Reason::PhaseWritten => "The phase was written.",
        Reason::RecreateRequested => "OpenKruise's daemon was asked.",
        Reason::RequestWaits => "swaplet waits: a request to restart containers has not had its turn yet.",
        Reason::RestartPending => "swaplet waits: the node has not shown the restarted container ready yet.",
        Reason::ContainerRestarting => "The image of a container was given another spelling, so that the node restarts it.",
        Reason::ContainerRestarted => "A container was restarted, and is ready.",
        Reason::RestartFailed => "A container was not restarted, or nobody knows.",
        Reason::RequestLeft => "The request to restart containers is left to somebody else.",
        Reason::RequestOver => "Nothing is left to do: the request to restart containers is completed.",
        Reason::RestartOnChanged => "The configuration of a container has changed, and its restart was asked for.",
        Reason::RestartOnStopped => "A restart for changed configuration has failed; no further pod of the owner is begun with.",
        Reason::RestartOnInvalid => "Nothing is restarted for changed configuration: the annotation cannot be used.",
        Reason::RestartOnForbidden => "Nothing is restarted for changed configuration: it may not be looked at.",
        Reason::CreatedImagePullJob => "An image is pulled to the nodes of a workload's old pods.",
        Reason::FailedCreateImagePullJob => "No image is pulled to the nodes of a workload's old pods.",
        Reason::PullImageFailed => "An image of a job is not on a node.",
        Reason::SidecarEnded => "Nothing is left to do: the sidecars were ended, and the pod is finished.",
        Reason::PodFailedAfterSwap | Reason::PodFailedAfterFinish | Reason::PodFailedAfterRecreate => {
            "The pod is Failed although every main container exited with 0."
        }
        Reason::WriteDenied => "Nothing was written: the API server forbids it.",
        Reason::DecisionFailed => "Nothing is done: a defect in swaplet keeps it from deciding about this pod.",
    }
}

/// What happens next, and what the user can do.
pub(crate) fn next(pod: &Pod, decision: &Decision, around: &Circumstances<'_>) -> Vec<String> {
    let mut next: Vec<String> = decision.reports.iter().map(|report| format!("{}: {}.", report.reason, report.note)).collect();
    next.extend(follows(pod, decision, around));
    next
}

fn follows(pod: &Pod, decision: &Decision, around: &Circumstances<'_>) -> Option<String> {
    if let Some(action) = &decision.action {
        return Some(after(pod, action, around));
    }
    let looks_again = || {
        let seconds = decision.again?.saturating_sub(around.now).as_secs();
        Some(format!("The pod is looked at again when it changes, and in {seconds} s at the latest."))
    };
    match decision.reason {
        Reason::MainsRunning => Some(format!("The sidecars are ended as soon as all main containers have ended{}.", done_means(pod))),
        Reason::NoSidecar => Some(format!(
            "To have a container ended when the others are done, give it the variable {WHEN_JOB_EXIT}=true. Native sidecars (init containers with restartPolicy Always) need none: \
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
    if pod.restart_policy == crate::objects::pod::RestartPolicy::Never { ", with any exit code" } else { " with exit code 0" }
}

/// What comes of an action.
fn after(pod: &Pod, action: &Action, around: &Circumstances<'_>) -> String {
    let phase = if roles::mains_succeeded(pod) { "Succeeded" } else { "Failed, as its main containers were" };
    match action {
        Action::Swap(_) => format!(
            "The node stops {} as always (preStop hook, SIGTERM, grace period) and runs the exit image, which exits with 0 at once; then the pod is {phase}.",
            names(pod)
        ),
        Action::Finish(_) if around.may_be_kubelet() => {
            format!("The node takes the phase for the end of the pod and stops {}, whatever the exit code.", names(pod))
        }
        Action::Finish(_) => format!("On this virtual node {} may run, and cost, until the pod is deleted.", names(pod)),
        Action::Recreate(_) => {
            format!("The daemon stops {} as the kubelet does, and nothing takes the place: the exit code of each counts.", names(pod))
        }
    }
}

fn names(pod: &Pod) -> String {
    let names = terminate::unended(pod).into_iter().map(|(_, Container { name, .. })| &**name);
    names.collect::<Vec<_>>().join(", ")
}
