//! The text of decisions, for people who want to know why.

use super::super::Circumstances;
use crate::objects::pod::annotations::SIDECARS;
use crate::objects::pod::roles::{self, Mains};
use crate::objects::pod::{Container, Pod};
use crate::objects::values::env::WHEN_JOB_EXIT;
use crate::report::decision::{Action, Decision, Method, Swap};
use crate::report::reason::Reason;

/// Returns the name of a method, by its word in `--prefer`.
pub(crate) const fn way(method: Method) -> &'static str {
    match method {
        Method::Swap => "way swap",
        Method::Finish => "way finish",
        Method::Recreate => "way crr",
    }
}

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
                "main container {} has failed, and is started again",
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
            "{} has ended, and by its restartPolicyRules all containers are started again",
            by.name
        ),
        Mains::Done => "the pod must be reconciled again".to_owned(),
    }
}

/// Returns what happens next, and what the user can do.
pub(crate) fn next(pod: &Pod, decision: &Decision, around: &Circumstances<'_>) -> Vec<String> {
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
    if pod.restart_policy == crate::objects::pod::RestartPolicy::Never {
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
    let names = roles::unended(pod)
        .into_iter()
        .map(|(_, Container { name, .. })| &**name);
    let names: Vec<_> = names.filter(|name| is_wanted(name)).collect();
    names.join(", ")
}
