//! The first `True` of the readiness gate `KruisePodReady`, for the pods that have its label. The
//! decision is in [`readiness_gate`](swaplet_core::restart::readiness_gate).

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use kube::api::ListParams;
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::readiness_gate::{READINESS_GATE, first_readiness};
use swaplet_core::restart::reconcile::Readiness;
use tokio::time::sleep_until;

use super::driver::RestartSettings;
use crate::cluster::rules::Beside;
use crate::frame::clock::{Clock, IDLE};
use crate::frame::in_flight::{InFlight, Writes};
use crate::frame::isolated::{TaskDied, read};
use crate::frame::queue::reschedule;
use crate::frame::serve::rights::Right;
use crate::frame::store::{Key, Store};
use crate::frame::watch::many::watch_all;
use crate::frame::watch::{Event, heard};
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
        waiting: Store::default(),
        due: Due::new(),
        writes: InFlight::new(AT_ONCE, |(pod, _)| &pod.namespace),
        rests: BTreeMap::new(),
    };
    loop {
        heartbeat.beat();
        // One time for both, so that no pod gets due between them.
        let now = gates.clock.now();
        gates.begin_writes(now);
        let due = gates.clock.instant(gates.next_due(now));
        tokio::select! {
            event = heard(&mut pods, "pods with the readiness gate") => gates.observe(event?),
            Some(((pod, before), outcome, _)) = gates.writes.next() => gates.written(pod, &before, outcome),
            () = sleep_until(due) => {}
            () = heartbeat.due() => {}
        }
    }
}

/// The time of each pod's turn, by namespace; pods with a write in flight are not among them.
type Due = BTreeMap<Box<str>, BTreeSet<(Moment, Key)>>;

struct Gates {
    clock: Clock,
    settings: RestartSettings,
    tools: Tools,
    /// The pods whose gate must be opened.
    waiting: Store<(Target, Readiness), Turn>,
    due: Due,
    /// The writes in flight, each with what its pod showed when it was decided.
    writes: Writes<(Target, Readiness), ()>,
    /// The uids of pods that were written within a minute, and until when they rest.
    rests: BTreeMap<Box<str>, Moment>,
}

/// When a pod has its turn.
#[derive(Default)]
struct Turn {
    /// `None` while a write is in flight.
    at: Option<Moment>,
    failures: u32,
}

impl Turn {
    fn set(&mut self, at: Option<Moment>, key: &Key, all: &mut Due) {
        let due = all.entry(key.0.clone()).or_default();
        reschedule(due, key, &mut self.at, at);
        if due.is_empty() {
            all.remove(&key.0);
        }
    }
}

impl Gates {
    fn observe(&mut self, event: Event<RestartPodWire>) {
        self.tools.note_watch(Right::WatchGatedPods, "", &event);
        let now = self.clock.now();
        let read = |pod: RestartPodWire| {
            let pod = read("pod", || pod.read())?;
            Some((Target::of(&pod.pod), first_readiness(&pod)?))
        };
        let changes = self.waiting.observe(event, now, read);
        for (key, _, mut turn) in changes.gone {
            turn.set(None, &key, &mut self.due);
        }
        if let Some((key, None)) = changes.put
            && let Some(((target, _), turn)) = self.waiting.get_mut(&key)
        {
            let rests = self.rests.get(&target.uid);
            let at = rests.map_or(now, |until| now.max(*until));
            turn.set(Some(at), &key, &mut self.due);
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some((_, mut turn)) = self.waiting.forget(key) {
            turn.set(None, key, &mut self.due);
        }
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
        loop {
            let next = self.writes.turn(|may_begin| {
                let due = self.due.iter();
                let allowed = due.filter(|(namespace, _)| may_begin(namespace));
                let first = allowed.filter_map(|(_, due)| due.first()).min();
                first.filter(|(at, _)| *at <= now).cloned()
            });
            let Some((_, key)) = next else { return };
            let Some((pod, turn)) = self.waiting.get_mut(&key) else {
                return;
            };
            turn.set(None, &key, &mut self.due);
            let (writer, today) = (self.tools.writer.clone(), self.settings.time_of_day.now());
            self.writes
                .begin(writer, pod.clone(), move |writer, (pod, readiness)| {
                    Box::pin(writer.set_first_readiness(pod, readiness, today))
                });
        }
    }

    fn written(&mut self, pod: Target, before: &Readiness, outcome: Result<(), WriteError>) {
        let (now, health) = (self.clock.now(), &self.tools.health);
        let wait = match outcome {
            Ok(()) => {
                health.has_in(Right::OpenReadinessGates, &pod.namespace);
                // The watch shows the condition soon. A virtual kubelet may take it away again.
                self.rests.insert(pod.uid.clone(), now + WRITTEN_AGAIN);
                Some(WRITTEN_AGAIN)
            }
            // The watch is yet to show what has become of it, or has shown it.
            Err(WriteError::Gone | WriteError::Conflict) => None,
            Err(WriteError::Denied(words)) => {
                health.note_denial(Right::OpenReadinessGates, &pod.namespace, &words);
                Some(DENIED_RETRY)
            }
            Err(WriteError::Failed { retry_after, .. }) => Some(retry_after.unwrap_or_default()),
        };
        // Another pod may have its name.
        let (key, uid) = ((pod.namespace, pod.name), pod.uid);
        let waiting = self.waiting.get_mut(&key);
        let Some(((_, readiness), turn)) = waiting.filter(|((pod, _), _)| pod.uid == uid) else {
            return;
        };
        let is_shown = readiness.version != before.version;
        let Some(wait) = wait.or(is_shown.then_some(Duration::ZERO)) else {
            return self.forget(&key);
        };
        let at = now + wait.max(RETRY.after(turn.failures));
        turn.failures += 1;
        turn.set(Some(at), &key, &mut self.due);
    }
}
