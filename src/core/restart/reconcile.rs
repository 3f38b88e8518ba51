//! The execution of a request to restart containers of a pod (`ContainerRecreateRequest`) without a
//! daemon, by writing another spelling of the same image (`image::alias`).
//!
//! Each step is recorded in the request before it is made, so that another run of the process, or
//! another process, continues where the last one ended:
//!
//! 1. `Accept`: the request gets its labels and a journal of the containers that are there now.
//! 2. `Report`: the request becomes Recreating.
//! 3. `WriteDown`: the journal gets the image before and its alias; a finalizer comes first where
//!    that may have to be taken back ([`late`]).
//! 4. `Swap`: the pod gets the alias, only if it is unchanged since step 3.
//! 5. Once another container is observed and ready: `Report`. If the alias cannot be pulled, the
//!    image before is put back, and that is recorded first as well.
//! 6. `Release`, and `Delete` when its `ttlSecondsAfterFinished` has passed.
//!
//! Where an image has no alias, the container is parked (`parking`): it gets the park image, and
//! once that is observed running the image before is put back, each recorded as in 3 and 4. The pod
//! itself records the image before, in the patch that parks it: a request may be deleted
//! ([`orphan`]), and its text is not trusted (`parking/before.rs`). No request ends before the
//! containers that it has parked have their images back, unless no record of that image can be
//! trusted. Then a Warning describes the manual fix.
//!
//! Every write to the request is made to one version of it, and the write to the pod to one
//! generation of it: of two processes only one succeeds, and a late write changes nothing.
//!
//! A change and its undoing move the generation by two. So a container with its image as before was
//! not touched if the generation has moved by at most one since the change was recorded. It does
//! not matter who moved it. Before Kubernetes 1.33 the API server counts no generations of pods,
//! and the image alone is tested. A restart is not recognised by the container's image:
//! `status.image` and `imageID` do not change on an alias.
//!
//! A request that has ended although a container stays parked is kept beyond its time: it can
//! contradict the record in the pod.

mod acceptance;
mod container;
mod decision;
mod late;
mod others;
mod parking;
mod readiness;
mod run;

pub use self::decision::{Acceptance, Action, Change, Decision, Filled, Note, Readiness, Status};
pub use self::parking::image::ParkImage;
pub use self::parking::{ORPHAN_AFTER, Orphan, orphan, orphan_as_told};

use std::collections::BTreeMap;
use std::time::Duration;

use self::container::in_vain_for_long;
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::Headroom;
use crate::cluster::node_class::NodeClass;
use crate::objects::moment::Moment;
use crate::objects::node::KubeletVersion;
use crate::objects::pod::ContainerState;
use crate::objects::recreate_request::RequestPhase;
use crate::objects::runs_on::RunsOn;
use crate::objects::values::label_selector::is_subdomain;
use crate::report::denial::{CHANGES, UNDONE};
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Mark, Parking, RestartRequest};

/// OpenKruise's message for a pod that does not exist any more.
const POD_GONE: &str = "pod has gone";
/// The message for a name that no pod can have.
const NO_NAME: &str = "podName is not a valid pod name: lower case letters, digits, '-' and '.', beginning and ending with a letter or digit";
/// OpenKruise's message for a request whose deadline has passed.
const DEADLINE: &str = "recreating has exceeded the activeDeadlineSeconds";

/// How long after its deadline a request that has begun waits for its pod to be observed: what it
/// has begun needs the pod.
const SEEN_AFTER_DEADLINE: Duration = Duration::from_secs(600);
/// The same without a deadline, counted from the first search for the pod: as long as an API server
/// or a permission may be missing.
const SEEN_WITHIN: Duration = Duration::from_secs(3600);
/// The interval at which a request that is kept after its end is reconciled.
const WITNESS_AGAIN: Duration = Duration::from_secs(3600);

/// Returns true if the request can be decided only with its pod observed. `nodes_tell` is true if
/// there are nodes whose vendor does not carry out requests with OpenKruise's label for virtual
/// nodes.
pub fn needs_pod(request: &RestartRequest, nodes_tell: bool) -> bool {
    let is_over = request.deleting || request.is_completed();
    let is_ours = if is_over {
        let may_be_deleted = request.ttl_seconds.is_some() && !request.deleting;
        readiness::is_held(request) || may_be_deleted && parking::before::is_witness(request)
    } else {
        others::may_be_ours(request, nodes_tell)
    };
    is_ours && names_a_pod(request)
}

