//! `unreadyGracePeriodSeconds`: the pod is not ready for this many seconds before its containers
//! are stopped, and until the request is over. As in OpenKruise, this uses the readiness gate
//! `KruisePodReady`, with its finalizer, annotation and entry, so that either of the two removes
//! what the other has begun.
//!
//! 1. `Finalize`: the request stays until its entry is removed.
//! 2. `SetReadiness`: the pod gets the entry, and is not ready.
//! 3. `NoteUnready`: the time since when is recorded; the grace period starts.
//! 4. When the request is completed, or deleted: `SetReadiness` without the entry, then `Finalize`
//!    without the finalizer.

use std::time::Duration;

use super::decision::{Action, Decision, Readiness};
use super::{Case, Sight, in_time};
use crate::objects::pod::{GateCondition, PodReadiness};
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{RestartRequest, UNREADY_ACQUIRED};

/// Decides what to do before the first container is stopped; `None` once nothing is left.
pub(crate) fn before_restart(case: Case<'_>) -> Option<Decision> {
    let (request, pod, around) = (case.request, case.pod, case.around);
    let seconds = request.strategy.unready_seconds?;
    if let Some((text, seen)) = &case.memory.unready {
        let Ok(since) = text.parse() else {
            return Some(Decision::give_up(
                request,
                &format!("failed to parse unready time {text}"),
            ));
        };
        // The pod cannot have been unready since a time in the future.
        let until =
            in_time(since, seconds, around).min(*seen + Duration::from_secs(seconds.into()));
        return (until > around.now).then(|| Decision::later(Reason::RestartPending, until));
    }
    let act = |action| Some(Decision::act(Reason::RestartPending, action));
    let Some(readiness) = &pod.readiness else {
        return act(Action::NoteUnready);
    };
    if !request.is_held_back() {
        return act(hold(request));
    }
    match readiness.kept_by(&key(request)) {
        Some(gate) => act(set(pod, readiness, gate)),
        None => act(Action::NoteUnready),
    }
}

/// Decides what to do after the request is completed or deleted; `None` once nothing is left.
pub(crate) fn after_restart(request: &RestartRequest, sight: Sight<'_>) -> Option<Decision> {
    let act = |action| Some(Decision::act(Reason::RequestOver, action));
    let left = match sight {
        Sight::There(pod) if is_its_pod(request, pod) => pod
            .readiness
            .as_ref()
            .and_then(|readiness| Some(set(pod, readiness, readiness.left_by(&key(request))?))),
        Sight::Unseen | Sight::Refused(_) if is_held(request) => {
            return Some(Decision::quiet(Reason::RequestWaits));
        }
        Sight::There(_) | Sight::Absent | Sight::Unseen | Sight::Refused(_) => None,
    };
    if let Some(action) = left {
        return act(action);
    }
    let others: Vec<_> = request
        .finalizers
        .iter()
        .filter(|finalizer| ***finalizer != *UNREADY_ACQUIRED)
        .cloned()
        .collect();
    if others.len() < request.finalizers.len() {
        act(Action::Finalize(others))
    } else {
        None
    }
}

/// Returns a remark for a pod without the gate, which keeps receiving traffic; else `None`.
pub(crate) fn remark(request: &RestartRequest, pod: &RestartPod) -> Option<String> {
    let seconds = request
        .strategy
        .unready_seconds
        .filter(|_| pod.readiness.is_none())?;
    Some(format!(
        "strategy.unreadyGracePeriodSeconds {seconds} only delays the restart: the pod stays ready, because it has no readinessGate KruisePodReady"
    ))
}

fn set(pod: &RestartPod, before: &PodReadiness, gate: GateCondition) -> Action {
    let unready = before.is_ready && !gate.is_true;
    Action::SetReadiness(Readiness {
        gate,
        unready,
        version: pod.pod.version.clone(),
    })
}

/// Returns true if this is the pod that the request is for, and it is not being deleted.
pub(crate) fn is_its_pod(request: &RestartRequest, pod: &RestartPod) -> bool {
    !pod.pod.deleting
        && request
            .pod_uid
            .as_ref()
            .is_none_or(|uid| *uid == pod.pod.uid)
}

/// Returns true if a request that is over may have left its entry or finalizer behind.
pub(crate) fn is_held(request: &RestartRequest) -> bool {
    let may_have_left_it = request.active && request.strategy.unready_seconds.is_some();
    request.journal.is_some() && (request.is_held_back() || may_have_left_it)
}

/// Adds the finalizer that keeps a request until what it has begun in its pod is over.
pub(crate) fn hold(request: &RestartRequest) -> Action {
    let finalizers = request
        .finalizers
        .iter()
        .cloned()
        .chain([UNREADY_ACQUIRED.into()])
        .collect();
    Action::Finalize(finalizers)
}

fn key(request: &RestartRequest) -> String {
    format!("{}/{}", request.namespace, request.name)
}
