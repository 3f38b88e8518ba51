//! The I/O of pull jobs: the watches, and the writes in flight.

mod image_waits;
mod in_turn;
mod observe;
mod observe_caches;
mod rights;

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::pod::{JOB, WarmerPodWire};
use swaplet_core::warm::pull_job::object::JobKind;
use swaplet_core::warm::warming::Pulled;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;
use tokio::time::{sleep, sleep_until};

use self::image_waits::ImageWaitsWatch;
use self::in_turn::Writes;
use self::observe::{SharedManager, observe};
use self::observe_caches::observe_caches;
use self::rights::note_rights;
use super::caches::CacheNews;
use super::{Happened, PodQuery, PullAnswer, PullJobs, PullWrite, WarmSettings};
use crate::cluster::rules::Common;
use crate::frame::clock::{Clock, IDLE, Now, ServerClock};
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::TaskDied;
use crate::frame::metrics::Metrics;
use crate::frame::serve::rights::Right;
use crate::frame::serve::{Health, Heartbeat};
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::named::NamedWatches;
use crate::frame::watch::{Event, next_of, watch};
use crate::frame::writer::report::Reporter;
use crate::frame::writer::tools::Tools;
use crate::warm::derived::Derived;
use crate::warm::direct::{PULLED, PullEvent};
use crate::warm::predownload::OwnJobs;

/// The time for which events are collected, because a decision considers all jobs and nodes.
const TOGETHER: Duration = Duration::from_millis(50);

/// Runs the loop of pull jobs; returns only with the reason why it cannot continue. If it is
/// dropped, the next run of the process continues. `asked` has the requests of other tasks.
pub(crate) async fn run(
    discovery: Discovery,
    common: Common,
    warm: WarmSettings,
    asked: AskedInside,
    tools: Tools,
) -> TaskDied {
    let mut heartbeat = tools.health.heartbeat("jobs that pull images");
    let mut driver = Driver::new(&discovery, &common, warm, asked, tools);
    loop {
        heartbeat.beat();
        if let Err(died) = driver.reconcile(&mut heartbeat).await {
            return died;
        }
    }
}

/// The images that other tasks of this process request.
pub(crate) struct AskedInside {
    /// The exit images that have been derived so far.
    pub derived: watch::Receiver<Derived>,
    /// The pre-downloads without an object.
    pub own: watch::Receiver<OwnJobs>,
}

type Written = (PullWrite, PullAnswer);

struct Driver {
    clock: Clock,
    server_clock: ServerClock,
    started_at: jiff::Timestamp,
    jobs: PullJobs,
    writes: Writes,
    reporter: Reporter,
    metrics: Metrics,
    health: Health,
    images: mpsc::Receiver<Event<BoundedObject>>,
    lists: mpsc::Receiver<Event<BoundedObject>>,
    nodes: mpsc::Receiver<Event<NodeWire>>,
    pods: mpsc::Receiver<Event<WarmerPodWire>>,
    image_waits: ImageWaitsWatch,
    pulls: NamedWatches<String, Option<(Box<str>, Pulled)>>,
    selected: NamedWatches<PodQuery, PodWire>,
    asked: AskedInside,
    /// The events of image caches; `None` if the administrator does not want caches.
    caches: Option<mpsc::Receiver<CacheNews>>,
}

impl Driver {
    fn new(
        discovery: &Discovery,
        common: &Common,
        warm: WarmSettings,
        asked: AskedInside,
        tools: Tools,
    ) -> Self {
        let Tools {
            writer,
            reporter,
            metrics,
            health,
        } = tools;
        let client = discovery.client();
        let ages = metrics.watch_ages.clone();
        let (coexist, manager) = (warm.coexist, SharedManager::new(discovery));
        let jobs = |kind| {
            observe(
                discovery.clone(),
                (kind, coexist, manager.clone()),
                common.namespaces.clone(),
                ages.clone(),
            )
        };
        let pods = common
            .namespaces
            .and(&warm.namespace)
            .apis::<WarmerPodWire>(client);
        Self {
            clock: Clock::start(),
            server_clock: discovery.clock().clone(),
            caches: warm
                .image_caches
                .is_some()
                .then(|| observe_caches(client.clone(), ages.clone())),
            started_at: warm.time_of_day.now(),
            jobs: PullJobs::new(
                warm,
                common.namespaces.clone(),
                common.rules.node_table.clone(),
            ),
            writes: Writes::new(writer, common.concurrency),
            reporter,
            metrics,
            health,
            asked,
            images: jobs(JobKind::ImagePullJob),
            lists: jobs(JobKind::ImageListPullJob),
            nodes: watch(Api::all(client.clone()), ListParams::default(), &ages),
            pods: watch_all(pods, &ListParams::default().labels(JOB), &ages),
            image_waits: ImageWaitsWatch::new(&common.namespaces, client),
            pulls: watches_of_pulls(client.clone()),
            selected: watches_of_selected(client.clone(), ages.clone()),
        }
    }