/// Returns true if a pod can have this name (a DNS subdomain, RFC 1123). Any other text could act
/// as a field selector, and would never match a pod.
fn names_a_pod(request: &RestartRequest) -> bool {
    is_subdomain(&request.pod_name)
}

/// Decides what to do about a request. The memory must have observed the request and the pod as
/// they are ([`Memory::observe`]).
pub fn decide(
    request: &RestartRequest,
    sight: Sight<'_>,
    memory: &Memory,
    around: &Around<'_>,
) -> Decision {
    if memory.in_flight {
        return Decision::quiet(Reason::WriteInFlight);
    }
    if let Some(at) = memory.not_before.filter(|at| *at > around.now) {
        return Decision::later(Reason::WriteBackoff, at);
    }
    let sight = if names_a_pod(request) {
        sight
    } else {
        Sight::Absent
    };
    if request.deleting || request.is_completed() {
        return after_completion(request, sight, memory, around);
    }
    if let Some(decision) = others::carry_out(request, memory, around) {
        return decision;
    }
    let mut decision = carry_out(request, sight, memory, around);
    let deadline =
        deadline(request, around).filter(|at| *at > around.now && decision.action.is_none());
    decision.again = decision.again.into_iter().chain(deadline).min();
    decision
}

/// Decides about a request that swaplet itself carries out.
fn carry_out(
    request: &RestartRequest,
    sight: Sight<'_>,
    memory: &Memory,
    around: &Around<'_>,
) -> Decision {
    let name = &request.pod_name;
    let why = match sight {
        _ if !names_a_pod(request) => NO_NAME.to_owned(),
        Sight::Refused(why) if !request.has_begun() => {
            format!("the pod {name} cannot be read: {why}")
        }
        Sight::Unseen | Sight::Refused(_) => return unseen(request, memory, around),
        Sight::Absent if request.pod_uid.is_none() => format!("no found Pod named {name}"),
        Sight::Absent => POD_GONE.to_owned(),
        Sight::There(pod) => {
            return with_pod(Case {
                request,
                pod,
                memory,
                around,
            });
        }
    };
    Decision::give_up(request, &why)
}

/// Decides about a request whose pod is not observed. What has begun needs the pod to be completed,
/// but every wait has an end. (OpenKruise reads pods from a cache, so they are either there or
/// gone.)
fn unseen(request: &RestartRequest, memory: &Memory, around: &Around<'_>) -> Decision {
    let begun = request.has_begun();
    let (until, over) = match (deadline(request, around), memory.unseen_since) {
        (Some(deadline), _) if begun => (deadline + SEEN_AFTER_DEADLINE, DEADLINE.to_owned()),
        (Some(deadline), _) => (deadline, DEADLINE.to_owned()),
        (None, Some(since)) => (
            since + SEEN_WITHIN,
            format!("the pod was not observed for {} s", SEEN_WITHIN.as_secs()),
        ),
        (None, None) => return Decision::quiet(Reason::RequestWaits),
    };
    if until > around.now {
        return Decision::later(Reason::RequestWaits, until);
    }
    let why = if begun {
        "; its pod cannot be observed, so the result of what was begun is not known"
    } else {
        ""
    };
    Decision::give_up(request, &format!("{over}{why}"))
}

fn with_pod(case: Case<'_>) -> Decision {
    let Case {
        request,
        pod,
        around,
        ..
    } = case;
    if let Some(gone) = gone(request, pod) {
        return Decision::give_up(request, &gone);
    }
    if is_late(request, around) {
        return late::end(case, DEADLINE);
    }
    if around.node.is_none() && !pod.pod.node.is_empty() {
        return Decision::quiet(Reason::RequestWaits);
    }
    if pod.pod.phase.is_terminal() && request.journal.is_some() {
        let (phase, because) = (pod.pod.phase.as_str(), because(&pod.pod.reason));
        return Decision::give_up(request, &format!("the pod has become {phase}{because}"));
    }
    match &request.journal {
        None => match in_vain_for_long(case, false) {
            Some(why) => Decision::give_up(request, &format!("not restarted: {why}")),
            None => acceptance::accept(request, pod, around),
        },
        Some(_) if !around.is_first => waits_in_line(request),
        Some(journal) => run::advance(case, journal),
    }
}

