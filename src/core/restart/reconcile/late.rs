//! The end of a request whose time is over, or that is deleted. A container that is parked gets its
//! image back first; so does one whose alias has to be pulled at its start (`imagePullPolicy:
//! Always`) and cannot be: the tag may have moved, and the manifest of the digest be gone from the
//! registry. Only the request says which image there was before, so a finalizer keeps it until that
//! is seen.

use std::time::Duration;

use super::circumstances::{Around, Case, Sight};
use super::container::{Step, Target};
use super::decision::Decision;
use super::memory::Memory;
use super::{parking, readiness};
use crate::report::reason::Reason;
use crate::restart::request::RestartRequest;

/// How long a change that was written down may be on its way, or made and not seen: as long as a
/// watch may hide it.
const ARRIVES: Duration = Duration::from_secs(60);

/// Ends it, or what comes before that.
pub(crate) fn end(case: Case<'_>, why: &str) -> Decision {
    parking::end(case, why)
        .or_else(|| put_back(case))
        .unwrap_or_else(|| Decision::give_up(case.request, why))
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
    let is_held = request.deleting && request.is_held_back();
    if !is_held || !readiness::is_its_pod(request, pod) {
        return None;
    }
    let case = Case {
        request,
        pod,
        memory,
        around,
    };
    let arrives = arrives(case).filter(|at| *at > around.now);
    put_back(case).or_else(|| arrives.map(|at| Decision::later(Reason::RestartPending, at)))
}

/// Until when a change may still be seen that was written down for the spec as it is.
fn arrives(case: Case<'_>) -> Option<Duration> {
    let journal = case.request.journal.as_ref()?;
    let times = journal.0.iter().filter_map(|(name, mark)| {
        let (_, container, _) = case.pod.find(name)?;
        let intent = mark.intent.as_ref()?;
        let may_come = intent.parking.is_none()
            && intent.back.is_none()
            && container.image == intent.from
            && intent.generation == case.pod.generation;
        case.memory.changed_at(name).filter(|_| may_come)
    });
    times.map(|at| at.saturating_add(ARRIVES)).max()
}

/// Until each alias is seen started or taken back, for as long as the node is waited for.
fn put_back(case: Case<'_>) -> Option<Decision> {
    let (request, pod) = (case.request, case.pod);
    let journal = request
        .journal
        .as_ref()
        .filter(|_| !pod.pod.phase.is_terminal())?;
    let (mut marks, mut swaps, mut until) = (Vec::new(), Vec::new(), None::<Duration>);
    for name in journal.0.keys() {
        match under_way(case, name) {
            Some(Step::Begin(mark)) => marks.push((name.clone(), mark)),
            Some(Step::Swap(swap)) => swaps.push(swap),
            Some(Step::Works(at)) => until = until.into_iter().chain(at).min(),
            Some(Step::Final(..) | Step::Waits | Step::WaitsFor(_)) | None => {}
        }
    }
    if !marks.is_empty() {
        return Some(Decision::write_down(journal, marks));
    }
    if !swaps.is_empty() {
        return Some(Decision::swap(request, pod, swaps));
    }
    until.map(|until| Decision::later(Reason::RestartPending, until))
}

/// What is next for a container whose alias may turn out not to be had.
fn under_way(case: Case<'_>, name: &str) -> Option<Step> {
    let target = Target::of(case, name).filter(|target| {
        target.details.pulls_always && !case.request.state(name).phase.is_final()
    })?;
    let image = &target.container.image;
    let intent = target
        .mark
        .intent
        .as_ref()
        .filter(|intent| intent.parking.is_none() && *image == intent.to)?;
    let has_started = target.has_started()
        // It has, and crashes: nobody waits for that to be over.
        || case.request.deleting
            && target.is_restarted()
            && target.is_seen_by_node()
            && target.pull_trouble().is_none()
            && intent.back.is_none();
    (!has_started).then(|| target.carried_out(intent, 1))
}
