//! All requests to restart containers that are not completed, each with its memory, and their pods: the state of the loop, without any
//! I/O and without a clock. As for pods in [`super::index`], an event only says that a request is to be looked at.

mod driver;
mod observe;
mod orphans;
mod pods;
mod retry;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use driver::{Driver, Happened, RestartSettings};
pub(super) use observe::observe;
use observe::observe_parked;
use orphans::Orphans;
use pods::Pods;
use retry::Retry;

use super::defects::{Defects, log, read};
use super::index::{Effect, Index, LOOK_AGAIN, Notice};
use super::watch::Event;
use super::writer::{Outcome, Target, TargetKind};
use super::writer_restart::{RestartWrite, Stored};
use crate::decide::decision::Report;
use crate::decide::headroom::Headroom;
use crate::decide::node_verdicts::Proved;
use crate::decide::reason::Reason;
use crate::decide::restart::{Action, Around, Decision, Memory, ParkImage, Sight, decide, is_first, needs_pod};
use crate::isolated::isolated;
use crate::objects::pod::PROVIDER_FAILED;
use crate::objects::recreate_request::{KIND, RequestPhase};
use crate::objects::restart_pod::{RestartPod, RestartPodWire};
use crate::objects::restart_request::{RestartRequest, RestartRequestWire};

/// How often is asked for a node that has not been seen.
const NODE_AGAIN: Duration = Duration::from_secs(1);

/// Namespace and name.
pub type Key = (Box<str>, Box<str>);

/// The time, since the start of the process and of day.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Time since the start of the process.
    pub since_start: Duration,
    /// The time of day.
    pub today: jiff::Timestamp,
}

/// The requests and their pods.
#[derive(Default)]
pub struct Restarts {
    requests: BTreeMap<Key, Entry>,
    pods: Pods,
    /// Requests to be looked at now.
    fresh: BTreeSet<Key>,
    /// What was learned of nodes and is not passed on yet.
    learned: Vec<Effect>,
    /// When all requests are looked at, as all pods are.
    all_due: Duration,
    list: u64,
    /// Whether all requests are known.
    listed: bool,
    park: Option<ParkImage>,
    orphans: Orphans,
    defects: Defects<Key>,
}

struct Entry {
    request: RestartRequest,
    memory: Memory,
    retry: Retry,
    due: Option<Duration>,
    /// Whether somebody else carries it out.
    left: bool,
    list: u64,
}

/// A pod that is followed, with when that began.
struct PodEntry {
    sight: Seen,
    /// Whether the list under way has named it.
    listed: bool,
    since: Duration,
}

enum Seen {
    NotYet,
    Absent,
    There(Box<RestartPod>),
}

impl Restarts {
    /// No request is known yet.
    #[must_use]
    pub fn new(park: Option<ParkImage>) -> Self {
        Self { park, ..Self::default() }
    }

    /// How many requests are not completed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The pods that have to be followed.
    pub fn pods(&self) -> impl Iterator<Item = &Key> {
        self.pods.keys()
    }

    /// What the watch of requests tells.
    pub fn hear(&mut self, event: Event<RestartRequestWire>, now: Duration) {
        match event {
            Event::ListStart => {
                self.list += 1;
                self.listed = false;
            }
            Event::Listed(request) | Event::Applied(request) => match read("request", || request.read()) {
                Some(request) => self.apply(request, now),
                None => tracing::warn!("a ContainerRecreateRequest of the watch has no name, namespace or uid; it is left alone"),
            },
            Event::ListEnd => {
                let gone: Vec<_> = self.requests.iter().filter(|(_, entry)| entry.list != self.list).map(|(key, _)| key.clone()).collect();
                gone.iter().for_each(|key| self.forget(key, now));
                self.listed = true;
            }
            Event::Deleted(request) => {
                if let Some(request) = read("request", || request.read()) {
                    self.forget(&(request.namespace, request.name), now);
                }
            }
            // The loop tells of it.
            Event::Current(_) | Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {}
        }
    }

    fn apply(&mut self, request: RestartRequest, now: Duration) {
        let key = (request.namespace.clone(), request.name.clone());
        let pod = pod_key(&request);
        let list = self.list;
        match self.requests.get_mut(&key).filter(|entry| entry.request.uid == request.uid) {
            Some(entry) => {
                entry.request = request;
                entry.list = list;
            }
            None => {
                let entry = Entry { request, memory: Memory::default(), retry: Retry::default(), due: None, left: false, list };
                self.requests.insert(key, entry);
            }
        }
        self.follow(&pod, now);
        self.look_at_requests_of(&pod);
    }

    /// A pod is followed as long as a request needs it.
    fn follow(&mut self, pod: &Key, now: Duration) {
        let mut requests = self.requests.values().map(|entry| &entry.request).filter(|request| pod_key(request) == *pod);
        if requests.any(needs_pod) { self.pods.want(pod, now) } else { self.pods.release(pod, now) }
    }

