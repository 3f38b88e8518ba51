//! The I/O of restarts: the watches, and the writes in flight.

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::parked::PARKED;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::restart::request::RestartRequestWire;
use tokio::sync::mpsc;

use crate::cluster::rules::Common;
use crate::frame::clock::{Now, ServerClock, TimeOfDay};
use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::in_flight::{InFlight, Writes};
use crate::frame::isolated::TaskDied;
use crate::frame::metrics::{Metrics, set};
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::named::NamedWatches;
use crate::frame::watch::served::{Served, watch_served};
use crate::frame::watch::{Event, heard_if};
use crate::frame::writer::Writer;
use crate::frame::writer::leash::Gate;
use crate::frame::writer::report::Notice;
use crate::restart::on_config::RestartOnSettings;
use crate::restart::reconcile::{Key, Restarts};
use crate::restart::write::{RestartWrite, Stored};
use crate::terminate::index::Index;

/// The part of the loop that restarts containers.
pub struct Driver {
    restarts: Restarts,
    requests: Option<mpsc::Receiver<Event<RestartRequestWire>>>,
    parked: Option<mpsc::Receiver<Event<RestartPodWire>>>,
    watches: NamedWatches<Key, RestartPodWire>,
    writes: Writes<RestartWrite, Stored>,
    server_clock: ServerClock,
    started_at: jiff::Timestamp,
}

/// An event for the driver.
pub enum Happened {
    /// An event of the watch of requests.
    Request(Event<RestartRequestWire>),
    /// An event of the watch of one pod.
    Pod(Key, Event<RestartPodWire>),
    /// An event about a pod in which containers are parked.
    Parked(Event<RestartPodWire>),
    /// A write that has finished.
    Written(Box<(RestartWrite, Result<Stored, WriteError>)>),
}

/// The settings of restarts.
#[derive(Clone, Debug)]
pub struct RestartSettings {
    /// Returns the time of day, because deadlines of requests are times of day. Called once, when
    /// the loop begins, and used until an answer of the API server gives its time.
    pub time_of_day: TimeOfDay,
    /// Set if containers are restarted when objects that their pods name change.
    pub on_config: Option<RestartOnSettings>,
    /// True if new pods with the label `swaplet.io/readiness-gate` get the first `True` of the
    /// readiness gate `KruisePodReady`.
    pub readiness_gates: bool,
    /// The image for parking containers whose image has no alias.
    pub park: Option<ParkImage>,
    /// The admission policy without which nothing is restarted; `None` if none is required.
    pub leash: Option<String>,
}

