//! The I/O of pull jobs: the watches, and the writes in flight.

mod observe;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Event as KubeEvent;
use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::image_cache::{API_VERSION, IMAGE_CACHE, IMAGE_CACHES, resource};
use swaplet_core::warm::image_waits::ImageWaitWire;
use swaplet_core::warm::pod::{JOB, RUN, WarmerPodWire};
use swaplet_core::warm::pull_job::object::JobKind;
use swaplet_core::warm::warming::{Action, Pulled};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, sleep_until};

use self::observe::{SharedManager, observe};
use super::{Happened, PodQuery, PullAnswer, PullJobs, PullWrite, Stored, WarmSettings};
use crate::cluster::rules::Beside;
use crate::frame::clock::{Clock, IDLE, Now, ServerClock};
use crate::frame::connection::discovery::{Discovery, Resources};
use crate::frame::in_flight::InFlight;
use crate::frame::isolated::TaskDied;
use crate::frame::metrics::set;
use crate::frame::queue::FairQueue;
use crate::frame::serve::rights::Right;
use crate::frame::serve::{Health, Heartbeat};
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all, watch_all_kept};
use crate::frame::watch::named::NamedWatches;
use crate::frame::watch::served::{Served, Verdict, watch_judged};
use crate::frame::watch::{Event, heard, heard_if, watch};
use crate::frame::writer::{Tools, Writer, is_missing_right};
use crate::warm::jobs::Derived;
use crate::warm::predownload::OwnJobs;

/// The time for which events are collected, because a decision considers all jobs and nodes.
const TOGETHER: Duration = Duration::from_millis(50);

/// Runs the loop of pull jobs; returns only with the reason why it cannot continue. If it is
/// dropped, the next run of the process continues. Other tasks request the exit images that have
/// been derived so far, and pre-downloads without an object (`own`).
pub(crate) async fn run(
    beside: Beside,
    warm: WarmSettings,
    derived: watch::Receiver<Derived>,
    own: watch::Receiver<OwnJobs>,
) -> Result<Infallible, TaskDied> {
    let mut heartbeat = beside.tools.health.heartbeat("jobs that pull images");
    let mut driver = Driver::new(beside, warm, derived, own);
    loop {
        heartbeat.beat();
        driver.reconcile(&mut heartbeat).await?;
    }
}

struct Driver {
    clock: Clock,
    server_clock: ServerClock,
    started_at: jiff::Timestamp,
    jobs: PullJobs,
    writes: Writes,
    tools: Tools,
    images: mpsc::Receiver<Event<BoundedObject>>,
    lists: mpsc::Receiver<Event<BoundedObject>>,
    nodes: mpsc::Receiver<Event<NodeWire>>,
    pods: mpsc::Receiver<Event<WarmerPodWire>>,
    image_wait_apis: Vec<Api<ImageWaitWire>>,
    /// The pods that wait for their images, while there is a job that is not completed.
    image_waits: Option<mpsc::Receiver<Event<ImageWaitWire>>>,
    pulls: NamedWatches<String, Option<(Box<str>, Pulled)>>,
    selected: NamedWatches<PodQuery, PodWire>,
    derived: watch::Receiver<Derived>,
    own: watch::Receiver<OwnJobs>,
    /// The events of image caches; `None` if the administrator does not want caches.
    caches: Option<mpsc::Receiver<Event<BoundedObject>>>,
    /// False while the API server is known not to serve image caches.
    are_caches_served: Arc<AtomicBool>,
}

