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
mod isolation;
mod messages;
mod nodes;
mod occupancy;
mod settings;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::image_waits::ImageWaits;
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::pull_job::object::JobKind;
use swaplet_core::warm::startup_taint::StartupTaints;

use crate::frame::clock::Now;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::watch::mirror::Mirror;
use crate::frame::writer::report::Notice;
use crate::warm::derived::Derived;
use caches::Caches;
use entry::{Entry, exit_images};
use isolation::Jobs;
pub use messages::{Happened, PullAnswer, PullWrite};
use messages::{Key, PodQuery, key_of};
use nodes::Nodes;
use occupancy::{Occupancy, Taken, Turns};
pub use settings::WarmSettings;
use step::finalizers::Finalizers;

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
    /// The queries for pods that are followed.
    queries: BTreeSet<PodQuery>,
    turns: Turns,
    /// The jobs that had a pod on a node after the last step.
    taken: Taken,
    pods: BTreeMap<Box<str>, WarmerPod>,
    /// Pods that we are deleting, with the earliest time of another deletion request; and
    /// terminating ones, with the time until which they count.
    deletions: BTreeMap<Box<str>, Moment>,
    finalizers: Finalizers,
    job_mirrors: BTreeMap<JobKind, Mirror<Key>>,
    pod_mirror: Mirror<Box<str>>,
    /// The durations of pulls that were not fetched yet.
    pulls: Vec<Duration>,
    /// The notices that were not fetched yet.
    notices: Vec<Notice>,
}

impl PullJobs {
    /// Creates the state before anything is known.
    #[must_use]
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
            queries: BTreeSet::new(),
            turns: Turns::default(),
            taken: Taken::new(),
            pods: BTreeMap::new(),
            deletions: BTreeMap::new(),
            finalizers: Finalizers::default(),
            job_mirrors: BTreeMap::new(),
            pod_mirror: Mirror::new(),
            pulls: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Returns the number of jobs that are not completed.
    #[must_use]
    pub fn open(&self) -> usize {
        self.jobs
            .all
            .values()
            .filter(|entry| entry.has_object() && !entry.is_completed())
            .count()
    }

    /// Returns the namespaces of the pods of jobs that are under way: that of the installation, and
    /// of the others no more than are watched.
    #[must_use]
    pub fn pod_namespaces(&self) -> BTreeSet<String> {
        let namespaces = self.jobs.all.values().filter_map(Entry::pod_namespace);
        let all: BTreeSet<&str> = namespaces.collect();
        let is_ours = |namespace: &&str| **namespace == *self.settings.namespace;
        let (ours, others): (Vec<&str>, Vec<&str>) = all.into_iter().partition(is_ours);
        let others = others.into_iter().take(MOST_NAMESPACES);
        ours.into_iter().chain(others).map(str::to_owned).collect()
    }

    /// Returns the durations of the pulls that kubelets have reported since the last call.
    pub fn pulls(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.pulls)
    }

    /// Returns the notices to report since the last call.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Records an event. Returns true if there may be something to do; most events of nodes are
    /// heartbeats, after which there is not.
    pub fn take(&mut self, happened: Happened, now: Now) -> bool {
        match happened {
            Happened::Job(kind, event) => self.see_job(kind, event),
            Happened::Node(event) => {
                let changes = self.nodes.observe(event, now.moment);
                if let Some(node) = changes.ready_again {
                    self.jobs.each(now.moment, |_, entry| {
                        entry.node_is_ready_again(&node, now.moment)
                    });
                }
                for node in changes.nodes {
                    self.jobs
                        .all
                        .values_mut()
                        .for_each(|entry| entry.node_has_changed(&node));
                }
                return changes.is_news;
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
                    entry.observe_selected(event);
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
                    self.apply(job);
                }
            }
            Happened::ImageCaches(news) => self.see_caches(news),
            Happened::Written(written) => self.written(*written, now),
        }
        true
    }

    fn has_seen_all(&self) -> bool {
        let listed = self
            .job_mirrors
            .values()
            .filter(|mirror| mirror.is_complete());
        self.pod_mirror.is_complete()
            && self.nodes.are_known()
            && listed.count() == JobKind::ALL.len()
    }

    /// Returns the writes to make now. Until everything has been listed once, a pod might wrongly
    /// count as an orphan. Then only nodes whose time is over lose the startup taint.
    pub fn step(&mut self, now: Now) -> Vec<PullWrite> {
        if !self.has_seen_all() {
            return self.untaint(now.moment);
        }
        self.share_room();
        self.jobs.each(now.moment, |_, entry| {
            entry.prepare(&self.settings, &self.nodes, &self.pods, now)
        });
        let mut writes = self.make_caches(now.moment);
        writes.extend(self.finalizers.step(now.moment));
        let leaving = self.leaving(now.moment);
        self.jobs.each(now.moment, |_, entry| {
            entry.bound(
                leaving.get(entry.uid()).copied().unwrap_or_default(),
                self.settings.longest_try,
            )
        });
        writes.extend(self.delete_orphans(now.moment));
        let strays = self.strays().filter(|pod| self.is_in_our_namespace(pod));
        let mut occupancy = Occupancy::of(&self.jobs.all, strays, now.moment);
        for node in occupancy.changes(&self.taken) {
            self.jobs
                .each(now.moment, |_, entry| entry.node_is_free_again(node));
        }
        for key in self.turns.order(&self.jobs.all) {
            self.jobs.with(&key, now.moment, |entry| {
                let others_pull = |node: &str| {
                    self.image_waits.are_on(node, now.moment) && !self.nodes.is_tainted(node)
                };
                let begun = entry.step(&key, &mut occupancy, others_pull, now);
                begun.iter().for_each(|write| self.turns.note(write));
                writes.extend(begun);
            });
        }
        self.taken = occupancy.taken();
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
    #[must_use]
    pub fn next_due(&self, now: Now) -> Option<Moment> {
        let of_taints = self
            .nodes
            .startup_taints
            .as_ref()
            .and_then(|taints| taints.next_due(now.moment));
        if !self.has_seen_all() {
            return of_taints;
        }
        let of_jobs = self
            .jobs
            .all
            .values()
            .filter_map(|entry| entry.next_due(now));
        of_jobs
            .chain(of_taints)
            .chain(self.finalizers.next_due())
            .chain(self.next_deletion(now.moment))
            .min()
    }
}
