//! The first `True` of the readiness gate `KruisePodReady`, for the pods that have its label. The
//! decision is in [`readiness_gate`](swaplet_core::restart::readiness_gate).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use kube::api::ListParams;
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::readiness_gate::{READINESS_GATE, first_readiness};
use swaplet_core::restart::reconcile::Readiness;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::driver::RestartSettings;
use crate::cluster::rules::Beside;
use crate::frame::clock::{Clock, IDLE};
use crate::frame::isolated::{TaskDied, finished, read};
use crate::frame::serve::rights::Right;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::{Event, heard};
use crate::frame::writer::shares::Shares;
use crate::frame::writer::{RETRY, Target, Tools};

/// The maximum number of writes in flight.
const AT_ONCE: usize = 8;
/// The wait until a pod that still shows no condition is written again.
const WRITTEN_AGAIN: Duration = Duration::from_secs(60);
/// The wait after a denial: an administrator has to change something.
const DENIED_RETRY: Duration = Duration::from_secs(60);

/// Runs the loop; returns only with the reason why it cannot continue.
pub(crate) async fn run(beside: Beside, settings: RestartSettings) -> Result<Infallible, TaskDied> {
    let (namespaces, tools) = (beside.common.namespaces, beside.tools);
    let mut heartbeat = tools.health.heartbeat("readiness gates");
    let labelled = ListParams::default().labels(READINESS_GATE);
    let ages = &tools.metrics.watch_ages;
    let mut pods = watch_all(namespaces.apis(beside.discovery.client()), &labelled, ages);
    let mut gates = Gates {
        clock: Clock::start(),
        settings,
        tools,
        waiting: BTreeMap::new(),
        due: BTreeMap::new(),
        writes: JoinSet::new(),
        in_flight: BTreeSet::new(),
        rests: BTreeMap::new(),
        shares: Shares::default(),
    };
    loop {
        heartbeat.beat();
        // One time for both, so that no pod gets due between them.
        let now = gates.clock.now();
        gates.begin_writes(now);
        let due = gates.clock.instant(gates.next_due(now));
        tokio::select! {
            event = heard(&mut pods, "pods with the readiness gate") => gates.observe(event?),
            written = finished(&mut gates.writes, "a write of a readiness gate") => gates.written(written?),
            () = sleep_until(due) => {}
            () = heartbeat.due() => {}
        }
    }
}

type Uid = Box<str>;

/// The pod, its version when the write was decided, and the outcome.
type Written = (Target, Box<str>, Result<(), WriteError>);

struct Gates {
    clock: Clock,
    settings: RestartSettings,
    tools: Tools,
    /// The pods whose gate must be opened.
    waiting: BTreeMap<Uid, Waiting>,
    /// The time of each pod's turn, by namespace; pods with a write in flight are not among them.
    due: BTreeMap<Box<str>, BTreeSet<(Moment, Uid)>>,
    writes: JoinSet<Written>,
    /// The pods with a write in flight.
    in_flight: BTreeSet<Uid>,
    /// The pods that were written within a minute, and until when they rest.
    rests: BTreeMap<Uid, Moment>,
    shares: Shares,
}

struct Waiting {
    target: Target,
    readiness: Readiness,
    at: Moment,
    failures: u32,
}

impl Gates {
    fn observe(&mut self, event: Event<RestartPodWire>) {
        self.tools.note_watch(Right::WatchGatedPods, "", &event);
        match event {
            Event::Listed(pod) | Event::Applied(pod) => {
                if let Some(pod) = read("pod", || pod.read()) {
                    self.observe_pod(&pod);
                }
            }
            Event::Deleted(pod) => {
                if let Some(pod) = read("pod", || pod.read()) {
                    self.forget(&pod.pod.uid);
                }
            }
            // A pod that is no longer listed is found to be gone when it has its turn.
            _ => {}
        }
    }

