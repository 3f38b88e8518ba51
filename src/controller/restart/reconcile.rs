//! The state of the loop, without any I/O and without a clock: all requests to restart containers
//! that are not completed, each with its memory, and their pods. As for pods in
//! [`crate::terminate::index`], an event only enqueues a request.

mod observe;
mod orphans;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::time::Duration;

use super::write::RestartWrite;
use crate::frame::clock::Now;
use crate::frame::isolated::{Defects, isolated, log};
use crate::frame::queue::{FairQueue, LOOK_AGAIN, pop_due, reschedule};
pub use crate::frame::store::Key;
use crate::frame::store::Store;
use crate::frame::writer::report::Notice;
use crate::frame::writer::{RETRY, Target, TargetKind, is_missing_right};
use crate::restart::write::Stored;
use crate::terminate::index::Index;
use orphans::Orphans;
use pods::{PodEntry, Pods};
use swaplet_core::cluster::headroom::Headroom;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::PROVIDER_FAILED;
use swaplet_core::objects::recreate_request::{KIND, RequestPhase};
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::report::decision::Report;
use swaplet_core::report::denial::{CHANGES, UNDONE};
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::pod::RestartPod;
use swaplet_core::restart::reconcile::{
    Acceptance, Action, Around, Decision, Memory, ParkImage, Sight, decide, needs_pod,
    restarts_coming,
};
use swaplet_core::restart::request::{ACTIVE, JOURNAL, POD_UID, Place, RestartRequest};
use swaplet_core::terminate::memory::Denials;

/// The delay before an unknown node is checked again, and before the next reconcile of a request
/// whose decision names a time that has passed.
const NODE_AGAIN: Duration = Duration::from_secs(1);
/// The maximum number of decisions per turn of the loop: so everybody else's pods are reconciled,
/// however many requests there are.
const AT_A_TIME: usize = 16;
/// The maximum number of requests for a pod that are compared with what the pod says, besides the
/// one for which containers are parked.
const MOST_ASKED: usize = 64;
/// The number of requests or pods that are gone and may stay in a queue.
const MOST_GONE: usize = 1024;

/// The requests and their pods.
#[derive(Default)]
pub struct Restarts {
    requests: Store<RestartRequest, Entry>,
    by_pod: ByPod,
    pods: Pods,
    /// The requests to reconcile now.
    fresh: FairQueue<Key>,
    /// The requests to reconcile later without an event.
    due: BTreeSet<(Moment, Key)>,
    /// The number of decisions left in this turn of the loop.
    turns: usize,
    /// The namespaces and uids of pods whose requests ended halfway, not passed on yet.
    halfway: Vec<(Box<str>, Box<str>)>,
    /// The time of the next reconcile of all requests.
    all_due: Moment,
    park: Option<ParkImage>,
    orphans: Orphans,
    defects: Defects<Key>,
}

/// What is kept beside a request.
#[derive(Default)]
struct Entry {
    memory: Memory,
    retry: Retry,
    due: Option<Moment>,
}

impl Restarts {
    /// Returns a state without requests; `nodes_tell` is true if there are nodes whose vendor does
    /// not handle requests with OpenKruise's label for virtual nodes.
    pub fn new(park: Option<ParkImage>, nodes_tell: bool) -> Self {
        Self {
            park,
            by_pod: ByPod::new(nodes_tell),
            ..Self::default()
        }
    }

    /// Returns the number of requests that are not completed.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns true if there is no such request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the pods to watch; `None` if they have not changed since the last call.
    pub fn pods(&mut self) -> Option<impl Iterator<Item = &Key>> {
        self.pods.news()
    }

    /// Returns the number of decisions that panicked since the last call.
    pub fn take_defects(&mut self) -> u64 {
        self.defects.take_count() + self.orphans.take_defects()
    }