impl Driver {
    fn new(
        Beside {
            discovery,
            common,
            tools,
        }: Beside,
        warm: WarmSettings,
        derived: watch::Receiver<Derived>,
        own: watch::Receiver<OwnJobs>,
    ) -> Self {
        let client = discovery.client();
        let ages = tools.metrics.watch_ages.clone();
        let (coexist, manager) = (warm.coexist, SharedManager::new(&discovery));
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
        let are_caches_served = Arc::new(AtomicBool::new(true));
        Self {
            clock: Clock::start(),
            server_clock: discovery.clock().clone(),
            caches: warm
                .image_caches
                .is_some()
                .then(|| observe_caches(client.clone(), ages.clone(), are_caches_served.clone())),
            are_caches_served,
            started_at: warm.time_of_day.now(),
            jobs: PullJobs::new(
                warm,
                common.namespaces.clone(),
                common.rules.node_table.clone(),
            ),
            writes: Writes::new(tools.writer.clone(), common.concurrency),
            tools,
            derived,
            own,
            images: jobs(JobKind::ImagePullJob),
            lists: jobs(JobKind::ImageListPullJob),
            nodes: watch(Api::all(client.clone()), ListParams::default(), &ages),
            pods: watch_all(pods, &ListParams::default().labels(JOB), &ages),
            image_wait_apis: common.namespaces.apis(client),
            image_waits: None,
            pulls: watches_of_pulls(client.clone()),
            selected: watches_of_selected(client.clone(), ages.clone()),
        }
    }

    /// Makes one step of the decision, then waits for events or the next deadline.
    async fn reconcile(&mut self, heartbeat: &mut Heartbeat) -> Result<(), TaskDied> {
        let now = self.now();
        let has_jobs = self.jobs.is_asked_for();
        if has_jobs != self.image_waits.is_some() {
            self.image_waits = has_jobs.then(|| watch_image_waits(&self.image_wait_apis));
            self.jobs.watches_image_waits(has_jobs, now.moment);
        }
        let room = |of: &_, first: &mut _| self.writes.room(of, take(first));
        let last = self.jobs.step(now, room);
        self.writes.extend(last);
        for notice in take(&mut self.jobs.notices) {
            self.tools.reporter.report(notice);
        }
        self.tools
            .metrics
            .decisions_failed(self.jobs.take_defects());
        self.selected.follow(self.jobs.queries().iter());
        self.pulls.follow(self.jobs.pod_namespaces().iter());
        set(&self.tools.metrics.pull_jobs, self.jobs.open());
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
        note_rights(&self.tools, &happened);
        let now = self.now();
        let is_news = self.jobs.take(happened, now);
        for took in take(&mut self.jobs.pulls) {
            self.tools.metrics.pulled(took);
        }
        is_news
    }