    /// Makes one step of the decision, then waits for events or the next deadline.
    async fn reconcile(&mut self, heartbeat: &mut Heartbeat) -> Result<(), TaskDied> {
        let now = self.now();
        let has_jobs = self.jobs.is_asked_for();
        if self.image_waits.follow(has_jobs) {
            self.jobs.watches_image_waits(has_jobs, now.moment);
        }
        for write in self.jobs.step(now) {
            self.writes.push(write);
        }
        self.writes.begin(now.moment);
        self.jobs
            .notices()
            .into_iter()
            .for_each(|notice| self.reporter.report(notice));
        self.metrics.decisions_failed(self.jobs.take_defects());
        self.selected.follow(self.jobs.queries().iter());
        self.pulls.follow(self.jobs.pod_namespaces().iter());
        self.metrics
            .pull_jobs
            .set(i64::try_from(self.jobs.open()).unwrap_or(i64::MAX));
        let due = self
            .clock
            .instant(self.jobs.next_due(now).unwrap_or(now.moment + IDLE));
        loop {
            tokio::select! {
                happened = self.next() => {
                    let happened = happened?;
                    if self.take(happened) {
                        break;
                    }
                }
                () = sleep_until(due) => return Ok(()),
                () = heartbeat.due() => heartbeat.beat(),
            }
        }
        let together = sleep(TOGETHER);
        tokio::pin!(together);
        loop {
            tokio::select! {
                happened = self.next() => { let happened = happened?; self.take(happened); }
                () = &mut together => return Ok(()),
            }
        }
    }

    fn now(&self) -> Now {
        let moment = self.clock.now();
        Now {
            moment,
            today: self.server_clock.or_ours(self.started_at, moment),
        }
    }

    /// Records an event. Returns true if there may be something to do.
    fn take(&mut self, happened: Happened) -> bool {
        if let Some(resource) = happened.trouble() {
            self.metrics.watch_trouble(resource);
        }
        note_rights(&self.health, &happened);
        let now = self.now();
        if let Happened::Written(written) = &happened {
            self.writes.note(written, now.moment);
        }
        let is_news = self.jobs.take(happened, now);
        self.jobs
            .pulls()
            .into_iter()
            .for_each(|took| self.metrics.pulled(took));
        is_news
    }

    async fn next(&mut self) -> Result<Happened, TaskDied> {
        loop {
            return tokio::select! {
                event = self.images.recv() => event.map(|event| Happened::Job(JobKind::ImagePullJob, event)).ok_or_else(|| died("ImagePullJobs")),
                event = self.lists.recv() => event.map(|event| Happened::Job(JobKind::ImageListPullJob, event)).ok_or_else(|| died("ImageListPullJobs")),
                event = self.nodes.recv() => event.map(Happened::Node).ok_or_else(|| died("nodes")),
                event = self.pods.recv() => event.map(Happened::Pod).ok_or_else(|| died("warmer pods")),
                event = next_of(&mut self.image_waits.events) => event.map(Happened::ImageWait).ok_or_else(|| died("pods that wait for images")),
                Ok(()) = self.asked.derived.changed() => Ok(Happened::Derived(self.asked.derived.borrow_and_update().clone())),
                Ok(()) = self.asked.own.changed() => Ok(Happened::Own(self.asked.own.borrow_and_update().clone())),
                Some((query, event)) = self.selected.next() => Ok(Happened::Selected(query, event)),
                news = next_of(&mut self.caches) => news.map(Happened::ImageCaches).ok_or_else(|| died("image caches")),
                Some(done) = self.writes.next() => written(done),
                Some((namespace, event)) = self.pulls.next() => {
                    self.health.note_watch(Right::WatchPulls, &namespace, &event);
                    match event {
                        Event::Listed(Some((uid, pulled))) | Event::Applied(Some((uid, pulled))) => Ok(Happened::Pulled(namespace, uid, pulled)),
                        _ => continue,
                    }
                }
            };
        }
    }
}

fn written(done: Result<Written, JoinError>) -> Result<Happened, TaskDied> {
    done.map(|written| Happened::Written(Box::new(written)))
        .map_err(|error| TaskDied(format!("a write of a job that pulls images: {error}")))
}

fn died(watched: &str) -> TaskDied {
    TaskDied(format!("the watch of {watched}"))
}

fn watches_of_selected(client: Client, ages: WatchAges) -> NamedWatches<PodQuery, PodWire> {
    NamedWatches::new(
        ages,
        move |(_, namespace, selector, _): &PodQuery, listener| {
            listener.watch_selected(
                Api::namespaced(client.clone(), namespace),
                ListParams::default().labels(selector),
                |pod| pod,
            )
        },
    )
}

fn watches_of_pulls(client: Client) -> NamedWatches<String, Option<(Box<str>, Pulled)>> {
    // Nothing depends on these watches, so their age is not recorded.
    NamedWatches::new(WatchAges::default(), move |namespace: &String, listener| {
        let events = Api::<PullEvent>::namespaced(client.clone(), namespace);
        listener.watch_selected(events, ListParams::default().fields(PULLED), pulled)
    })
}

/// Returns the uid of the pod, and the pull that the Event reports.
fn pulled(event: PullEvent) -> Option<(Box<str>, Pulled)> {
    let event = event.read()?;
    let pulled = Pulled::read(event.message.as_deref()?)?;
    Some((event.involved_object.uid?.into(), pulled))
}