/// Returns why this is not the requested pod, or will not be for long; `None` if it is.
fn gone(request: &RestartRequest, pod: &RestartPod) -> Option<String> {
    if !readiness::is_its_pod(request, pod) {
        return Some(POD_GONE.to_owned());
    }
    is_younger(pod, request)
        .then(|| format!("{POD_GONE}: the one that is there now was created after the request"))
}

/// Returns true if the pod was created after a request that does not name its uid. Both times are
/// whole seconds of one clock.
fn is_younger(pod: &RestartPod, request: &RestartRequest) -> bool {
    let times = pod
        .created_at
        .zip(request.created_at)
        .filter(|_| request.pod_uid.is_none());
    times.is_some_and(|(pod, request)| pod > request)
}

fn because(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    }
}

/// Cleans up after a request that is completed or being deleted. One whose time has come is deleted
/// whether or not its label could be removed.
fn after_completion(
    request: &RestartRequest,
    sight: Sight<'_>,
    memory: &Memory,
    around: &Around<'_>,
) -> Decision {
    if request.journal.is_some() {
        if let Some(decision) = late::after_deletion(request, sight, memory, around) {
            return decision;
        }
        if let Some(decision) = readiness::after_restart(request, sight) {
            return decision;
        }
    }
    let is_active = request.journal.is_some() && request.active && !request.deleting;
    match in_its_time(request, sight, around) {
        waits if is_active && waits.action.is_none() => {
            Decision::act(Reason::RequestOver, Action::Release)
        }
        decision => decision,
    }
}

/// Deletes a request when its time has come. One that was refused, or that OpenKruise has completed,
/// too: where OpenKruise does not delete it, nothing else does.
fn in_its_time(request: &RestartRequest, sight: Sight<'_>, around: &Around<'_>) -> Decision {
    if request.deleting || others::delete(request, around) {
        return Decision::quiet(Reason::RequestOver);
    }
    // It records what it has parked, and is kept while the pod may claim something else.
    if parking::before::is_evidence(request, sight, around) {
        return Decision::later(Reason::RequestOver, around.now + WITNESS_AGAIN);
    }
    let (Some(completed), Some(ttl)) = (request.completed_at, request.ttl_seconds) else {
        return Decision::quiet(Reason::RequestOver);
    };
    match in_time(completed, ttl, around) {
        at if at <= around.now => Decision::act(Reason::RequestOver, Action::Delete),
        at => Decision::later(Reason::RequestOver, at),
    }
}

fn waits_in_line(request: &RestartRequest) -> Decision {
    if request.phase != RequestPhase::Unanswered {
        return Decision::quiet(Reason::RequestWaits);
    }
    let status = Status {
        phase: RequestPhase::Pending,
        message: Box::default(),
        states: request.wanted_states().collect(),
    };
    Decision::act(Reason::RequestWaits, Action::Report(status))
}

// The restarts that changes of images have still to cause.

/// Returns how many restarts the changes that were made for a request have still to cause in its
/// pod. A restart that was given up may still come, so only what the pod shows counts.
pub fn restarts_coming(request: &RestartRequest, pod: &RestartPod) -> u32 {
    coming(request, pod, |_| false)
}

/// Like [`restarts_coming`], without the restarts of the containers that are `left_out`.
pub(crate) fn coming(
    request: &RestartRequest,
    pod: &RestartPod,
    left_out: impl Fn(&str) -> bool,
) -> u32 {
    let marks = request.journal.iter().flat_map(|journal| &journal.0);
    let others = marks.filter(|(name, _)| !left_out(name));
    others
        .map(|(name, mark)| of_container(pod, name, mark))
        .sum()
}

