//! The state of the loop, without any I/O and without a clock: all requests to restart containers
//! that are not completed, each with its memory, and their pods. As for pods in
//! [`crate::terminate::index`], an event only enqueues a request.

pub(super) mod by_pod;
mod judge;
mod observe;
mod orphans;
mod pods;
mod retry;
#[cfg(test)]
mod tests;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::recreate_request::{KIND, RequestPhase};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::{Action, Decision, Memory, ParkImage};
use swaplet_core::restart::request::RestartRequest;

use super::write::RestartWrite;
use crate::frame::clock::Now;
use crate::frame::isolated::defects::{Defects, log};
use crate::frame::isolated::isolated;
use crate::frame::queue::{FairQueue, LOOK_AGAIN, pop_due, reschedule};
use crate::frame::watch::mirror::Mirror;
use crate::frame::writer::Target;
use crate::terminate::index::{Effect, Index};
use by_pod::{ByPod, Key, pod_key};
use orphans::Orphans;
use pods::Pods;
use retry::Retry;

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
    requests: BTreeMap<Key, Entry>,
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
    /// What was learned about nodes and reports about parked containers, not passed on yet.
    learned: Vec<Effect>,
    /// The time of the next reconcile of all requests.
    all_due: Moment,
    mirror: Mirror<Key>,
    park: Option<ParkImage>,
    orphans: Orphans,
    defects: Defects<Key>,
}

struct Entry {
    request: RestartRequest,
    memory: Memory,
    retry: Retry,
    due: Option<Moment>,
}

impl Restarts {
    /// Returns a state without requests; `nodes_tell` is true if there are nodes whose vendor does
    /// not handle requests with OpenKruise's label for virtual nodes.
    #[must_use]
    pub fn new(park: Option<ParkImage>, nodes_tell: bool) -> Self {
        Self {
            park,
            by_pod: ByPod::new(nodes_tell),
            ..Self::default()
        }
    }

    /// Returns the number of requests that are not completed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns true if there is no such request.
    #[must_use]
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
    #[must_use]
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

    /// Returns what was learned about nodes since the last call.
    pub fn take_learned(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.learned)
    }

    /// Begins a turn of the loop: enqueues the requests that are due.
    pub fn begin_turn(&mut self, now: Moment) {
        self.turns = AT_A_TIME;
        self.orphans.begin_turn(now);
        while let Some(key) = pop_due(&mut self.due, now) {
            if let Some(entry) = self.requests.get_mut(&key) {
                entry.due = None;
            }
            self.enqueue(key);
        }
        if self.all_due <= now {
            self.all_due = now + LOOK_AGAIN;
            let all: Vec<_> = self.requests.keys().cloned().collect();
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
                .contains_key(&key)
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
        if !self.mirror.is_complete() || self.mirror.is_listing() {
            return None;
        }
        let (requests, by_pod) = (&self.requests, &self.by_pod);
        let of_pod = |pod: &Key, named: &str| {
            let names = once(named).chain(by_pod.names(pod).map(|name| &**name).take(MOST_ASKED));
            names
                .filter_map(|name| requests.get(&(pod.0.clone(), name.into())))
                .map(|entry| &entry.request)
                .collect()
        };
        let write = self
            .orphans
            .next_write(of_pod, self.park.as_ref(), now, may_begin);
        self.learned.extend(self.orphans.take_news());
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
        let Some(entry) = self.requests.get_mut(key) else {
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
        let entry = self.requests.get_mut(key)?;
        let all_are_left = self
            .by_pod
            .leave(&entry.request, decision.reason == Reason::RequestLeft);
        let Some(action) = decision.action else {
            let pod = pod_key(&entry.request);
            match decision.reason {
                Reason::RequestOver if decision.again.is_none() => self.forget(key, now.moment),
                // A pod whose requests somebody else carries out need not be watched.
                Reason::RequestLeft if all_are_left => self.pods.yield_slot(&pod, now.moment),
                _ => {}
            }
            return None;
        };
        entry.memory.in_flight = true;
        let request = entry.request.clone();
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
