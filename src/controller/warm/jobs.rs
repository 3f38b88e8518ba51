//! The state of the loop of pull jobs, without I/O and without a clock: all jobs, the nodes and the
//! warmer pods.
//!
//! Each job that is under way has a [`Warming`](swaplet_core::warm::warming::Warming) of its own,
//! whose pods carry the uid of the job. A pod that belongs to none of them (its job is gone, is
//! over, has been changed, or no longer wants the node) is deleted, so no history has to be kept.
//! On a node one job at a time has a pod.

mod caches;
pub(crate) mod driver;
mod entry;
mod handle;
mod occupancy;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use self::step::{Pods, Release, may_pull};
use crate::frame::clock::{Now, TimeOfDay};
use crate::frame::connection::Namespaces;
use crate::frame::isolated::{Defects, isolated, log, read};
use crate::frame::store::Store;
use crate::frame::watch::Event;
use crate::frame::writer::report::Notice;
use crate::warm::predownload::OwnJobs;
use crate::warm::write::{Report, Warmers};
use caches::Caches;
pub use entry::exit_images::Derived;
use entry::{Entry, exit_images};
use occupancy::{Occupancy, Taken, Turns};
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::{Node, NodeWire};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::image_cache::{CacheOptions, NewImageCache};
use swaplet_core::warm::image_waits::{ImageWait, ImageWaitWire, ImageWaits};
use swaplet_core::warm::pod::{WarmerPod, WarmerPodWire};
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;
use swaplet_core::warm::pull_job::{CONTROL_PLANE, TargetNode};
use swaplet_core::warm::startup_taint::{StartupTaints, Untaint};
use swaplet_core::warm::warming::{Action, Pulled, Warming, has_image_caches, shape};

/// The most namespaces of jobs with pull secrets whose Events are watched, each by a connection of
/// its own. Elsewhere it is not reported how long pulls took.
const MOST_NAMESPACES: usize = 256;

/// The jobs, the nodes and the pods.
pub struct PullJobs {
    settings: WarmSettings,
    /// The namespaces in which jobs are watched.
    namespaces: Namespaces,
    /// The uid of the job without an object that keeps exit images on the nodes.
    exit_images: Box<str>,
    jobs: Jobs,
    /// The image caches; `None` if the administrator does not want them.
    caches: Option<Caches>,
    nodes: Nodes,
    image_waits: ImageWaits,
    /// The pods that `image_waits` keeps.
    image_wait_pods: Store<ImageWait>,
    /// The queries for pods that are followed.
    queries: BTreeSet<PodQuery>,
    turns: Turns,
    /// The jobs that had a pod on a node after the last step.
    taken: Taken,
    pods: Pods,
    /// The jobs that are objects, each with the removal of OpenKruise's finalizer.
    objects: BTreeMap<JobKind, Store<Arc<PullJob>, Release>>,
    /// The durations of the pulls that kubelets have reported, until the driver takes them.
    pub pulls: Vec<Duration>,
    /// The notices that the driver has not taken yet.
    notices: Vec<Notice>,
}

