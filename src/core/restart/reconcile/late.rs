//! The end of a request whose time is over, or that is deleted. A container that is parked gets its
//! image back first; so does one whose alias has to be pulled at its start (`imagePullPolicy:
//! Always`) and cannot be: the tag may have moved, and the manifest of the digest be gone from the
//! registry. Only the request says which image there was before, so a finalizer keeps it until that
//! is seen.

use std::time::Duration;

use super::container::{Step, Target};
use super::{Action, Around, Decision, Memory, Sight, give_up, parking, readiness, run};
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Mark, RestartRequest};

/// How long a change that was written down may be on its way, or made and not seen: as long as a
/// watch may hide it.
const ARRIVES: Duration = Duration::from_secs(60);

/// Ends it, or what comes before that.
pub(crate) fn end(
    request: &RestartRequest,
    pod: &RestartPod,
    memory: &Memory,
    why: &str,
    around: &Around<'_>,
) -> Decision {
    parking::end(request, pod, why, around)
        .or_else(|| put_back(request, pod, memory, around))
        .unwrap_or_else(|| give_up(request, why))
}

/// Before the first alias that has to be pulled is written down: the finalizer.
pub(crate) fn before_restart(
    request: &RestartRequest,
    pod: &RestartPod,
    marks: &[(Box<str>, Mark)],
) -> Option<Decision> {
    let asks = |(name, mark): &(Box<str>, Mark)| {
        let is_alias = mark
            .intent
            .as_ref()
            .is_some_and(|intent| intent.parking.is_none() && intent.back.is_none());
        is_alias
            && pod
                .find(name)
                .is_some_and(|(_, _, details)| details.pulls_always)
    };
    (!readiness::has_finalizer(request) && marks.iter().any(asks))
        .then(|| Decision::act(Reason::RestartPending, readiness::hold(request)))
}

/// What comes before a request that is being deleted lets go of its pod; `None` where nothing does
/// any more. Nobody waits for its containers to become ready, and without the finalizer it is gone.
pub(crate) fn after_deletion(
    request: &RestartRequest,
    sight: Sight<'_>,
    memory: &Memory,
    around: &Around<'_>,
) -> Option<Decision> {
    let Sight::There(pod) = sight else {
        return None;
    };
    let is_held = request.deleting && readiness::has_finalizer(request);
    if !is_held || !readiness::is_its_pod(request, pod) {
        return None;
    }
    let arrives = arrives(request, pod, memory).filter(|at| *at > around.now);
    put_back(request, pod, memory, around)
        .or_else(|| arrives.map(|at| Decision::later(Reason::RestartPending, at)))
}

/// Until when a change may still be seen that was written down for the spec as it is.
fn arrives(request: &RestartRequest, pod: &RestartPod, memory: &Memory) -> Option<Duration> {
    let journal = request.journal.as_ref()?;
    let times = journal.0.iter().filter_map(|(name, mark)| {
        let (_, container, _) = pod.find(name)?;
        let intent = mark.intent.as_ref()?;
        let may_come = intent.parking.is_none()
            && intent.back.is_none()
            && container.image == intent.from
            && intent.generation == pod.generation;
        memory.changed_at(name).filter(|_| may_come)
    });
    times.map(|at| at.saturating_add(ARRIVES)).max()
}

/// Until each alias is seen started or taken back, for as long as the node is waited for.
fn put_back(
    request: &RestartRequest,
    pod: &RestartPod,
    memory: &Memory,
    around: &Around<'_>,
) -> Option<Decision> {
    let mut journal = request
        .journal
        .clone()
        .filter(|_| !pod.pod.phase.is_terminal())?;
    let (mut marks, mut swaps, mut until) = (Vec::new(), Vec::new(), None::<Duration>);
    for (name, mark) in &journal.0 {
        match under_way(request, pod, memory, around, name, mark) {
            Some(Step::Begin(mark)) => marks.push((name.clone(), mark)),
            Some(Step::Swap(swap)) => swaps.push(swap),
            Some(Step::Works(at)) => until = until.into_iter().chain(at).min(),
            Some(Step::Final(..) | Step::Waits | Step::WaitsFor(_)) | None => {}
        }
    }
    if !marks.is_empty() {
        journal.0.extend(marks);
        return Some(Decision::act(
            Reason::RestartPending,
            Action::WriteDown(journal),
        ));
    }
    if !swaps.is_empty() {
        return Some(run::swap(request, pod, swaps));
    }
    until.map(|until| Decision::later(Reason::RestartPending, until))
}

/// What is next for a container whose alias may turn out not to be had.
fn under_way(
    request: &RestartRequest,
    pod: &RestartPod,
    memory: &Memory,
    around: &Around<'_>,
    name: &str,
    mark: &Mark,
) -> Option<Step> {
    let (index, container, details) = pod
        .find(name)
        .filter(|(_, _, details)| details.pulls_always)?;
    let intent = mark
        .intent
        .as_ref()
        .filter(|intent| intent.parking.is_none() && container.image == intent.to)?;
    let status = container
        .status
        .as_ref()
        .filter(|_| !request.state(name).phase.is_final())?;
    let target = Target {
        request,
        pod,
        memory,
        around,
        index,
        container,
        details,
        mark,
        status,
    };
    let has_started = target.has_started()
        // It has, and crashes: nobody waits for that to be over.
        || request.deleting
            && target.is_restarted()
            && target.is_seen_by_node()
            && target.pull_trouble().is_none()
            && intent.back.is_none();
    (!has_started).then(|| target.carried_out(intent, 1))
}