    /// What the watch of parked pods tells.
    pub fn see_parked(&mut self, event: Event<RestartPodWire>, now: Duration) {
        self.orphans.see(event, now);
    }

    /// What the watch of one pod tells.
    pub fn see(&mut self, key: &Key, event: Event<RestartPodWire>) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        match event {
            Event::ListStart => entry.listed = false,
            Event::Listed(pod) | Event::Applied(pod) => {
                entry.listed = true;
                if let Some(pod) = read("pod", || pod.read()) {
                    entry.sight = Seen::There(Box::new(pod));
                }
            }
            Event::ListEnd if !entry.listed => entry.sight = Seen::Absent,
            Event::Deleted(_) => entry.sight = Seen::Absent,
            Event::Current(_) => return,
            // The loop tells of trouble.
            Event::ListEnd | Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {}
        }
        self.look_at_requests_of(key);
    }

    fn look_at_requests_of(&mut self, pod: &Key) {
        let concerned = self.requests.iter().filter(|(_, entry)| pod_key(&entry.request) == *pod).map(|(key, _)| key.clone());
        self.fresh.extend(concerned.collect::<Vec<_>>());
    }

    /// A request is gone, or nothing is left to be done for it.
    fn forget(&mut self, key: &Key, now: Duration) {
        self.fresh.remove(key);
        let Some(entry) = self.requests.remove(key) else { return };
        let pod = pod_key(&entry.request);
        self.follow(&pod, now);
        self.look_at_requests_of(&pod);
    }

    /// Nobody has to see a pod whose requests somebody else carries out.
    fn give_way(&mut self, pod: &Key, now: Duration) {
        if self.requests.values().filter(|entry| pod_key(&entry.request) == *pod).all(|entry| entry.left) {
            self.pods.give_way(pod, now);
        }
    }

    /// How often a decision has panicked since this was asked the last time.
    pub fn take_defects(&mut self) -> u64 {
        self.defects.take_count() + self.orphans.take_defects()
    }

    /// The next time at which a request is to be looked at although nothing happened.
    #[must_use]
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        let all = (!self.requests.is_empty()).then_some(self.all_due);
        self.requests.values().filter_map(|entry| entry.due).chain(self.orphans.next_due(now)).chain(all).min()
    }

    /// What was learned of nodes since it was asked last.
    pub fn take_learned(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.learned)
    }

    /// The next write, and what is to be told.
    pub fn next_write(&mut self, index: &mut Index, now: Now) -> Option<RestartWrite> {
        let due = self.requests.iter().filter(|(_, entry)| entry.due.is_some_and(|at| at <= now.since_start)).map(|(key, _)| key.clone());
        self.fresh.extend(due.collect::<Vec<_>>());
        if self.all_due <= now.since_start {
            self.all_due = now.since_start + LOOK_AGAIN;
            self.fresh.extend(self.requests.keys().cloned());
        }
        while let Some(key) = self.fresh.pop_first() {
            let Some(decision) = self.decide(&key, index, now) else { continue };
            if let Some(write) = self.begin(&key, decision, index, now) {
                return Some(write);
            }
        }
        if !self.listed {
            return None;
        }
        let requests = self.requests.values().map(|entry| &entry.request);
        self.orphans.next_write(requests, now)
    }

    /// A defect that one request meets costs the others nothing: it is left alone for a while.
    fn decide(&mut self, key: &Key, index: &mut Index, now: Now) -> Option<Decision> {
        if self.defects.is_left_alone(key, now.since_start) {
            return None;
        }
        isolated(&key.1, || self.judge(key, index, now)).unwrap_or_else(|defect| {
            log(KIND, &key.0, &key.1, &defect);
            let again = self.defects.meet(key.clone(), now.since_start);
            if let Some(entry) = self.requests.get_mut(key) {
                entry.due = Some(again);
            }
            None
        })
    }

    fn judge(&mut self, key: &Key, index: &mut Index, now: Now) -> Option<Decision> {
        let Now { since_start, today } = now;
        let request = &self.requests.get(key)?.request;
        let others = self.requests.values().map(|entry| &entry.request).filter(|other| pod_key(other) == pod_key(request));
        let is_first = is_first(request, others);
        let pod = self.pods.get(&pod_key(request));
        let (sight, node) = match pod.map(|entry| (&entry.sight, entry.since)) {
            None | Some((Seen::NotYet, _)) => (Sight::Unseen, None),
            Some((Seen::Absent, _)) => (Sight::Absent, None),
            Some((Seen::There(pod), since)) => {
                self.learned.extend(learn(request, pod, index, since_start));
                (Sight::There(pod), index.node_for_restart(&pod.pod, since, since_start))
            }
        };
        let entry = self.requests.get_mut(key)?;
        let room = |restarts| match sight {
            Sight::There(pod) => index.room_for_restarts(&pod.pod, restarts),
            Sight::Unseen | Sight::Absent => Headroom::TooEarly,
        };
        if let Sight::There(pod) = sight {
            entry.memory.observe(&entry.request, pod, since_start);
        }
        let park = self.park.as_ref();
        let kubelet = match sight {
            Sight::There(pod) => index.kubelet_for_restart(&pod.pod),
            Sight::Unseen | Sight::Absent => None,
        };
        let around = Around { exit_images: index.exit_images(), park, node, kubelet, room: &room, is_first, now: since_start, today };
        let decision = decide(&entry.request, sight, &entry.memory, &around);
        let unseen = matches!(sight, Sight::There(_)) && node.is_none() && decision.reason == Reason::RequestWaits;
        entry.due = decision.again.into_iter().chain(unseen.then(|| since_start + NODE_AGAIN)).min();
        Some(decision)
    }

    fn begin(&mut self, key: &Key, decision: Decision, index: &mut Index, now: Now) -> Option<RestartWrite> {
        let entry = self.requests.get_mut(key)?;
        entry.left = decision.reason == Reason::RequestLeft;
        let Some(action) = decision.action else {
            let pod = pod_key(&entry.request);
            match decision.reason {
                Reason::RequestOver if decision.again.is_none() => self.forget(key, now.since_start),
                Reason::RequestLeft => self.give_way(&pod, now.since_start),
                _ => {}
            }
            return None;
        };
        entry.memory.in_flight = true;
        let request = entry.request.clone();
        let pod = self.pods.get(&pod_key(&request)).and_then(|entry| match &entry.sight {
            Seen::There(pod) => Some(&pod.pod),
            Seen::NotYet | Seen::Absent => None,
        });
        match (&action, pod) {
            (Action::Swap(change), Some(pod)) => index.restarts_begin(pod, change.restarts()),
            (Action::Report(status), Some(pod)) if status.phase == RequestPhase::Completed => index.restarts_end(pod),
            _ => {}
        }
        let pod = pod.map(Target::of);
        Some(RestartWrite { request, pod, action, done: decision.done, today: now.today, is_for_orphan: false })
    }

    /// A write has come back; what is to be told.
    pub fn written(&mut self, write: RestartWrite, outcome: Result<Stored, Outcome>, now: Duration) -> Vec<Notice> {
        if write.is_for_orphan {
            return self.orphans.written(write, outcome, now);
        }
        let key = (write.request.namespace.clone(), write.request.name.clone());
        let Some(entry) = self.requests.get_mut(&key) else { return write.notices() };
        entry.memory.in_flight = false;
        self.fresh.insert(key.clone());
        match outcome {
            Ok(stored) => {
                entry.retry = Retry::default();
                entry.memory.not_before = None;
                self.store(&key, stored, now);
                write.notices()
            }
            Err(outcome) => {
                let (not_before, news) = entry.retry.after(&write, &outcome, now);
                entry.memory.not_before = Some(not_before);
                news
            }
        }
    }

    /// The event of our own write may come later; until then this is what we know to be stored.
    fn store(&mut self, key: &Key, stored: Stored, now: Duration) {
        match stored {
            Stored::Request(request) => {
                if let Some(entry) = self.requests.get_mut(key).filter(|entry| entry.request.uid == request.uid) {
                    entry.request = *request;
                    let pod = pod_key(&entry.request);
                    self.follow(&pod, now);
                }
            }
            Stored::Pod(pod) => {
                let key = (pod.pod.namespace.clone(), pod.pod.name.clone());
                if let Some(entry) = self.pods.get_mut(&key) {
                    entry.sight = Seen::There(pod);
                }
            }
            Stored::Nothing => {}
        }
    }
}