    /// Returns the next time at which there is work without an event.
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        let all = (!self.requests.is_empty()).then_some(self.all_due);
        let are_left = (self.turns == 0 && !self.fresh.is_empty()) || self.orphans.are_left();
        let first = self.due.first().map(|(at, _)| *at);
        first
            .into_iter()
            .chain(self.orphans.next_due())
            .chain(all)
            .chain(are_left.then_some(now))
            .min()
    }

    /// Begins a turn of the loop: enqueues the requests that are due.
    pub fn begin_turn(&mut self, now: Moment) {
        self.turns = AT_A_TIME;
        self.orphans.begin_turn(now);
        while let Some(key) = pop_due(&mut self.due, now) {
            if let Some((_, entry)) = self.requests.get_mut(&key) {
                entry.due = None;
            }
            self.enqueue(key);
        }
        if self.all_due <= now {
            self.all_due = now + LOOK_AGAIN;
            let all: Vec<_> = self.requests.iter().map(|(key, ..)| key.clone()).collect();
            all.into_iter().for_each(|key| self.enqueue(key));
        }
    }

    /// Returns the next write of this turn, of a namespace that `may_begin` one; `None` if there is
    /// none.
    pub fn next_write(
        &mut self,
        index: &mut Index,
        now: Now,
        may_begin: &dyn Fn(&str) -> bool,
    ) -> Option<RestartWrite> {
        self.halfway.drain(..).for_each(|(namespace, uid)| {
            index.restarts_cut_short(&namespace, &uid, now.moment);
        });
        while let Some(key) = (self.turns > 0)
            .then(|| self.fresh.pop_of(may_begin))
            .flatten()
        {
            // A request that is gone meanwhile uses no turn.
            let Some(decision) = self
                .requests
                .has(&key)
                .then(|| self.decide(&key, index, now))
            else {
                continue;
            };
            self.turns -= 1;
            if let Some(write) =
                decision.and_then(|decision| self.begin(&key, decision, index, now))
            {
                return Some(write);
            }
        }
        if !self.requests.is_complete() || self.requests.is_listing() {
            return None;
        }
        let (requests, by_pod) = (&self.requests, &self.by_pod);
        let of_pod = |pod: &Key, named: &str| {
            let names = once(named).chain(by_pod.names(pod).map(|name| &**name).take(MOST_ASKED));
            names
                .filter_map(|name| requests.get(&(pod.0.clone(), name.into())))
                .map(|(request, _)| request)
                .collect()
        };
        let (park, news) = (self.park.as_ref(), &mut index.effects);
        let write = self.orphans.next_write(of_pod, park, now, may_begin, news);
        let restarts = write
            .as_ref()
            .and_then(|write| self.orphans.restarts_of(write));
        if let Some((pod, restarts)) = restarts {
            index.restarts_for_nobody(pod, restarts, now.moment);
        }
        write
    }

    /// Decides about a request; after a panic it is left alone for a while, and all others
    /// continue.
    fn decide(&mut self, key: &Key, index: &mut Index, now: Now) -> Option<Decision> {
        if self.defects.is_left_alone(key, now.moment) {
            return None;
        }
        isolated(&key.1, || self.judge(key, index, now)).unwrap_or_else(|defect| {
            log(KIND, &key.0, &key.1, &defect);
            let again = self.defects.meet(key.clone(), now.moment);
            self.requeue_at(key, Some(again));
            None
        })
    }

    fn requeue_at(&mut self, key: &Key, at: Option<Moment>) {
        let Some((_, entry)) = self.requests.get_mut(key) else {
            return;
        };
        reschedule(&mut self.due, key, &mut entry.due, at);
    }

    fn begin(
        &mut self,
        key: &Key,
        decision: Decision,
        index: &mut Index,
        now: Now,
    ) -> Option<RestartWrite> {
        let (request, entry) = self.requests.get_mut(key)?;
        let all_are_left = self
            .by_pod
            .leave(request, decision.reason == Reason::RequestLeft);
        let Some(action) = decision.action else {
            let pod = pod_key(request);
            match decision.reason {
                Reason::RequestOver if decision.again.is_none() => self.forget(key, now.moment),
                // A pod whose requests somebody else carries out need not be watched.
                Reason::RequestLeft if all_are_left => self.pods.yield_slot(&pod, now.moment),
                _ => {}
            }
            return None;
        };
        entry.memory.in_flight = true;
        let request = request.clone();
        let pod = self.pods.seen(&pod_key(&request)).map(|pod| &pod.pod);
        match (&action, pod) {
            (Action::Swap(change), Some(pod)) => index.restarts_begin(pod, change.restarts()),
            // Restarts in its pod that it has not begun are those of another request.
            (Action::Report(status), Some(pod))
                if status.phase == RequestPhase::Completed && request.has_begun() =>
            {
                index.restarts_cut_short(&pod.namespace, &pod.uid, now.moment)
            }
            _ => {}
        }
        let seen = pod.map(|pod| pod.version.clone()).unwrap_or_default();
        let pod = pod.map(Target::of);
        Some(RestartWrite {
            request,
            pod,
            seen,
            action,
            done: decision.done,
            today: now.today,
            is_for_orphan: false,
        })
    }
}