fn of_container(pod: &RestartPod, name: &str, mark: &Mark) -> u32 {
    let found = mark.intent.as_ref().zip(pod.find(name));
    let Some((intent, (_, container, _))) = found else {
        return 0;
    };
    let has_before = container.image == intent.from;
    let status = container.status.as_ref();
    let is_restarted = status.is_some_and(|status| mark.shows_another(status));
    match intent.parking {
        // The change was not made, or was undone.
        None if has_before && intent.back.is_none() => 0,
        None => u32::from(!is_restarted),
        Some(Parking::Out) if has_before => 0,
        Some(Parking::Out) => 1 + u32::from(!is_restarted),
        Some(Parking::Back) => u32::from(!has_before || !is_restarted),
    }
}

// The inputs of a decision besides the request: what is known of its pod, of the node and of the
// time. Also computes the deadline of a request, from its own times and the time of day.

/// The knowledge of the pod of a request.
#[derive(Clone, Copy, Debug)]
pub enum Sight<'a> {
    /// The pod has not been requested or observed yet.
    Unseen,
    /// The API server rejects the request for the pod, for this reason, so it will never be
    /// observed.
    Refused(&'a str),
    /// There is no pod with that name.
    Absent,
    /// The pod as it was observed last.
    There(&'a RestartPod),
}

/// The inputs of a decision besides the request and its pod.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The exit images of the installation: a container that has one was ended.
    pub exit_images: &'a ExitImages,
    /// The park image, for containers whose image has no alias; `None` if none is configured.
    pub park: Option<&'a ParkImage>,
    /// The class of the pod's node; `None` while it is unknown.
    pub node: Option<NodeClass>,
    /// The version of the node's kubelet; `None` if the node does not report it.
    pub kubelet: Option<KubeletVersion>,
    /// What the node says of its operating system and processor.
    pub runs_on: RunsOn,
    /// Returns whether this many restarts fit into what the pod's Job allows.
    pub room: &'a dyn Fn(u32) -> Headroom,
    /// True if no other request for the pod comes before this one.
    pub is_first: bool,
    /// True if requests with OpenKruise's label for virtual nodes are left to the vendor of the
    /// pod's node; `None` while that depends on a node that is not known yet.
    pub left_to_vendor: Option<bool>,
    /// The time of the decision.
    pub now: Moment,
    /// The time of day, by the API server's clock.
    pub today: jiff::Timestamp,
}

/// A request and its pod, with everything that a decision about the two depends on.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub request: &'a RestartRequest,
    pub pod: &'a RestartPod,
    pub memory: &'a Memory,
    pub around: &'a Around<'a>,
}

impl Around<'_> {
    /// Returns true if an image is the park image of this installation.
    fn parks(&self, image: &str) -> bool {
        self.park.is_some_and(|park| park.is(image))
    }
}

fn deadline(request: &RestartRequest, around: &Around<'_>) -> Option<Moment> {
    Some(in_time(
        request.created_at?,
        request.active_deadline_seconds?,
        around,
    ))
}

fn is_late(request: &RestartRequest, around: &Around<'_>) -> bool {
    deadline(request, around).is_some_and(|at| at <= around.now)
}

/// Returns the point in time `seconds` after `then`. Both times of day are by the API server's
/// clock.
fn in_time(then: jiff::Timestamp, seconds: u32, around: &Around<'_>) -> Moment {
    let age = age(then, around);
    around.now + Duration::from_secs(seconds.into()) - age
}

/// Returns how long ago `then` was; zero if it is in the future.
fn age(then: jiff::Timestamp, around: &Around<'_>) -> Duration {
    Duration::try_from(around.today.duration_since(then)).unwrap_or_default()
}

// The memory of a request between two reconciles. It times things; losing it changes no outcome.

/// The memory of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// True while a write for this request is in flight.
    pub in_flight: bool,
    /// No write before this time, after one that failed.
    pub not_before: Option<Moment>,
    /// The time since when no daemon of OpenKruise is on the node of the request; `None` while one
    /// is, or that is unknown.
    pub without_daemon: Option<Moment>,
    /// The time since when the pod is watched for but not observed; `None` while it is observed,
    /// known to be gone, or not watched.
    pub unseen_since: Option<Moment>,
    /// The first recorded value of the time since when the pod is not ready, and when it was
    /// observed. A value that is written later does not count.
    unready: Option<(Box<str>, Moment)>,
    /// The last consecutive writes to the pod or the request that were not applied.
    in_vain: Option<InVain>,
    containers: BTreeMap<Box<str>, Watched>,
}

