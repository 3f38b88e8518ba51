//! `unreadyGracePeriodSeconds`: the pod is not ready for so long before its containers are stopped,
//! until the request is over. As in OpenKruise, by the readiness gate `KruisePodReady`, and with
//! its finalizer, annotation and entry, so that either of the two takes away what the other has
//! begun.
//!
//! 1. `Finalize`: the request stays until its entry is taken away.
//! 2. `SetReadiness`: the pod gets the entry, and is not ready.
//! 3. `NoteUnready`: since when. From then on the time runs.
//! 4. When the request is completed, or deleted: `SetReadiness` without the entry, then `Finalize`
//!    without the finalizer.

use std::time::Duration;

use super::circumstances::{Case, Sight, in_time};
use super::decision::{Action, Decision, Readiness};
use crate::objects::pod::readiness::{GateCondition, PodReadiness};
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{RestartRequest, UNREADY_ACQUIRED};

/// What comes before the first container is stopped; `None` where nothing does any more.
pub(crate) fn before_restart(case: Case<'_>) -> Option<Decision> {
    let (request, pod, around) = (case.request, case.pod, case.around);
    let seconds = request.strategy.unready_seconds?;
    if let Some((text, seen)) = case.memory.unready() {
        let Ok(since) = text.parse() else {
            return Some(Decision::give_up(
                request,
                &format!("failed to parse unready time {text}"),
            ));
        };
        // A time that is yet to come is none since when the pod can have been unready.
        let until = in_time(since, seconds, around)
            .min(seen.saturating_add(Duration::from_secs(seconds.into())));
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

/// What comes after a request that is completed or deleted; `None` where nothing does any more.
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

/// What a pod without the gate makes of it: nobody is kept from sending requests to it.
pub(crate) fn remark(request: &RestartRequest, pod: &RestartPod) -> Option<String> {
    let seconds = request
        .strategy
        .unready_seconds
        .filter(|_| pod.readiness.is_none())?;
    Some(format!(
        "strategy.unreadyGracePeriodSeconds {seconds} is waited for only: the pod stays ready, for it has no readinessGates KruisePodReady"
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

/// Whether this is the pod that it was made for, and is there to stay.
pub(crate) fn is_its_pod(request: &RestartRequest, pod: &RestartPod) -> bool {
    !pod.pod.deleting
        && request
            .pod_uid
            .as_ref()
            .is_none_or(|uid| *uid == pod.pod.uid)
}

/// Whether a request that is over may have left something in its pod.
pub(crate) fn is_held(request: &RestartRequest) -> bool {
    let may_have_left_it = request.active && request.strategy.unready_seconds.is_some();
    request.journal.is_some() && (request.is_held_back() || may_have_left_it)
}

/// Keeps a request until what it has begun in its pod is over.
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