// The backoff of writes that were not applied.

/// The number of failures, about a minute, after which they are reported.
const LASTING: u32 = 8;

/// The longest wait after a denial of what only cleans up after a request.
const SELDOM: Duration = Duration::from_secs(15 * 60);

/// The failed writes since the last applied one.
#[derive(Default)]
pub(crate) struct Retry {
    failures: u32,
    denials: Denials,
    reported: bool,
}

impl Retry {
    /// Records a failed write; returns the earliest time of the next one, and what to report.
    pub fn after(
        &mut self,
        write: &RestartWrite,
        error: &WriteError,
        now: Moment,
    ) -> (Moment, Vec<Notice>) {
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        let longest = match write.action {
            Action::Release | Action::Delete => SELDOM,
            _ => RETRY.longest,
        };
        let (wait, lasting) = match error {
            WriteError::Denied(words) => (
                self.denials.one_more(longest),
                self.denials
                    .are_lasting()
                    .then_some(("forbids", words.as_str())),
            ),
            WriteError::Failed { retry_after, error } => (
                // A request has to end, however long a server asks to wait.
                wait.max(retry_after.unwrap_or_default()).min(RETRY.longest),
                (self.failures >= LASTING).then_some(("does not apply", error.as_str())),
            ),
            WriteError::Conflict => (
                wait,
                (self.failures >= LASTING).then_some(("does not apply", CHANGES)),
            ),
            WriteError::Gone => (wait, None),
        };
        let news = lasting.filter(|_| !std::mem::replace(&mut self.reported, true));
        let news = news.and_then(|(fails, words)| {
            let (resource, name) = (write.resource(), &write.request.name);
            let note =
                format!("the API server {fails} a write to the {resource} of {name}: {words}");
            let reason = Reason::WriteDenied;
            write.notice(Report::new(reason, note))
        });
        (now + wait, news.into_iter().collect())
    }
}

// An index of the requests by pod, so that nothing scans all requests for one pod: a tenant may
// have thousands, also for one pod.

pub(crate) fn pod_key(request: &RestartRequest) -> Key {
    (request.namespace.clone(), request.pod_name.clone())
}

/// All requests, by pod.
#[derive(Default)]
pub(crate) struct ByPod {
    pods: BTreeMap<Key, Requests>,
    /// True if a node may report that its vendor does not handle requests with OpenKruise's label
    /// for virtual nodes.
    pub nodes_tell: bool,
}

/// The names of the requests for one pod.
#[derive(Default)]
struct Requests {
    all: BTreeSet<Box<str>>,
    /// The requests that can be decided only if the pod is watched.
    needing: BTreeSet<Box<str>>,
    /// The completed requests that still need the pod.
    held: BTreeSet<Box<str>>,
    /// The requests that somebody else carries out.
    left: BTreeSet<Box<str>>,
    /// The requests that are carried out one after another.
    line: BTreeSet<Place>,
}