/// Consecutive writes that were denied, undone or failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InVain {
    /// What the last one was to change.
    part: &'static str,
    first: Moment,
    last: Moment,
    /// The error of the last one.
    words: Box<str>,
}

impl InVain {
    fn is_of_pod(&self) -> bool {
        self.part.starts_with("pods")
    }
}

/// The memory of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Watched {
    /// The time since when the node is to replace this container, with this image in the spec.
    changed: Option<((Mark, Box<str>), Moment)>,
    /// The time since when another container than this one is observed.
    restarted: Option<(Mark, Moment)>,
    /// The time since when this container is observed running.
    running: Option<(Mark, Moment)>,
    /// The time since when this container is observed running and ready.
    ready: Option<(Mark, Moment)>,
    /// The time since when it waits for a condition that may never come true.
    waits: Option<Moment>,
    /// The last change of its image, as a webhook has changed it.
    stored: Option<Stored>,
}

/// The times of [`Watched`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub waits: Option<Moment>,
    pub changed: Option<Moment>,
    pub restarted: Option<Moment>,
    pub running: Option<Moment>,
    pub ready: Option<Moment>,
}

/// A change of an image of which a webhook has made another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    /// The image before.
    pub from: Box<str>,
    /// The image that was written.
    pub to: Box<str>,
    /// The image that was stored.
    pub image: Box<str>,
}

impl Memory {
    /// Updates the memory from the request and its pod as they are now. Call it before every
    /// decision.
    pub fn observe(&mut self, request: &RestartRequest, pod: &RestartPod, now: Moment) {
        if let (None, Some(since)) = (&self.unready, &request.unready_acquired) {
            self.unready = Some((since.clone(), now));
        }
        // Others may write any journal, and another one each time.
        self.containers
            .retain(|name, _| request.mark(name).is_some());
        for (name, mark) in request.journal.iter().flat_map(|journal| &journal.0) {
            self.containers
                .entry(name.clone())
                .or_default()
                .observe(mark, pod, name, now);
        }
    }

    /// Records what a decision says: which containers wait, and whether there is anything to write.
    /// While a write waits for its turn, it goes on failing. Call it after every decision.
    pub fn note(&mut self, decision: &Decision, now: Moment) {
        let is_held_up = matches!(
            decision.reason,
            Reason::WriteBackoff | Reason::WriteInFlight
        );
        if decision.action.is_none() && !is_held_up {
            self.in_vain = None;
        }
        let Some(waiting) = &decision.waiting else {
            return;
        };
        for (name, watched) in &mut self.containers {
            let waits = waiting.contains(name);
            watched.waits = waits.then(|| watched.waits.unwrap_or(now));
        }
    }

    /// Records that a write to this part (of the pod, as its resource begins, of the request or of
    /// its status) was denied, undone or failed, with this error.
    pub fn note_in_vain(&mut self, part: &'static str, words: &str, now: Moment) {
        let first = self.in_vain.take().map_or(now, |before| before.first);
        let (last, words) = (now, words.into());
        self.in_vain = Some(InVain {
            part,
            first,
            last,
            words,
        });
    }

    /// Records that what a write to this part is about had changed meanwhile. What was denied before
    /// says more.
    pub fn note_conflict(&mut self, part: &'static str, now: Moment) {
        match &mut self.in_vain {
            Some(in_vain) => in_vain.last = now,
            None => self.note_in_vain(part, CHANGES, now),
        }
    }

    /// Records that a write to this part was applied.
    pub fn note_applied(&mut self, part: &str) {
        self.in_vain.take_if(|in_vain| in_vain.part == part);
    }

