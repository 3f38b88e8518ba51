//! The I/O of restarts: the watches, and the writes under way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Client};
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::restart::request::RestartRequestWire;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use crate::cluster::rules::Common;
use crate::frame::clock::Now;
use crate::frame::clock::server::ServerClock;
use crate::frame::connection::discovery::Discovery;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::isolated::TaskDied;
use crate::frame::metrics::Metrics;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::named::NamedWatches;
use crate::frame::writer::leash::Gate;
use crate::frame::writer::report::Notice;
use crate::frame::writer::{Outcome, Writer};
use crate::restart::observe::{observe, observe_parked};
use crate::restart::on_config::RestartOnSettings;
use crate::restart::reconcile::Restarts;
use crate::restart::reconcile::by_pod::Key;
use crate::restart::write::{RestartWrite, Stored};
use crate::terminate::index::{Effect, Index};

type Written = (RestartWrite, Result<Stored, Outcome>);

/// Everything about restarts that the loop has.
pub struct Driver {
    restarts: Restarts,
    requests: mpsc::Receiver<Event<RestartRequestWire>>,
    parked: mpsc::Receiver<Event<RestartPodWire>>,
    watches: NamedWatches<Key, RestartPodWire>,
    writes: JoinSet<Written>,
    server_clock: ServerClock,
    started_at: jiff::Timestamp,
    concurrency: usize,
}

/// What has happened.
pub enum Happened {
    /// To a request.
    Request(Event<RestartRequestWire>),
    /// To a pod.
    Pod(Key, Event<RestartPodWire>),
    /// To a pod in which containers are parked.
    Parked(Event<RestartPodWire>),
    /// A write has come back.
    Written(Box<Written>),
}

/// What restarts need of the installation.
#[derive(Clone)]
pub struct RestartSettings {
    /// Tells the time of day, for deadlines of requests are times of day. Asked once, whenever the
    /// loop begins, and used as long as the API server has not said which time it is.
    pub time_of_day: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    /// Whether containers are restarted when objects change that their pods name.
    pub on_config: Option<RestartOnSettings>,
    /// Whether new pods with the label `swaplet.io/readiness-gate` are given the first `True` of the
    /// readiness gate `KruisePodReady`.
    pub readiness_gates: bool,
    /// The image in which containers are parked whose image has no alias.
    pub park: Option<ParkImage>,
    /// The leash without which nothing is restarted; `None` where none is needed.
    pub leash: Option<String>,
}