impl ByPod {
    /// Returns an empty index.
    pub fn new(nodes_tell: bool) -> Self {
        Self {
            nodes_tell,
            ..Self::default()
        }
    }

    /// Adds a request.
    pub fn add(&mut self, request: &RestartRequest) {
        let needs_pod = needs_pod(request, self.nodes_tell);
        let requests = self.pods.entry(pod_key(request)).or_default();
        requests.all.insert(request.name.clone());
        let place = Place::of(request);
        if needs_pod {
            requests.needing.insert(request.name.clone());
            if place.is_none() {
                requests.held.insert(request.name.clone());
            }
        }
        requests.line.extend(place);
    }

    /// Removes a request, before it is deleted or replaced.
    pub fn remove(&mut self, request: &RestartRequest) {
        let pod = pod_key(request);
        let Some(requests) = self.pods.get_mut(&pod) else {
            return;
        };
        for names in [
            &mut requests.all,
            &mut requests.needing,
            &mut requests.held,
            &mut requests.left,
        ] {
            names.remove(&request.name);
        }
        if let Some(place) = Place::of(request) {
            requests.line.remove(&place);
        }
        if requests.all.is_empty() {
            self.pods.remove(&pod);
        }
    }

    /// Returns true if a pod must be watched.
    pub fn needs(&self, pod: &Key) -> bool {
        self.pods
            .get(pod)
            .is_some_and(|requests| !requests.needing.is_empty())
    }

    /// Returns true if no other request precedes this one.
    pub fn is_first(&self, request: &RestartRequest) -> bool {
        let line = self
            .pods
            .get(&pod_key(request))
            .map(|requests| &requests.line);
        let others_before = line
            .and_then(BTreeSet::first)
            .filter(|first| first.name != request.name);
        others_before.is_none_or(|first| Place::of(request).is_some_and(|place| place < *first))
    }

    /// Records whether somebody else carries a request out. Returns true if that holds for all
    /// requests for its pod.
    pub fn leave(&mut self, request: &RestartRequest, left: bool) -> bool {
        let Some(requests) = self.pods.get_mut(&pod_key(request)) else {
            return false;
        };
        if left {
            requests.left.insert(request.name.clone())
        } else {
            requests.left.remove(&request.name)
        };
        requests.left.len() == requests.all.len()
    }

    /// Returns the names of all requests for a pod.
    pub fn names(&self, pod: &Key) -> impl Iterator<Item = &Box<str>> {
        self.pods
            .get(pod)
            .into_iter()
            .flat_map(|requests| &requests.all)
    }

    /// Returns the names of the requests that the state of the pod matters for: those that are
    /// begun, the next one, and those that hold something of it. The others are queued.
    pub fn concerned(&self, pod: &Key) -> Vec<Box<str>> {
        let Some(requests) = self.pods.get(pod) else {
            return Vec::new();
        };
        let begun = requests.line.iter().take_while(|place| !place.waits);
        let next = requests.line.iter().find(|place| place.waits);
        begun
            .chain(next)
            .map(|place| &place.name)
            .chain(&requests.held)
            .cloned()
            .collect()
    }
}

// Decides about one request, from the state of its pod and its node.