    /// Records what the API server has stored of a change of images, if that is not what was
    /// written: another image, or the image without the record of the one before.
    pub fn note_stored(&mut self, change: &Change, pod: &RestartPod) {
        for swap in &change.swaps {
            let Some((_, container, _)) = pod.find(&swap.container) else {
                continue;
            };
            let is_another = ![&swap.from, &swap.to].contains(&&container.image);
            let is_unrecorded = container.image == swap.to
                && pod.parked.is_none()
                && (change.note.as_ref()).is_some_and(|note| note.parked.is_some());
            let stored = (is_another || is_unrecorded).then(|| Stored {
                from: swap.from.clone(),
                to: swap.to.clone(),
                image: container.image.clone(),
            });
            self.containers
                .entry(swap.container.clone())
                .or_default()
                .stored = stored;
        }
    }

    /// Returns for how long every write to some part has been in vain, and the last error.
    pub(crate) fn in_vain(&self) -> Option<(Duration, String)> {
        let in_vain = self.in_vain.as_ref()?;
        let lasted = in_vain.last.since(in_vain.first);
        let what = if in_vain.is_of_pod() {
            "the change of the pod"
        } else {
            "a write to the request"
        };
        let (seconds, words) = (lasted.as_secs(), &in_vain.words);
        let why = format!("the API server has not applied {what} for {seconds} s: {words}");
        Some((lasted, why))
    }

    /// Returns true if a webhook has undone the last write in vain.
    pub(crate) fn is_undone(&self) -> bool {
        let in_vain = self.in_vain.as_ref();
        in_vain.is_some_and(|it| it.words.starts_with(UNDONE))
    }

    /// Returns true if a webhook has undone the last change of the pod.
    pub(crate) fn was_undone(&self) -> bool {
        self.is_undone() && self.in_vain.as_ref().is_some_and(InVain::is_of_pod)
    }

    /// Returns what a webhook has made of the last change of the container's image.
    pub(crate) fn stored(&self, container: &str) -> Option<&Stored> {
        self.containers.get(container)?.stored.as_ref()
    }

    pub(crate) fn times(&self, container: &str) -> Times {
        let Some(watched) = self.containers.get(container) else {
            return Times::default();
        };
        Times {
            waits: watched.waits,
            changed: watched.changed.as_ref().map(|(_, at)| *at),
            restarted: watched.restarted.as_ref().map(|(_, at)| *at),
            running: watched.running.as_ref().map(|(_, at)| *at),
            ready: watched.ready.as_ref().map(|(_, at)| *at),
        }
    }
}

impl Watched {
    fn observe(&mut self, mark: &Mark, pod: &RestartPod, name: &str, now: Moment) {
        let Some((_, container, details)) = pod.find(name) else {
            return;
        };
        let Some(status) = &container.status else {
            return;
        };
        let changed = mark.intent.is_some();
        let restarted = mark.shows_another(status);
        let running = matches!(status.state, ContainerState::Running { .. });
        let ready = details.ready && running;
        keep(
            &mut self.changed,
            changed.then(|| (mark.clone(), container.image.clone())),
            now,
        );
        keep(&mut self.restarted, restarted.then(|| mark.clone()), now);
        keep(&mut self.running, running.then(|| Mark::of(status)), now);
        keep(&mut self.ready, ready.then(|| Mark::of(status)), now);
    }
}

/// Keeps the time of a fact while the fact stays the same; sets it to `now` for another one.
fn keep<T: PartialEq>(since: &mut Option<(T, Moment)>, what: Option<T>, now: Moment) {
    *since = match (since.take(), what) {
        (Some((before, at)), Some(what)) if before == what => Some((before, at)),
        (_, Some(what)) => Some((what, now)),
        (_, None) => None,
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::restart::pod::RestartPodWire;
    use crate::restart::request::Journal;

    #[test]
    fn nothing_is_kept_of_containers_that_the_journal_names_no_more() {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}});
        let pod = serde_json::from_value::<RestartPodWire>(pod).unwrap();
        let pod = pod.read().unwrap();
        let mut memory = Memory::default();
        for number in 0..100 {
            let name = Box::<str>::from(format!("c{number}"));
            let request = RestartRequest {
                journal: Some(Journal([(name, Mark::default())].into())),
                ..RestartRequest::default()
            };
            memory.observe(&request, &pod, Moment::START);
        }
        assert_eq!(memory.containers.len(), 1);
    }
}