    async fn next(&mut self) -> Result<Happened, TaskDied> {
        loop {
            return tokio::select! {
                event = heard(&mut self.images, "ImagePullJobs") => event.map(|event| Happened::Job(JobKind::ImagePullJob, event)),
                event = heard(&mut self.lists, "ImageListPullJobs") => event.map(|event| Happened::Job(JobKind::ImageListPullJob, event)),
                event = heard(&mut self.nodes, "nodes") => event.map(Happened::Node),
                event = heard(&mut self.pods, "warmer pods") => event.map(Happened::Pod),
                event = heard_if(&mut self.image_waits, "pods that wait for images") => event.map(Happened::ImageWait),
                Ok(()) = self.derived.changed() => Ok(Happened::Derived(self.derived.borrow_and_update().clone())),
                Ok(()) = self.own.changed() => Ok(Happened::Own(self.own.borrow_and_update().clone())),
                Some((query, event)) = self.selected.next() => Ok(Happened::Selected(query, event)),
                event = heard_if(&mut self.caches, "image caches") => event.map(|event| Happened::ImageCaches(self.are_caches_served.load(Relaxed), event)),
                Some(written) = self.writes.next() => Ok(Happened::Written(Box::new(written))),
                Some((namespace, event)) = self.pulls.next() => {
                    self.tools.health.note_watch(Right::WatchPulls, &namespace, &event);
                    match event {
                        Event::Listed(Some((uid, pulled))) | Event::Applied(Some((uid, pulled))) => Ok(Happened::Pulled(namespace, uid, pulled)),
                        _ => continue,
                    }
                }
            };
        }
    }
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

/// The field selector of the Events that report pulls.
const PULLED: &str = "involvedObject.kind=Pod,reason=Pulled";

/// Such an Event.
type PullEvent = WholeObject<KubeEvent>;

/// Watches the reports of pulls, by namespace: each with the uid of the pod.
pub(crate) fn watches_of_pulls(client: Client) -> NamedWatches<String, Option<(Box<str>, Pulled)>> {
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

/// The field selector of pods that are bound to a node and have not started.
const WAITING: &str = "status.phase=Pending,spec.nodeName!=";

/// Starts the watch of pods that wait for their images. Images are pulled even without it, so its
/// age is not recorded.
fn watch_image_waits(apis: &[Api<ImageWaitWire>]) -> mpsc::Receiver<Event<ImageWaitWire>> {
    let params = ListParams::default()
        .fields(WAITING)
        .labels(&format!("!{RUN}"));
    watch_all_kept(
        apis.to_vec(),
        &params,
        &WatchAges::default(),
        Unlisted::AreHidden,
        Clone::clone,
    )
}

// The writes of pull jobs: in turns by namespace, with the shares that other loops have, so that a
// tenant whose writes hang holds up no other one.

/// The writes in flight, and those that wait for their turn.
struct Writes {
    writer: Writer,
    waiting: HashMap<u64, PullWrite>,
    line: FairQueue<u64>,
    /// The number of the last write, by which it waits.
    last: u64,
    in_flight: InFlight<PullWrite, PullAnswer>,
}

impl Writes {
    pub fn new(writer: Writer, concurrency: usize) -> Self {
        Self {
            writer,
            waiting: HashMap::new(),
            line: FairQueue::default(),
            last: 0,
            in_flight: InFlight::new(concurrency, namespace_of),
        }
    }

    /// Adds writes, each behind those of its namespace, and begins those for which there is room.
    pub fn extend(&mut self, writes: Vec<PullWrite>) {
        for write in writes {
            self.last += 1;
            self.line.push(namespace_of(&write), self.last);
            self.waiting.insert(self.last, write);
        }
        self.begin();
    }

    /// Returns how many more writes of a namespace would begin at once, after these.
    pub fn room(&mut self, namespace: &str, first: Vec<PullWrite>) -> usize {
        self.extend(first);
        let waiting = self.line.len_of(namespace);
        self.in_flight.room(namespace).saturating_sub(waiting)
    }

    /// Begins the writes for which there is room.
    pub fn begin(&mut self) {
        let line = &mut self.line;
        while let Some(number) = self.in_flight.turn(|may_begin| line.pop_of(may_begin))
            && let Some(write) = self.waiting.remove(&number)
        {
            let writer = self.writer.clone();
            self.in_flight
                .begin(writer, write, |writer, write| Box::pin(send(writer, write)));
        }
    }

    /// Waits for the next write to finish, and begins others; `None` if none is in flight.
    pub async fn next(&mut self) -> Option<(PullWrite, PullAnswer)> {
        let (write, answer, _) = self.in_flight.next().await?;
        self.begin();
        Some((write, answer))
    }
}

/// Returns the namespace whose turn a write takes: that of the job, because it decides which images
/// policies and registries are asked for.
fn namespace_of(write: &PullWrite) -> &str {
    match write {
        PullWrite::Warm { key, .. } => &key.1,
        PullWrite::Report { job, .. } => &job.namespace,
        PullWrite::DeleteJob(job) | PullWrite::Release(job) => &job.namespace,
        PullWrite::DeletePod(pod) => &pod.job_namespace,
        PullWrite::CreateCache(cache) => &cache.namespace,
        PullWrite::Untaint(_) => "",
    }
}

async fn send(writer: &Writer, write: &PullWrite) -> PullAnswer {
    let (mut pod, mut job) = (None, None);
    match write {
        PullWrite::Warm {
            warmers,
            node,
            action,
            ..
        } => pod = writer.warm(warmers, node, action).await?,
        PullWrite::Report { job: of, report } => {
            job = writer.report_pull_job(of, report).await?.map(Box::new);
        }
        PullWrite::Release(job) => writer.release_pull_job(job).await?,
        PullWrite::DeleteJob(job) => writer.delete_pull_job(job).await?,
        PullWrite::Untaint(untaint) => writer.untaint(untaint).await?,
        PullWrite::CreateCache(cache) => writer.create_image_cache(cache).await?,
        PullWrite::DeletePod(pod) => writer.delete_warmer_pod(pod).await?,
    }
    Ok(Stored { pod, job })
}

// The rights that pull jobs need.

const fn right_to_watch(kind: JobKind) -> Right {
    match kind {
        JobKind::ImagePullJob => Right::WatchPullJobs,
        JobKind::ImageListPullJob => Right::WatchListPullJobs,
    }
}

const fn right_to_report(kind: JobKind) -> Right {
    match kind {
        JobKind::ImagePullJob => Right::ReportPullJobs,
        JobKind::ImageListPullJob => Right::ReportListPullJobs,
    }
}

const fn right_to_delete(kind: JobKind) -> Right {
    match kind {
        JobKind::ImagePullJob => Right::DeletePullJobs,
        JobKind::ImageListPullJob => Right::DeleteListPullJobs,
    }
}

const fn right_to_warm(action: &Action) -> Right {
    match action {
        Action::Create { .. } => Right::CreateWarmerPods,
        Action::Swap { .. } => Right::ChangeWarmerPods,
        Action::Delete { .. } => Right::DeleteWarmerPods,
    }
}

/// Records rights that are missing, or no longer missing.
fn note_rights(tools: &Tools, happened: &Happened) {
    match happened {
        Happened::Job(kind, event) => tools.note_watch(right_to_watch(*kind), "", event),
        Happened::Node(event) => tools.note_watch(Right::WatchNodesOfJobs, "", event),
        Happened::Pod(event) => tools.note_watch(Right::WatchWarmerPods, "", event),
        Happened::ImageWait(event) => tools.note_watch(Right::WatchImageWaits, "", event),
        Happened::Selected((_, namespace, ..), event) => {
            tools.note_watch(Right::WatchSelectedPods, namespace, event)
        }
        Happened::ImageCaches(_, event) => tools.note_watch(Right::WatchImageCaches, "", event),
        Happened::Written(written) => note_write(&tools.health, written),
        Happened::Pulled(..) | Happened::Own(_) | Happened::Derived(_) => {}
    }
}

fn note_write(health: &Health, (write, answer): &(PullWrite, PullAnswer)) {
    let (right, namespace) = match write {
        PullWrite::Warm {
            warmers, action, ..
        } => (right_to_warm(action), &*warmers.namespace),
        PullWrite::Report { job, .. } => (right_to_report(job.kind), &*job.namespace),
        PullWrite::Release(job) => (Right::ReleasePullJobs, &*job.namespace),
        PullWrite::DeleteJob(job) => (right_to_delete(job.kind), &*job.namespace),
        PullWrite::DeletePod(pod) => (Right::DeleteWarmerPods, &*pod.namespace),
        PullWrite::Untaint(_) => (Right::RemoveStartupTaint, ""),
        PullWrite::CreateCache(_) => (Right::CreateImageCaches, ""),
    };
    match answer {
        // The node's refusal has been logged already.
        Err(WriteError::Denied(words)) if right == Right::RemoveStartupTaint => {
            // A policy or a webhook that denies one node says nothing of the others.
            if is_missing_right(words) {
                health.lacks(right, words);
            }
        }
        answer => health.note_write(right, namespace, answer),
    }
}

// A watch of the image caches that swaplet has created, while the API server serves them.

/// Starts the watch, records its age, and whether the API server may serve image caches. The stream
/// ends only when the receiver is dropped, or the watch has died.
fn observe_caches(
    client: Client,
    ages: WatchAges,
    are_served: Arc<AtomicBool>,
) -> mpsc::Receiver<Event<BoundedObject>> {
    let served = Served {
        plural: IMAGE_CACHES,
        is_ours_alone: false,
        reports_absence: true,
    };
    let found = Arc::clone(&are_served);
    let judge = move |resources: Resources| {
        // Where the query is forbidden the watch may be allowed.
        let is_absent = resources.lack(IMAGE_CACHES);
        found.store(!is_absent, Relaxed);
        let verdict = if is_absent {
            Verdict::Absent(None)
        } else {
            Verdict::Watched
        };
        ready(Ok::<_, String>(verdict)).boxed()
    };
    let discovery = Discovery::of(client, API_VERSION);
    watch_judged(discovery, served, Box::new(judge), move |discovery| {
        // Also where a query was not answered: then they are not known to be absent.
        are_served.store(true, Relaxed);
        let ours = ListParams::default().labels(IMAGE_CACHE);
        let caches = Api::all_with(discovery.client().clone(), &resource());
        watch(caches, ours, &ages)
    })
}