impl Restarts {
    fn judge(&mut self, key: &Key, index: &mut Index, now: Now) -> Option<Decision> {
        let Now { moment, today } = now;
        let (request, entry) = self.requests.get_mut(key)?;
        let is_first = self.by_pod.is_first(request);
        let pod = self.pods.get(&pod_key(request));
        let sight = pod.map_or(Sight::Unseen, PodEntry::sight);
        let there = match sight {
            Sight::There(there) => Some(there),
            Sight::Unseen | Sight::Refused(_) | Sight::Absent => None,
        };
        if let Some(pod) = there {
            learn(request, pod, index, moment);
        }
        let node = there
            .zip(pod)
            .and_then(|(there, entry)| index.node_for_restart(&there.pod, entry.since, moment));
        let left_to_vendor = match self.by_pod.nodes_tell {
            true => left_to_vendor(sight, node, index),
            false => Some(true),
        };
        let looked_for = pod.filter(|_| matches!(sight, Sight::Unseen | Sight::Refused(_)));
        entry.memory.unseen_since = looked_for.map(|entry| entry.since);
        entry.observe(request, sight, index, moment);
        if let Some(there) = there {
            index.restarts_go_on(&there.pod, still_coming(request, there));
        }
        let room = |restarts| {
            there.map_or(Headroom::TooEarly, |pod| {
                index.room_for_restarts(&pod.pod, restarts)
            })
        };
        let around = Around {
            exit_images: index.exit_images(),
            park: self.park.as_ref(),
            node,
            kubelet: there.and_then(|pod| index.nodes.kubelet(&pod.pod)),
            runs_on: there.map_or_else(RunsOn::default, |pod| index.nodes.runs_on(&pod.pod)),
            room: &room,
            is_first,
            left_to_vendor,
            now: moment,
            today,
        };
        let decision = decide(request, sight, &entry.memory, &around);
        entry.memory.note(&decision, moment);
        let node_is_awaited =
            there.is_some() && node.is_none() && decision.reason == Reason::RequestWaits;
        self.requeue_at(key, again(&decision, node_is_awaited, moment));
        Some(decision)
    }
}

/// Returns whether the vendor of the pod's node handles such requests, where nodes may report that
/// it does not; `None` if the node is not known yet.
fn left_to_vendor(sight: Sight<'_>, node: Option<NodeClass>, index: &Index) -> Option<bool> {
    match sight {
        Sight::There(pod) => node.map(|_| index.nodes.vendor_restarts(&pod.pod)),
        Sight::Unseen | Sight::Refused(_) => None,
        Sight::Absent => Some(true),
    }
}

/// Returns when to decide again. A time that has passed would be due again at once, forever.
fn again(decision: &Decision, node_is_awaited: bool, now: Moment) -> Option<Moment> {
    let soon = now + NODE_AGAIN;
    let at = decision
        .again
        .into_iter()
        .chain(node_is_awaited.then_some(soon))
        .min()?;
    Some(if at > now { at } else { soon })
}

impl Entry {
    /// Updates the memory of the request.
    fn observe(&mut self, request: &RestartRequest, sight: Sight<'_>, index: &Index, now: Moment) {
        if request.is_taken() || request.ends_sidecars() {
            let is_gone = index.openkruise.has_daemon_if_seen(&request.node) == Some(false);
            self.memory.without_daemon = is_gone.then(|| self.memory.without_daemon.unwrap_or(now));
        }
        if let Sight::There(pod) = sight {
            self.memory.observe(request, pod, now);
        }
    }
}

/// Returns how many restarts are still to come in the pod of a request that is under way.
fn still_coming(request: &RestartRequest, pod: &RestartPod) -> u32 {
    let is_its_pod = request.pod_uid.as_ref() == Some(&pod.pod.uid);
    if is_its_pod && !request.is_completed() {
        restarts_coming(request, pod)
    } else {
        0
    }
}

/// Records that a provider failed on a change of ours: it fails on those for other pods too.
fn learn(request: &RestartRequest, pod: &RestartPod, index: &mut Index, now: Moment) {
    let changed = |name: &str| {
        let intent = request.mark(name).and_then(|mark| mark.intent.as_ref());
        intent
            .zip(pod.find(name))
            .is_some_and(|(intent, (_, container, _))| container.image == intent.to)
    };
    let failed = *pod.pod.reason == *PROVIDER_FAILED
        && request
            .containers
            .iter()
            .any(|wanted| changed(&wanted.name));
    if failed {
        index.learn_by_restart(&pod.pod, Proved::Rejects, now);
    }
}

// Handles finished writes, and what is reported of them.