impl fmt::Debug for RestartSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RestartSettings")
            .field("on_config", &self.on_config)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// Looks for requests; does nothing ever where there are no `settings` of restarts.
    #[must_use]
    pub fn start(
        discovery: &Discovery,
        common: &Common,
        settings: Option<&RestartSettings>,
        gate: &Gate,
        ages: &WatchAges,
    ) -> Self {
        let client = discovery.client();
        let (requests, parked) = match settings {
            Some(_) => watches(discovery, &common.namespaces, gate, ages),
            None => (nothing(), nothing()),
        };
        Self {
            restarts: Restarts::new(
                settings.and_then(|settings| settings.park.clone()),
                common
                    .rules
                    .node_table
                    .rows()
                    .iter()
                    .any(|row| !row.vendor_restarts),
            ),
            requests,
            parked,
            watches: watches_of_pods(client.clone(), ages.clone()),
            writes: JoinSet::new(),
            server_clock: discovery.clock().clone(),
            started_at: settings.map_or(jiff::Timestamp::UNIX_EPOCH, |settings| {
                (settings.time_of_day)()
            }),
            concurrency: common.concurrency,
        }
    }

    /// The next thing that happens; never, where requests are not wanted.
    ///
    /// # Errors
    /// [`TaskDied`]
    pub async fn next(&mut self) -> Result<Happened, TaskDied> {
        tokio::select! {
            event = self.requests.recv() => event.map(Happened::Request).ok_or_else(|| TaskDied("the watch of requests".to_owned())),
            event = self.parked.recv() => event.map(Happened::Parked).ok_or_else(|| TaskDied("the watch of parked pods".to_owned())),
            Some((pod, event)) = self.watches.next() => Ok(Happened::Pod(pod, event)),
            Some(done) = self.writes.join_next() => written(done),
        }
    }

    /// Takes notice of it; what is to be told.
    pub fn take(&mut self, happened: Happened, metrics: &Metrics, now: Duration) -> Vec<Notice> {
        match happened {
            Happened::Request(event) => {
                note_trouble(&event, PLURAL, metrics);
                self.restarts.hear(event, now);
                Vec::new()
            }
            Happened::Pod(pod, event) => {
                note_trouble(&event, "pods", metrics);
                self.restarts.see(&pod, event);
                Vec::new()
            }
            Happened::Parked(event) => {
                note_trouble(&event, "pods", metrics);
                self.restarts.see_parked(event, now);
                Vec::new()
            }
            Happened::Written(written) => {
                let (write, outcome) = *written;
                log(&write, &outcome);
                self.restarts.written(write, outcome, now)
            }
        }
    }

    /// Starts the writes that are to be made now, and follows the pods that are needed; what was
    /// learned of nodes.
    pub fn go_on(
        &mut self,
        index: &mut Index,
        writer: &Writer,
        metrics: &Metrics,
        since_start: Duration,
    ) -> Vec<Effect> {
        let by_our_clock = || {
            self.started_at
                .checked_add(since_start)
                .unwrap_or(jiff::Timestamp::MAX)
        };
        let now = Now {
            since_start,
            today: self.server_clock.now().unwrap_or_else(by_our_clock),
        };
        self.restarts.begin_turn(since_start);
        while self.writes.len() < self.concurrency {
            let Some(write) = self.restarts.next_write(index, now) else {
                break;
            };
            let writer = writer.clone();
            self.writes.spawn(async move {
                let outcome = writer.restart(&write).await;
                (write, outcome)
            });
        }
        if let Some(pods) = self.restarts.pods() {
            self.watches.follow(pods);
        }
        metrics.decisions_failed(self.restarts.take_defects());
        metrics
            .requests
            .set(i64::try_from(self.restarts.len()).unwrap_or(i64::MAX));
        let mut effects = self.restarts.take_learned();
        // Room that a restart has given back is somebody's.
        effects.extend(index.look_at_woken(since_start));
        effects
    }

    /// When to look again if nothing happens.
    #[must_use]
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        self.restarts.next_due(now)
    }

    /// Waits for the writes under way: what has happened, until there is none.
    ///
    /// # Errors
    /// [`TaskDied`]
    pub async fn drain(&mut self) -> Result<Option<Happened>, TaskDied> {
        self.writes.join_next().await.map(written).transpose()
    }
}

type Watches = (
    mpsc::Receiver<Event<RestartRequestWire>>,
    mpsc::Receiver<Event<RestartPodWire>>,
);

/// Of requests, and of pods in which containers are parked: an earlier life may have left one so.
fn watches(
    discovery: &Discovery,
    namespaces: &Namespaces,
    gate: &Gate,
    ages: &WatchAges,
) -> Watches {
    let everything = || (discovery.clone(), namespaces.clone(), ages.clone());
    let (discovery, namespaces, noted) = everything();
    let requests = gate.before(move || observe(discovery, namespaces, noted));
    let (discovery, namespaces, noted) = everything();
    let parked = gate.before(move || observe_parked(discovery.client(), &namespaces, &noted));
    (requests, parked)
}

/// Pods that restart always are not in the watch of pods.
fn watches_of_pods(client: Client, ages: WatchAges) -> NamedWatches<Key, RestartPodWire> {
    NamedWatches::new(ages, move |pod: &Key, listener| {
        listener.watch(Api::namespaced(client.clone(), &pod.0), &pod.1, |pod| pod)
    })
}

/// A stream on which nothing ever comes, and that does not end.
fn nothing<T: Send + 'static>() -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move { sender.closed().await });
    receiver
}

fn written(done: Result<Written, JoinError>) -> Result<Happened, TaskDied> {
    done.map(|written| Happened::Written(Box::new(written)))
        .map_err(|error| TaskDied(format!("a write of a restart: {error}")))
}

fn note_trouble<K>(event: &Event<K>, resource: &'static str, metrics: &Metrics) {
    if matches!(
        event,
        Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_)
    ) {
        metrics.watch_trouble(resource);
    }
}

fn log(write: &RestartWrite, outcome: &Result<Stored, Outcome>) {
    let (namespace, request) = (&write.request.namespace, &write.request.name);
    match outcome {
        Ok(_) | Err(Outcome::Applied(_)) => {}
        Err(Outcome::Conflict | Outcome::Gone) => {
            tracing::debug!(%namespace, %request, "what was read has changed; nothing was written");
        }
        // Told once for all tries, by the Event `WriteDenied`.
        Err(Outcome::Denied(error)) => {
            tracing::debug!(%namespace, %request, error, "the write was denied; trying again later")
        }
        Err(Outcome::Failed { error, .. }) => {
            tracing::warn!(%namespace, %request, error, "the write was not applied; trying again later");
        }
    }
}