impl RestartWrite {
    fn notices(&self) -> Vec<Notice> {
        self.done.iter().filter_map(|report| self.notice(report.clone())).collect()
    }

    /// What is told is told of the pod, also of one that is gone.
    fn notice(&self, report: Report) -> Option<Notice> {
        let RestartRequest { namespace, pod_name, pod_uid, .. } = &self.request;
        let gone = || Some(Target { kind: TargetKind::Pod, namespace: namespace.clone(), name: pod_name.clone(), uid: pod_uid.clone()? });
        Some(Notice { target: self.pod.clone().or_else(gone)?, report })
    }
}

fn pod_key(request: &RestartRequest) -> Key {
    (request.namespace.clone(), request.pod_name.clone())
}

/// A provider that has failed on a change of ours fails on those for other pods as well.
fn learn(request: &RestartRequest, pod: &RestartPod, index: &mut Index, now: Duration) -> Option<Effect> {
    let changed = |name: &str| {
        let intent = request.mark(name).and_then(|mark| mark.intent.as_ref());
        intent.zip(pod.find(name)).is_some_and(|(intent, (_, container, _))| container.image == intent.to)
    };
    let failed = *pod.pod.reason == *PROVIDER_FAILED && request.containers.iter().any(|wanted| changed(&wanted.name));
    failed.then(|| index.learn_by_restart(&pod.pod, Proved::Rejects, now)).flatten()
}