impl Restarts {
    /// Handles the outcome of a write; returns what to report.
    pub fn written(
        &mut self,
        write: RestartWrite,
        outcome: Result<Stored, WriteError>,
        now: Moment,
    ) -> Vec<Notice> {
        if write.is_for_orphan {
            return self.orphans.written(write, outcome, now);
        }
        let key = (write.request.namespace.clone(), write.request.name.clone());
        let entry = self
            .requests
            .get_mut(&key)
            .filter(|(request, _)| request.uid == write.request.uid);
        let Some((_, entry)) = entry else {
            return outcome.map_or_else(|_| Vec::new(), |_| write.notices());
        };
        entry.memory.in_flight = false;
        self.fresh.push(&key.0, key.clone());
        match outcome.and_then(|stored| write.is_stored(stored)) {
            Ok(stored) => {
                entry.retry = Retry::default();
                entry.memory.not_before = None;
                entry.memory.note_applied(write.part());
                if let (Action::Swap(change), Stored::Pod(pod)) = (&write.action, &stored) {
                    entry.memory.note_stored(change, pod);
                }
                self.store(&write, stored, now);
                write.notices()
            }
            Err(error) => {
                let (part, is_of_pod) = (write.part(), write.is_of_pod());
                match &error {
                    // For a write to the request a right may be missing, which may come.
                    WriteError::Denied(words) | WriteError::Failed { error: words, .. }
                        if is_of_pod || !is_missing_right(words) =>
                    {
                        entry.memory.note_in_vain(part, words, now);
                    }
                    WriteError::Conflict => entry.memory.note_conflict(part, now),
                    _ => {}
                }
                let (not_before, news) = entry.retry.after(&write, &error, now);
                entry.memory.not_before = Some(not_before);
                news
            }
        }
    }

    /// Stores what we know to be written, because the event of our own write may come later.
    fn store(&mut self, write: &RestartWrite, stored: Stored, now: Moment) {
        match stored {
            Stored::Request(request) => {
                let key = (request.namespace.clone(), request.name.clone());
                let state = (request.uid.clone(), request.version.clone());
                let seen = &write.request.version;
                let changes = self.requests.answered(key, state, seen, *request, now);
                self.follow(changes, now);
            }
            Stored::Pod(pod) => {
                let key = (pod.pod.namespace.clone(), pod.pod.name.clone());
                if let Some(entry) = self.pods.get_mut(&key) {
                    entry.answered(key, pod, &write.seen, now);
                }
            }
            Stored::Nothing => {}
        }
    }
}

impl RestartWrite {
    /// Returns what is stored; a denial if a webhook has stored another journal in the request than
    /// was written, or not the labels without which it is nobody's.
    fn is_stored(&self, stored: Stored) -> Result<Stored, WriteError> {
        let (Action::Accept(Acceptance { journal, .. }) | Action::WriteDown(journal)) =
            &self.action
        else {
            return Ok(stored);
        };
        match stored {
            Stored::Request(request) if request.journal.as_ref() != Some(journal) => {
                Err(WriteError::Denied(format!(
                    "{UNDONE}: its annotation {JOURNAL} or its labels {POD_UID} and {ACTIVE} are not those that were written"
                )))
            }
            stored => Ok(stored),
        }
    }

    fn notices(&self) -> Vec<Notice> {
        self.done
            .iter()
            .filter_map(|report| self.notice(report.clone()))
            .collect()
    }

    /// Returns a notice about the pod, even if the pod is gone.
    fn notice(&self, report: Report) -> Option<Notice> {
        let RestartRequest {
            namespace,
            pod_name,
            pod_uid,
            ..
        } = &self.request;
        let gone = || {
            let (kind, uid) = (TargetKind::Pod, pod_uid.as_ref()?);
            Some(Target::new(kind, namespace, pod_name, uid))
        };
        Some(Notice {
            target: self.pod.clone().or_else(gone)?,
            report,
        })
    }
}

#[cfg(test)]
mod tests;