impl Driver {
    /// Starts the watches; without `settings` of restarts, the driver never does anything.
    pub fn start(
        discovery: &Discovery,
        common: &Common,
        settings: Option<&RestartSettings>,
        gate: &Gate,
        ages: &WatchAges,
    ) -> Self {
        let (client, namespaces) = (discovery.client(), &common.namespaces);
        // Containers stay parked until it is known which requests there are, or that there are none.
        let requests = settings.map(|_| {
            let (discovery, namespaces, ages) =
                (discovery.clone(), namespaces.clone(), ages.clone());
            gate.before(move || observe(discovery, namespaces, ages, true))
        });
        // An earlier run may have left a container parked.
        let parked = settings.map(|_| {
            let (pods, ages) = (namespaces.apis::<RestartPodWire>(client), ages.clone());
            let labelled = ListParams::default().labels(PARKED);
            gate.before(move || watch_all(pods, &labelled, &ages))
        });
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
            writes: InFlight::new(common.concurrency, |write| &write.request.namespace),
            server_clock: discovery.clock().clone(),
            started_at: settings.map_or(jiff::Timestamp::UNIX_EPOCH, |settings| {
                settings.time_of_day.now()
            }),
        }
    }

    /// Waits for the next event; forever, if restarts are off.
    ///
    /// # Errors
    /// Returns [`TaskDied`] if a watch has died.
    pub async fn next(&mut self) -> Result<Happened, TaskDied> {
        tokio::select! {
            event = heard_if(&mut self.requests, "requests") => event.map(Happened::Request),
            event = heard_if(&mut self.parked, "parked pods") => event.map(Happened::Parked),
            Some((pod, event)) = self.watches.next() => Ok(Happened::Pod(pod, event)),
            Some(written) = written(&mut self.writes) => Ok(written),
        }
    }

    /// Handles an event; returns what to report.
    pub fn take(&mut self, happened: Happened, metrics: &Metrics, now: Moment) -> Vec<Notice> {
        match happened {
            Happened::Request(event) => {
                metrics.count_trouble(PLURAL, &event);
                self.restarts.handle(event, now);
            }
            Happened::Pod(pod, event) => {
                metrics.count_trouble("pods", &event);
                self.restarts.observe(&pod, event, now);
            }
            Happened::Parked(event) => {
                metrics.count_trouble("pods", &event);
                self.restarts.observe_parked(event, now);
            }
            Happened::Written(written) => {
                let (write, outcome) = *written;
                log(&write, &outcome);
                return self.restarts.written(write, outcome, now);
            }
        }
        Vec::new()
    }

    /// Starts the writes that are pending, and watches the pods that are needed.
    pub fn advance(
        &mut self,
        index: &mut Index,
        writer: &Writer,
        metrics: &Metrics,
        moment: Moment,
    ) {
        let now = Now {
            moment,
            today: self.server_clock.or_ours(self.started_at, moment),
        };
        self.restarts.begin_turn(moment);
        while let Some(write) = self
            .writes
            .turn(|may_begin| self.restarts.next_write(index, now, may_begin))
        {
            self.writes.begin(writer.clone(), write, |writer, write| {
                Box::pin(writer.restart(write))
            });
        }
        if let Some(pods) = self.restarts.pods() {
            self.watches.follow(pods);
        }
        metrics.decisions_failed(self.restarts.take_defects());
        set(&metrics.requests, self.restarts.len());
        // Headroom that a restart has released may be granted to waiting pods.
        index.reconcile_woken(moment);
    }

    /// Returns the next time at which there is work without an event.
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        self.restarts.next_due(now)
    }

    /// Waits for a write in flight to finish; `None` if there is none.
    pub async fn drain(&mut self) -> Option<Happened> {
        written(&mut self.writes).await
    }
}

/// Starts the watch of requests once the API server serves them, in some namespaces or in all;
/// `ages` records the ages of the watches. With `reports_absence` an empty list also shows that the
/// kind is not served from the start. The stream ends only when the receiver is dropped, or a watch
/// has died.
pub(crate) fn observe(
    discovery: Discovery,
    namespaces: Namespaces,
    ages: WatchAges,
    reports_absence: bool,
) -> mpsc::Receiver<Event<RestartRequestWire>> {
    let served = Served {
        plural: PLURAL,
        is_ours_alone: false,
        reports_absence,
    };
    watch_served(discovery, served, move |discovery| {
        watch_all(
            namespaces.apis(discovery.client()),
            &ListParams::default(),
            &ages,
        )
    })
}

/// Watches single pods, because the watch of Job pods leaves out `restartPolicy: Always`.
fn watches_of_pods(client: Client, ages: WatchAges) -> NamedWatches<Key, RestartPodWire> {
    NamedWatches::new(ages, move |pod: &Key, listener| {
        listener.watch(Api::namespaced(client.clone(), &pod.0), &pod.1, |pod| pod)
    })
}

async fn written(writes: &mut Writes<RestartWrite, Stored>) -> Option<Happened> {
    let (write, outcome, _) = writes.next().await?;
    Some(Happened::Written(Box::new((write, outcome))))
}

fn log(write: &RestartWrite, outcome: &Result<Stored, WriteError>) {
    let (namespace, request) = (&write.request.namespace, &write.request.name);
    match outcome {
        Ok(_) => {}
        Err(WriteError::Conflict | WriteError::Gone) => {
            tracing::debug!(%namespace, %request, "what was read has changed; nothing was written");
        }
        // Reported once for all retries, by the Event `WriteDenied`.
        Err(WriteError::Denied(error)) => {
            tracing::debug!(%namespace, %request, error, "the write was denied; trying again later")
        }
        Err(WriteError::Failed { error, .. }) => {
            tracing::warn!(%namespace, %request, error, "the write was not applied; trying again later");
        }
    }
}