impl PullJobs {
    /// Creates the state before anything is known.
    pub fn new(settings: WarmSettings, namespaces: Namespaces, table: NodeTable) -> Self {
        let exit_images = exit_images::uid(&settings, &namespaces);
        let kept = exit_images::job(&settings, &exit_images, &Derived::default());
        let caches = settings.image_caches.clone().map(Caches::new);
        let startup_taints = settings.startup_taint_timeout.map(StartupTaints::new);
        Self {
            settings,
            namespaces,
            exit_images,
            jobs: Jobs::new(
                kept.map(|job| (key_of(&job), Entry::without_object(job)))
                    .into_iter()
                    .collect(),
            ),
            nodes: Nodes::new(table, startup_taints, caches.is_some()),
            caches,
            image_waits: ImageWaits::default(),
            image_wait_pods: Store::default(),
            queries: BTreeSet::new(),
            turns: Turns::default(),
            taken: Taken::new(),
            pods: Pods::default(),
            objects: BTreeMap::new(),
            pulls: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Returns the number of jobs that are not completed.
    pub fn open(&self) -> usize {
        self.jobs
            .all
            .values()
            .filter(|entry| entry.has_object() && !entry.is_completed())
            .count()
    }

    /// Returns the namespaces of the pods of jobs that are under way: that of the installation, and
    /// of the others no more than are watched.
    pub fn pod_namespaces(&self) -> BTreeSet<String> {
        let namespaces = self.jobs.all.values().filter_map(Entry::pod_namespace);
        let all: BTreeSet<&str> = namespaces.collect();
        let is_ours = |namespace: &&str| **namespace == *self.settings.namespace;
        let (ours, others): (Vec<&str>, Vec<&str>) = all.into_iter().partition(is_ours);
        let others = others.into_iter().take(MOST_NAMESPACES);
        ours.into_iter().chain(others).map(str::to_owned).collect()
    }

    /// Records an event. Returns true if there may be something to do; most events of nodes are
    /// heartbeats, after which there is not.
    pub fn take(&mut self, happened: Happened, now: Now) -> bool {
        match happened {
            Happened::Job(kind, event) => self.see_job(kind, event, now.moment),
            Happened::Node(event) => {
                let waited = self.nodes.has_tainted();
                let changes = self.nodes.take(event, now.moment);
                let is_news = changes.is_some() || waited || self.nodes.has_tainted();
                let (nodes, ready_again) = changes.unwrap_or_default();
                if let Some(node) = ready_again {
                    self.jobs.each(now.moment, |_, entry| {
                        entry.node_is_ready_again(&node, now.moment)
                    });
                }
                for node in nodes {
                    self.jobs
                        .all
                        .values_mut()
                        .for_each(|entry| entry.node_has_changed(&node));
                }
                return is_news;
            }
            Happened::Pod(event) => self.observe_pod(event, now.moment),
            Happened::ImageWait(event) => return self.see_image_wait(event, now.moment),
            Happened::Selected(query, event) => {
                if let Some(entry) = self
                    .jobs
                    .all
                    .values_mut()
                    .find(|entry| entry.query() == Some(&query))
                {
                    entry.observe_selected(event, now.moment);
                }
            }
            Happened::Pulled(namespace, uid, pulled) => {
                let took = self.jobs.each(now.moment, |_, entry| {
                    entry.handle(&namespace, &uid, &pulled)
                });
                self.pulls.extend(took.into_iter().flatten().next());
            }
            Happened::Own(jobs) => self.see_own(&jobs),
            Happened::Derived(derived) => {
                if let Some(job) = exit_images::job(&self.settings, &self.exit_images, &derived) {
                    self.apply(job.into());
                }
            }
            Happened::ImageCaches(are_served, event) => {
                self.see_caches(are_served, event, now.moment)
            }
            Happened::Written(written) => self.written(*written, now),
        }
        true
    }

    fn has_seen_pods_and_nodes(&self) -> bool {
        self.pods.is_complete() && self.nodes.are_known()
    }

    fn has_seen_all(&self) -> bool {
        let all = self.objects.values();
        let listed = all.filter(|jobs| jobs.is_complete()).count();
        self.has_seen_pods_and_nodes() && listed == JobKind::ALL.len()
    }

    /// Returns the writes to make now. Until pods and nodes have been listed once, only nodes whose
    /// time is over lose the startup taint. Until the jobs have been, as where these may not be
    /// listed, those without an object are done, and no other pod counts as an orphan.
    /// `room` is given the writes so far, and returns how many of a namespace would begin now: one
    /// that only waited would keep its node from the jobs of others.
    pub fn step(
        &mut self,
        now: Now,
        mut room: impl FnMut(&str, &mut Vec<PullWrite>) -> usize,
    ) -> Vec<PullWrite> {
        if !self.has_seen_pods_and_nodes() {
            return self.untaint(now.moment);
        }
        self.share_room();
        self.jobs.each(now.moment, |_, entry| {
            entry.prepare(&self.settings, &self.nodes, &self.pods, now)
        });
        let mut writes = self.make_caches(now.moment);
        writes.extend(self.release(now.moment));
        let leaving = self.leaving(now.moment);
        self.jobs.each(now.moment, |_, entry| {
            entry.bound(
                leaving.get(entry.uid()).copied().unwrap_or_default(),
                self.settings.longest_try,
            )
        });
        writes.extend(self.delete_orphans(now.moment));
        let strays = self.strays();
        let strays =
            strays.filter(|pod| self.is_in_our_namespace(pod.0) && may_pull(*pod, now.moment));
        let strays = strays.map(|(pod, _)| pod);
        let mut occupancy = Occupancy::of(&self.jobs.all, strays, now.moment);
        for node in occupancy.changes(&self.taken) {
            self.jobs.each(now.moment, |_, entry| {
                if let Some(warming) = entry.warming_mut() {
                    warming.is_free_again(node);
                }
            });
        }
        for key in self.turns.order(&self.jobs.all) {
            self.jobs.with(&key, now.moment, |entry| {
                let others_pull = |node: &str| {
                    self.image_waits.are_on(node, now.moment) && !self.nodes.is_tainted(node)
                };
                if let Some(warming) = entry.warming_mut() {
                    warming.room = room(&key.1, &mut writes);
                }
                let begun = entry.step(&key, &mut occupancy, others_pull, now);
                begun.iter().for_each(|write| self.turns.note(write));
                writes.extend(begun);
            });
        }
        self.taken = occupancy.taken;
        self.report_ended(now.moment);
        writes.extend(
            self.jobs
                .each(now.moment, |_, entry| entry.report(now))
                .into_iter()
                .flatten(),
        );
        writes.extend(self.untaint(now.moment));
        writes
    }

    /// Returns the creation of image caches that jobs want and that do not exist.
    fn make_caches(&mut self, now: Moment) -> Vec<PullWrite> {
        let Some(caches) = &mut self.caches else {
            return Vec::new();
        };
        caches.count(now);
        let new = self.jobs.each(now, |_, entry| entry.cache(caches, now));
        new.into_iter()
            .flatten()
            .map(|cache| PullWrite::CreateCache(Box::new(cache)))
            .collect()
    }

    /// Returns how often a decision has panicked since the last call.
    pub fn take_defects(&mut self) -> u64 {
        self.jobs.take_defects()
    }

    /// Returns when the next step is due if nothing happens; `None` without a deadline.
    pub fn next_due(&self, now: Now) -> Option<Moment> {
        let of_taints = self
            .nodes
            .startup_taints
            .as_ref()
            .and_then(|taints| taints.next_due(now.moment));
        if !self.has_seen_pods_and_nodes() {
            return of_taints;
        }
        let of_jobs = self
            .jobs
            .all
            .values()
            .filter_map(|entry| entry.next_due(now));
        of_jobs
            .chain(of_taints)
            .chain(self.next_release())
            .chain(self.next_deletion(now.moment))
            .min()
    }
}

// The settings of the loop of pull jobs.

/// The settings of the installation that pull jobs need.
#[derive(Clone, Debug)]
pub struct WarmSettings {
    /// The namespace of the pods of jobs without pull secrets.
    pub namespace: Box<str>,
    /// The image whose program the pods run.
    pub park_image: Box<str>,
    /// The exit image that every node that keeps images is to have, together with derived ones;
    /// `None`: only jobs decide what is pulled.
    pub exit_image: Option<Box<str>>,
    /// How long a node with the startup taint may wait for its images; `None`: the taint is left
    /// alone.
    pub startup_taint_timeout: Option<Duration>,
    /// The namespaces for whose jobs nodes with the startup taint wait, besides the exit images.
    /// Anyone who may create such jobs can slow down each new node.
    pub startup_taint_namespaces: BTreeSet<Box<str>>,
    /// The most time for one try of an image, whatever its job requests.
    pub longest_try: Duration,
    /// Decides who processes jobs where OpenKruise's CRDs are served: swaplet or OpenKruise.
    pub coexist: Coexist,
    /// The settings for image caches, which are billed, on nodes whose provider has them; `None`:
    /// none is created.
    pub image_caches: Option<CacheOptions>,
    /// The labels and annotations that jobs may give to their pods.
    pub sandbox_keys: SandboxKeys,
    /// Returns the wall-clock time, in which deadlines of jobs are stored. It is called once,
    /// whenever the loop begins, and used until the API server's time is known.
    pub time_of_day: TimeOfDay,
}

// Isolation of panics: one in the decision about a job affects this job alone. The job and its
// pods are left alone for a while; then it starts again, as after a restart of the process.

/// The jobs, and which of them have panicked.
pub(crate) struct Jobs {
    pub all: BTreeMap<Key, Entry>,
    defects: Defects<Key>,
}

impl Jobs {
    pub fn new(all: BTreeMap<Key, Entry>) -> Self {
        Self {
            all,
            defects: Defects::default(),
        }
    }

    /// Runs `work` on each job that is not left alone.
    pub fn each<T>(&mut self, now: Moment, mut work: impl FnMut(&Key, &mut Entry) -> T) -> Vec<T> {
        let jobs = self.all.iter_mut();
        jobs.filter_map(|(key, entry)| {
            isolate(&mut self.defects, key, entry, now, |entry| work(key, entry))
        })
        .collect()
    }

    /// Runs `work` on one job, if it exists and is not left alone.
    pub fn with(&mut self, key: &Key, now: Moment, work: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.all.get_mut(key) {
            isolate(&mut self.defects, key, entry, now, work);
        }
    }

    /// Returns how often a decision has panicked since the last call, about a job or about a node
    /// of one.
    pub fn take_defects(&mut self) -> u64 {
        let mut count = self.defects.take_count();
        for ((kind, namespace, name), entry) in &mut self.all {
            let defects = entry.warming_mut().map(Warming::take_defects);
            for (node, defect) in defects.into_iter().flatten() {
                let (reason, kind) = (Reason::DecisionFailed.as_str(), kind.as_str());
                tracing::error!(reason, %namespace, kind, %name, %node, defect, "a defect in swaplet ends the work on a node; please report it");
                count += 1;
            }
        }
        count
    }
}

fn isolate<T>(
    defects: &mut Defects<Key>,
    key: &Key,
    entry: &mut Entry,
    now: Moment,
    work: impl FnOnce(&mut Entry) -> T,
) -> Option<T> {
    if defects.is_left_alone(key, now) {
        return None;
    }
    let (kind, namespace, name) = key;
    let done = isolated(name, || work(entry))
        .inspect_err(|defect| log(kind.as_str(), namespace, name, defect));
    if done.is_err() {
        entry.break_off();
        defects.meet(key.clone(), now);
    }
    done.ok()
}

// The nodes of the cluster, reduced to what jobs select them by.

/// All nodes.
pub(crate) struct Nodes {
    pub all: Store<TargetNode>,
    /// The nodes with the startup taint; `None` if swaplet leaves that taint alone.
    pub startup_taints: Option<StartupTaints>,
    /// True if image caches can be created for nodes whose provider has them.
    pub uses_image_caches: bool,
    table: NodeTable,
}

/// The changes that an event of nodes causes: the names of nodes that are new, gone or changed, and
/// that of a node that was not Ready and now is.
type Changes = (Vec<Box<str>>, Option<Box<str>>);

impl Nodes {
    pub fn new(
        table: NodeTable,
        startup_taints: Option<StartupTaints>,
        uses_image_caches: bool,
    ) -> Self {
        Self {
            all: Store::default(),
            startup_taints,
            uses_image_caches,
            table,
        }
    }

    /// Returns true once the nodes have been listed.
    pub const fn are_known(&self) -> bool {
        self.all.is_complete()
    }

    fn has_tainted(&self) -> bool {
        self.startup_taints
            .as_ref()
            .is_some_and(|taints| !taints.is_empty())
    }

    /// Returns true if the node has the startup taint: then pods wait there for images of jobs.
    pub fn is_tainted(&self, node: &str) -> bool {
        self.startup_taints
            .as_ref()
            .is_some_and(|taints| taints.has(node))
    }

    /// Returns what jobs select a node by, if it exists.
    pub fn get(&self, name: &str) -> Option<&TargetNode> {
        let (node, ()) = self.all.get(&(Box::default(), name.into()))?;
        Some(node)
    }

    /// Records an event. Returns what jobs have to know about it; `None` if there is nothing.
    fn take(&mut self, event: Event<NodeWire>, now: Moment) -> Option<Changes> {
        let (were_known, mut seen) = (self.are_known(), None);
        let read = |node: NodeWire| {
            let node = seen.insert(read("node", || node.read())?);
            Some(target(node, &self.table))
        };
        let changes = self.all.observe(event, now, read);
        let gone = changes.gone.into_iter();
        let mut names: Vec<_> = gone.map(|((_, name), ..)| name).collect();
        if let Some(taints) = &mut self.startup_taints {
            names.iter().for_each(|name| taints.leave(name));
            seen.iter().for_each(|node| taints.observe(node, now));
        }
        let mut ready_again = None;
        if let Some((key, before)) = changes.put
            && let Some((node, ())) = self.all.get(&key)
            // A heartbeat changes nothing that jobs depend on.
            && before.as_ref() != Some(node)
        {
            let is_ready_again = before.is_some_and(|before| !before.ready && node.ready);
            ready_again = is_ready_again.then(|| key.1.clone());
            names.push(key.1);
        }
        let is_news = !names.is_empty() || self.are_known() != were_known;
        is_news.then_some((names, ready_again))
    }
}

fn target(node: &Node, table: &NodeTable) -> TargetNode {
    let recognised = Recognised::of(node, table);
    let labels = node.labels.iter();
    let is_control_plane = |key: &str| CONTROL_PLANE.contains(&key);
    TargetNode {
        uid: node.uid.clone(),
        labels: labels
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        ready: node.ready,
        shape: shape(node, &recognised),
        has_image_caches: has_image_caches(&recognised),
        is_control_plane: node.taints.iter().any(|taint| is_control_plane(&taint.key)),
    }
}

// The messages of the loop: events that it handles, and writes that it requests.

/// The key of a job: its kind, namespace and name.
pub type Key = (JobKind, Box<str>, Box<str>);

/// A query for the pods that a job's `podSelector` matches: the uid of the job, its namespace, the
/// selector, and a number, so that two collections are two queries although their selectors may be
/// the same: the generation since which the pods are collected, or a larger one.
pub type PodQuery = (Box<str>, Box<str>, String, i64);

/// A write that the loop requests.
#[derive(Clone, Debug)]
pub enum PullWrite {
    /// A write of a warmer pod.
    Warm {
        /// The key of the job.
        key: Key,
        /// The settings that the job's pods share.
        warmers: Arc<Warmers>,
        /// The name of the node.
        node: Box<str>,
        /// The write to make.
        action: Action,
    },
    /// A write of the status of a job.
    Report {
        /// The job, as it was when this was decided.
        job: Arc<PullJob>,
        /// The content of the status.
        report: Box<Report>,
    },
    /// The deletion of a job whose time to live is over.
    DeleteJob(Arc<PullJob>),
    /// The removal of OpenKruise's finalizer from a job that is being deleted.
    Release(Arc<PullJob>),
    /// The deletion of a pod that no job needs.
    DeletePod(Box<WarmerPod>),
    /// The creation of an image cache.
    CreateCache(Box<NewImageCache>),
    /// The removal of the startup taint from a node.
    Untaint(Box<Untaint>),
}

/// The result of a write.
pub type PullAnswer = Result<Stored, WriteError>;

/// What is stored after a write.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The warmer pod, after a write of it.
    pub pod: Option<Box<WarmerPod>>,
    /// The job, after a write of its status.
    pub job: Option<Box<PullJob>>,
}

/// An event that the loop handles.
#[derive(Debug)]
pub enum Happened {
    /// A watch event of jobs of one kind.
    Job(JobKind, Event<BoundedObject>),
    /// A watch event of nodes.
    Node(Event<NodeWire>),
    /// A watch event of warmer pods.
    Pod(Event<WarmerPodWire>),
    /// A watch event of pods that may wait for their images.
    ImageWait(Event<ImageWaitWire>),
    /// A watch event of the pods by which a job selects nodes.
    Selected(PodQuery, Event<PodWire>),
    /// A kubelet's report of a pull: the namespace of the Event, the uid of the pod, and the pull.
    Pulled(String, Box<str>, Pulled),
    /// The exit images that have been derived so far.
    Derived(Derived),
    /// The pre-downloads that are to be done without an object.
    Own(OwnJobs),
    /// A watch event of image caches that swaplet has created; with false while the API server is
    /// known not to serve them.
    ImageCaches(bool, Event<BoundedObject>),
    /// The result of a write.
    Written(Box<(PullWrite, PullAnswer)>),
}

fn key_of(job: &PullJob) -> Key {
    (job.kind, job.namespace.clone(), job.name.clone())
}