    fn observe_pod(&mut self, pod: &RestartPod) {
        let before = self.forget(&pod.pod.uid);
        let Some(readiness) = first_readiness(pod) else {
            return;
        };
        let (at, failures) = match before {
            Some(before) => (before.at, before.failures),
            None => {
                let (now, rests) = (self.clock.now(), self.rests.get(&pod.pod.uid));
                (rests.map_or(now, |until| now.max(*until)), 0)
            }
        };
        self.wait(Waiting {
            target: Target::of(&pod.pod),
            readiness,
            at,
            failures,
        });
    }

    fn wait(&mut self, pod: Waiting) {
        let uid = pod.target.uid.clone();
        if !self.in_flight.contains(&uid) {
            let due = self.due.entry(pod.target.namespace.clone()).or_default();
            due.insert((pod.at, uid.clone()));
        }
        self.waiting.insert(uid, pod);
    }

    fn forget(&mut self, uid: &Uid) -> Option<Waiting> {
        let pod = self.waiting.remove(uid)?;
        if let Entry::Occupied(mut due) = self.due.entry(pod.target.namespace.clone()) {
            due.get_mut().remove(&(pod.at, uid.clone()));
            if due.get().is_empty() {
                due.remove();
            }
        }
        Some(pod)
    }

    /// Returns the next time at which a write may begin without an event. A pod that is due and has
    /// to wait for its share does so until a write finishes.
    fn next_due(&self, now: Moment) -> Moment {
        let first = self.due.values().filter_map(BTreeSet::first);
        let next = first.map(|(at, _)| *at).filter(|at| *at > now).min();
        next.unwrap_or(now + IDLE)
    }

    /// Begins the writes that are due, as far as there is room for their namespaces.
    fn begin_writes(&mut self, now: Moment) {
        self.rests.retain(|_, until| *until > now);
        while self.writes.len() < AT_ONCE {
            let next = self.shares.next(AT_ONCE, now, |may_begin| {
                let allowed = self
                    .due
                    .iter()
                    .filter(|(namespace, _)| may_begin(namespace));
                let first = allowed.filter_map(|(_, due)| due.first()).min();
                first.filter(|(at, _)| *at <= now).cloned()
            });
            let Some(pod) = next.and_then(|(_, uid)| self.forget(&uid)) else {
                return;
            };
            self.shares.began(&pod.target.namespace);
            let (target, readiness) = (pod.target.clone(), pod.readiness.clone());
            let writer = self.tools.writer.clone();
            let today = self.settings.time_of_day.now();
            self.writes.spawn(async move {
                let outcome = writer.set_first_readiness(&target, &readiness, today).await;
                (target, readiness.version, outcome)
            });
            self.in_flight.insert(pod.target.uid.clone());
            self.wait(pod);
        }
    }

    fn written(&mut self, (pod, version, outcome): Written) {
        let (now, health) = (self.clock.now(), &self.tools.health);
        self.in_flight.remove(&pod.uid);
        self.shares.finished(&pod.namespace, &outcome, now);
        let wait = match outcome {
            Ok(()) => {
                health.has_in(Right::OpenReadinessGates, &pod.namespace);
                // The watch shows the condition soon. A virtual kubelet may take it away again.
                self.rests.insert(pod.uid.clone(), now + WRITTEN_AGAIN);
                WRITTEN_AGAIN
            }
            Err(WriteError::Gone) => return drop(self.forget(&pod.uid)),
            Err(WriteError::Conflict) => {
                let waiting = self.waiting.get(&pod.uid);
                // The watch is yet to show what has become of it; another pod may have its name.
                if waiting.is_some_and(|waiting| waiting.readiness.version == version) {
                    return drop(self.forget(&pod.uid));
                }
                Duration::ZERO
            }
            Err(WriteError::Denied(words)) => {
                health.note_denial(Right::OpenReadinessGates, &pod.namespace, &words);
                DENIED_RETRY
            }
            Err(WriteError::Failed { retry_after, .. }) => retry_after.unwrap_or_default(),
        };
        if let Some(mut pod) = self.forget(&pod.uid) {
            pod.at = now + wait.max(RETRY.after(pod.failures));
            pod.failures += 1;
            self.wait(pod);
        }
    }
}
