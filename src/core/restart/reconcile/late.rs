//! The end of a request whose deadline has passed, or that is deleted. A container that is parked
//! gets its image back first. So does one for whose alias the registry may be asked at its start
//! and says no ([`may_ask_registry`]): the tag may have moved, and the manifest of the digest be
//! gone from the registry. Only the request records the image before, so a finalizer keeps it until
//! the image is put back.

use std::time::Duration;

use super::container::{Step, Target, checks_each_name};
use super::decision::{Action, Decision};
use super::{Around, Case, Memory, Sight, parking, readiness};
use crate::image::alias::is_same_name;
use crate::objects::moment::Moment;
use crate::objects::pod::Container;
use crate::report::decision::Report;
use crate::report::reason::Reason;
use crate::restart::pod::Details;
use crate::restart::request::{Intent, RestartRequest};

/// How long a recorded change may be in flight, or made and not yet observed: as long as a watch
/// may lag.
const ARRIVES: Duration = Duration::from_secs(60);

/// Returns true if a node may ask the registry before it starts this container by another name of
/// its image, which may then not be there. Kubelets from 1.35 on check the credentials of a pod for
/// each name again (KEP-2535), and take the two lengths of a name of Docker Hub for two images. What
/// a webhook has made of that name is on no node.
pub(crate) fn may_ask_registry(
    case: Case<'_>,
    (container, details): (&Container, &Details),
    intent: &Intent,
) -> bool {
    ![&intent.from, &intent.to].contains(&&container.image)
        || details.pulls_always
        || case.pod.has_pull_secrets
        || is_same_name(&intent.from, &intent.to) && checks_each_name(case.around)
}

/// Ends the request, or does first what has to come before.
pub(crate) fn end(case: Case<'_>, why: &str) -> Decision {
    let marks = case
        .request
        .journal
        .iter()
        .flat_map(|journal| journal.0.keys());
    let mut waits = marks.filter_map(|name| Target::of(case, name)?.waits_for_node());
    let in_vain = || case.memory.in_vain().map(|(_, why)| why);
    // What the user has to do comes first.
    let more = lost(case).next().or_else(in_vain);
    let more = more.or_else(|| waits.next());
    let more = more.map(|more| format!("{why}; {more}"));
    let why = more.as_deref().unwrap_or(why);
    parking::end(case, why)
        .or_else(|| put_back(case).or_else(|| awaits(case)))
        .unwrap_or_else(|| Decision::give_up(case.request, why))
}

/// Decides what to do before a request that is being deleted releases its pod; `None` once nothing
/// is left. It does not wait for readiness, and without the finalizer it is gone.
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
    put_back(case).or_else(|| awaits(case)).or_else(|| {
        let decision = readiness::after_restart(request, sight)?;
        let is_last = matches!(decision.action, Some(Action::Finalize(_)));
        let told = lost(case).map(|why| {
            let note = format!(
                "ContainerRecreateRequest {} is deleted: {why}",
                request.name
            );
            Report::new(Reason::RestartFailed, note)
        });
        let done = told.filter(|_| is_last).collect();
        Some(Decision { done, ..decision })
    })
}

/// Returns why containers keep names of their images that may prove impossible to pull.
fn lost(case: Case<'_>) -> impl Iterator<Item = String> {
    let marks = case.request.journal.iter();
    let names = marks.flat_map(|journal| journal.0.keys());
    names.filter_map(move |name| match under_way(case, name)? {
        Step::Final(_, why) => Some(why),
        _ => None,
    })
}

/// Waits for an alias recorded for the current spec, which may yet appear and prove impossible to
/// pull; `None` if none may.
fn awaits(case: Case<'_>) -> Option<Decision> {
    let journal = case.request.journal.as_ref()?;
    let times = journal.0.iter().filter_map(|(name, mark)| {
        let (_, container, details) = case.pod.find(name)?;
        let intent = mark.intent.as_ref()?;
        let may_come = intent.parking.is_none()
            && intent.back.is_none()
            && container.image == intent.from
            && intent.generation == case.pod.generation
            && may_ask_registry(case, (container, details), intent);
        case.memory.times(name).changed.filter(|_| may_come)
    });
    let until = times.map(|at| at + ARRIVES).max();
    let until = until.filter(|at| *at > case.around.now)?;
    Some(Decision::later(Reason::RestartPending, until))
}

/// Works until each alias is observed started or is taken back, within the wait for the node.
fn put_back(case: Case<'_>) -> Option<Decision> {
    let (request, pod) = (case.request, case.pod);
    let journal = request
        .journal
        .as_ref()
        .filter(|_| !pod.pod.phase.is_terminal())?;
    let (mut marks, mut swaps, mut until) = (Vec::new(), Vec::new(), None::<Moment>);
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

/// Returns the next step of a container whose alias may prove impossible to pull; else `None`.
pub(crate) fn under_way(case: Case<'_>, name: &str) -> Option<Step> {
    let target = Target::of(case, name).filter(|_| !case.request.state(name).phase.is_final())?;
    let intent = target.mark.intent.as_ref().filter(|intent| {
        intent.parking.is_none()
            && target.container.image != intent.from
            && may_ask_registry(case, (target.container, target.details), intent)
    })?;
    let has_started = target.has_started()
        // It has started and crashes, which is not waited for.
        || target.is_restarted()
            && target.is_seen_by_node()
            && target.pull_trouble().is_none()
            && intent.back.is_none();
    (!has_started && target.in_vain_for_long().is_none()).then(|| target.carried_out(intent, 1))
}
