//! The first `True` of the readiness gate `KruisePodReady`, for the pods that have its label. The
//! decision is in [`readiness_gate`](swaplet_core::restart::readiness_gate).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::readiness_gate::{READINESS_GATE, first_readiness};
use swaplet_core::restart::reconcile::Readiness;
use tokio::time::sleep_until;

use super::driver::RestartSettings;
use crate::frame::clock::Clock;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::isolated::TaskDied;
use crate::frame::isolated::defects::read;
use crate::frame::watch::Event;
use crate::frame::watch::many::watch_all_selected;
use crate::frame::writer::tools::Tools;
use crate::frame::writer::{Outcome, Target};

/// The right to watch pods.
const SEE_PODS: &str = "new pods with the readiness gate KruisePodReady stay not Ready, because pods cannot be watched";
/// The right to patch the status of pods.
const OPEN: &str = "new pods with the readiness gate KruisePodReady stay not Ready, because their status cannot be written";
/// The backoff after failures of the API server.
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(15),
};
/// The wait after a denial: an administrator has to change something.
const DENIED_RETRY: Duration = Duration::from_secs(60);
/// The longest pause of a loop that has nothing to wait for.
const IDLE: Duration = Duration::from_secs(3600);

/// Runs the loop; returns only with the reason why it cannot continue.
pub(crate) async fn run(
    client: &Client,
    namespaces: &Namespaces,
    settings: &RestartSettings,
    tools: Tools,
) -> TaskDied {
    let labelled = ListParams::default().labels(READINESS_GATE);
    let ages = &tools.metrics.watch_ages;
    let mut pods = watch_all_selected(namespaces.apis(client), &labelled, ages);
    let mut gates = Gates {
        clock: Clock::start(),
        settings: settings.clone(),
        tools,
        waiting: BTreeMap::new(),
        due: BTreeSet::new(),
    };
    loop {
        let next = gates.due.first().map(|(at, _)| *at);
        let next = next.unwrap_or_else(|| gates.clock.now() + IDLE);
        let due = gates.clock.instant(next);
        tokio::select! {
            event = pods.recv() => match event {
                Some(event) => gates.observe(event),
                None => return TaskDied::of("the watch of pods with the readiness gate"),
            },
            () = sleep_until(due) => gates.open_first().await,
        }
    }
}

type Uid = Box<str>;

struct Gates {
    clock: Clock,
    settings: RestartSettings,
    tools: Tools,
    /// The pods whose gate must be opened.
    waiting: BTreeMap<Uid, Waiting>,
    /// The time of each pod's turn.
    due: BTreeSet<(Duration, Uid)>,
}

struct Waiting {
    target: Target,
    readiness: Readiness,
    at: Duration,
    failures: u32,
}

impl Gates {
    fn observe(&mut self, event: Event<RestartPodWire>) {
        self.tools.health.note_watch(SEE_PODS, "", &event);
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
            Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {
                self.tools.metrics.watch_trouble("pods");
            }
            // A pod that is no longer listed is found to be gone when it has its turn.
            Event::ListStart | Event::ListEnd | Event::Current(_) => {}
        }
    }

    fn observe_pod(&mut self, pod: &RestartPod) {
        let before = self.forget(&pod.pod.uid);
        let Some(readiness) = first_readiness(pod) else {
            return;
        };
        let (at, failures) = match before {
            Some(before) => (before.at, before.failures),
            None => (self.clock.now(), 0),
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
        self.due.insert((pod.at, uid.clone()));
        self.waiting.insert(uid, pod);
    }

    fn forget(&mut self, uid: &Uid) -> Option<Waiting> {
        let pod = self.waiting.remove(uid)?;
        self.due.remove(&(pod.at, uid.clone()));
        Some(pod)
    }

    /// Writes the gate of the first pod that is due.
    async fn open_first(&mut self) {
        let now = self.clock.now();
        let first = self.due.first().filter(|(at, _)| *at <= now);
        let Some((_, uid)) = first.cloned() else {
            return;
        };
        let Some(mut pod) = self.forget(&uid) else {
            return;
        };
        let today = (self.settings.time_of_day)();
        let writer = &self.tools.writer;
        let wait = match writer
            .set_first_readiness(&pod.target, &pod.readiness, today)
            .await
        {
            Ok(()) => {
                self.tools.health.has_in(OPEN, &pod.target.namespace);
                return;
            }
            // The watch shows what has become of it.
            Err(Outcome::Conflict | Outcome::Gone | Outcome::Applied(_)) => return,
            Err(Outcome::Denied(words)) => {
                let health = &self.tools.health;
                health.note_denial(OPEN, &pod.target.namespace, &words);
                DENIED_RETRY
            }
            Err(Outcome::Failed { retry_after, .. }) => RETRY
                .after(pod.failures)
                .max(retry_after.unwrap_or_default()),
        };
        pod.failures += 1;
        pod.at = self.clock.now() + wait;
        self.wait(pod);
    }
}
