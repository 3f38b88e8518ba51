//! One job: its work under way, and what was reported about it.

mod caching;
pub(crate) mod exit_images;
mod prepare;
mod reporting;
mod room;
mod run;
mod selected;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::pull_job::object::{Completion, PullJob, PullSpec};
use swaplet_core::warm::pull_job::{Status, lets_others_pull, time_to_live};
use swaplet_core::warm::warming::pulled::Pulled;
use swaplet_core::warm::warming::{Action, Answer, Elsewhere, End, Ended};

use self::run::Run;
use self::selected::Selected;
use super::messages::{Key, PodQuery, PullWrite};
use super::occupancy::Occupancy;
use crate::frame::clock::Now;
use crate::frame::isolated::break_if_asked;
use crate::frame::watch::Event;
use crate::warm::write::Warmers;

/// The wait after the first report that was not applied; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The state of one job.
pub(crate) struct Entry {
    job: PullJob,
    /// True if the job is an object of the cluster.
    has_object: bool,
    run: Option<Run>,
    selected: Selected,
    /// True while it has no nodes, because other jobs take as much memory as they may.
    waits_for_room: bool,
    /// When the job began, once the status records that; reset if a completed job changes.
    started_at: Option<Timestamp>,
    /// The generation that this process has reported as completed; the watch may still show an
    /// older state.
    completed: Option<i64>,
    /// True if it has changed after its completion, which a CRD without `observedGeneration` does
    /// not show.
    edited: bool,
    /// The write that was last logged as not taken: the node, and the reason.
    untaken: Option<(Box<str>, Box<str>)>,
    /// The status that this process last wrote.
    reported: Option<Status>,
    is_writing: bool,
    not_before: Moment,
    failures: u32,
    /// Set when the wishes of the job or the set of nodes may have changed.
    is_stale: bool,
    /// The nodes that have changed.
    stale_nodes: BTreeSet<Box<str>>,
    /// Set when the status may be out of date.
    has_news: bool,
    /// The number of Events about this generation of the job.
    events: usize,
    /// When failed nodes are tried again.
    again: Option<Moment>,
}

impl Entry {
    pub fn new(job: PullJob) -> Self {
        Self {
            started_at: begun(&job),
            selected: Selected::of(&job),
            waits_for_room: false,
            job,
            has_object: true,
            run: None,
            completed: None,
            edited: false,
            untaken: None,
            reported: None,
            is_writing: false,
            not_before: Moment::START,
            failures: 0,
            is_stale: true,
            stale_nodes: BTreeSet::new(),
            has_news: true,
            events: 0,
            again: None,
        }
    }

    pub fn uid(&self) -> &str {
        &self.job.uid
    }

    pub fn spec(&self) -> Result<&PullSpec, &str> {
        self.job.spec.as_ref().map_err(|problem| &**problem)
    }

    pub fn namespace(&self) -> &str {
        &self.job.namespace
    }

    pub fn is_completed(&self) -> bool {
        let is_of_old_spec = self.edited && self.job.observed_generation.is_none();
        self.completed == Some(self.job.generation) || (self.job.is_completed() && !is_of_old_spec)
    }

    /// Returns the query for the pods by which the job selects nodes, while it is not completed and
    /// there is room.
    pub fn query(&self) -> Option<&PodQuery> {
        let query = self.selected.query.as_ref();
        query.filter(|_| !self.is_completed() && !self.waits_for_room)
    }

    /// Records which queries are followed. A completed job keeps no pods.
    pub fn are_followed(&mut self, queries: &BTreeSet<PodQuery>) {
        if self.is_completed() {
            self.selected.drop_all();
        }
        let waits = self.query().is_some_and(|query| !queries.contains(query));
        self.has_news |= std::mem::replace(&mut self.selected.waits, waits) != waits;
    }

    /// Records a new state of the job. A completed job starts again if its spec has changed.
    pub fn apply(&mut self, job: PullJob) {
        if job.generation != self.job.generation {
            // Its completion may have been missed; the change is reported with it.
            let was_completed = self.is_completed() || job.completed_at.is_some();
            if was_completed {
                (self.started_at, self.edited) = (None, true);
            }
            (self.completed, self.reported, self.events) = (None, None, 0);
            self.selected.follow(&job, was_completed);
        }
        self.started_at = self.started_at.or_else(|| begun(&job));
        // Our own status write comes back here, and changes nothing that nodes are selected by.
        let is_another = job.generation != self.job.generation || job.spec != self.job.spec;
        self.is_stale |= is_another;
        self.has_news |= is_another;
        self.job = job;
    }

    pub fn observe_selected(&mut self, event: Event<PodWire>) {
        self.is_stale |= self.selected.observe(event);
    }

    pub const fn nodes_have_changed(&mut self) {
        self.is_stale = true;
    }

    pub fn node_has_changed(&mut self, node: &str) {
        if !self.is_stale {
            self.stale_nodes.insert(node.into());
        }
    }

    /// Records that others may have left a node.
    pub fn node_is_free_again(&mut self, node: &str) {
        if let Some(run) = &mut self.run {
            run.warming.is_free_again(node);
        }
    }

    pub fn observe_pod(&mut self, pod: &WarmerPod, now: Moment) {
        if let Some(run) = self.run.as_mut().filter(|run| run.made(pod)) {
            run.warming.observe_pod(pod.clone(), now);
        }
    }

    pub fn pod_is_gone(&mut self, uid: &str, now: Moment) {
        if let Some(run) = &mut self.run {
            run.warming.pod_is_gone(uid, now);
        }
    }

    /// Records what an Event of this namespace reports about a pull. Returns its duration, unless
    /// known already. Where the pod is not, others may write Events with its uid.
    pub fn handle(&mut self, namespace: &str, uid: &str, pulled: &Pulled) -> Option<Duration> {
        let run = self.run.as_mut();
        run.filter(|run| *run.warmers.namespace == *namespace)?
            .warming
            .handle(uid, pulled)
    }

    /// Tries failed images again on a node that has become Ready, for a job of type `Never`.
    pub fn node_is_ready_again(&mut self, node: &str, now: Moment) {
        if let Some(run) = self
            .run
            .as_mut()
            .filter(|run| run.spec.completion == Completion::Never)
        {
            run.warming.try_again(node, true, now);
        }
    }

    /// Returns true if this job has created the pod, and needs it.
    pub fn owns(&self, pod: &WarmerPod) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.made(pod) && run.warming.needs(pod))
    }

    pub fn held(&self, now: Moment) -> impl Iterator<Item = (&str, bool)> {
        self.run.iter().flat_map(move |run| run.warming.held(now))
    }

    /// Returns true if one more node may begin.
    pub fn has_a_slot(&self) -> bool {
        self.may_begin() && self.run.as_ref().is_some_and(|run| run.warming.may_begin())
    }

    pub fn waits_for(&self, node: &str, now: Moment) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.warming.waits_for(node, now))
    }

    /// Returns true once the start is recorded in the status, and its nodes are known.
    fn may_begin(&self) -> bool {
        self.started_at.is_some() && self.knows_its_nodes()
    }

    /// Returns true if a pull of this job is held back on the node.
    pub fn is_kept_back(&self, node: &str) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.warming.is_kept_back(node))
    }

    /// Returns the writes to pods. `others_pull` returns true for nodes where pods wait for their
    /// images; the installation's own images do not wait for these, because they are small.
    pub fn step(
        &mut self,
        key: &Key,
        occupancy: &mut Occupancy,
        others_pull: impl Fn(&str) -> bool,
        now: Now,
    ) -> Vec<PullWrite> {
        if !self.may_begin() {
            return Vec::new();
        }
        let is_in_time = |spec| {
            self.started_at
                .is_some_and(|started_at| lets_others_pull(spec, started_at, now.today))
        };
        let waits = !self.is_of_installation() && self.spec().is_ok_and(is_in_time);
        let Some(run) = &mut self.run else {
            return Vec::new();
        };
        let actions = run.warming.step(now.moment, |node| {
            break_if_asked(node);
            Elsewhere {
                others_pull: waits && others_pull(node),
                ..occupancy.elsewhere(key, node)
            }
        });
        let untaken = run.warming.waits().first_untaken.clone();
        if let Some((node, why)) = untaken.as_ref().filter(|_| untaken != self.untaken) {
            tracing::warn!(namespace = %key.1, job = %key.2, %node, %why, "the API server does not take a write for a warmer pod; trying again");
        }
        self.untaken = untaken;
        let write = |(node, action): (Box<str>, Action)| {
            occupancy.note(key, &node, &action);
            PullWrite::Warm {
                key: key.clone(),
                warmers: run.warmers.clone(),
                node,
                action,
            }
        };
        actions.into_iter().map(write).collect()
    }

    pub fn warmed(
        &mut self,
        warmers: &Warmers,
        node: &str,
        action: &Action,
        answer: Answer,
        now: Moment,
    ) {
        if let Some(run) = self
            .run
            .as_mut()
            .filter(|run| run.warmers.run == warmers.run)
        {
            run.warming.written(node, action, answer, now);
        }
    }

    /// Returns what a job of type `Never` has not proved on a node yet; `None` if it does not want
    /// the node, or cannot warm it.
    pub fn owes(&self, node: &str) -> Option<String> {
        self.job
            .spec
            .as_ref()
            .ok()
            .filter(|spec| spec.completion == Completion::Never && !self.is_completed())?;
        let job = format!(
            "{} {}/{}",
            self.job.kind.as_str(),
            self.job.namespace,
            self.job.name
        );
        // After a defect there is no run.
        let Some(run) = self.run.as_ref().filter(|_| self.knows_its_nodes()) else {
            return Some(format!("{job}: which nodes it wants is not known"));
        };
        let images = run.warming.progress_on(node)?;
        let cold = images
            .iter()
            .find(|image| image.end != Some(End::Succeeded))?;
        Some(match &cold.end {
            Some(End::Failed(why)) => format!("{job}: {}: {why}", cold.image),
            _ => format!("{job}: {}", cold.image),
        })
    }

    /// Starts again after a defect that left it inconsistent. The job and what is known about the
    /// pods that it selects are kept.
    pub fn break_off(&mut self) {
        let selected = std::mem::replace(&mut self.selected, Selected::of(&self.job));
        *self = Self {
            has_object: self.has_object,
            selected,
            ..Self::new(self.job.clone())
        };
    }

    /// Returns the nodes on which a decision has panicked, with the panic message.
    pub fn take_defects(&mut self) -> Vec<(Box<str>, String)> {
        self.run
            .as_mut()
            .map(|run| run.warming.take_defects())
            .unwrap_or_default()
    }

    pub fn news(&mut self) -> Vec<Ended> {
        self.run
            .as_mut()
            .map(|run| run.warming.news())
            .unwrap_or_default()
    }

    /// Returns the namespace of its pods, while the job is under way.
    pub fn pod_namespace(&self) -> Option<&str> {
        self.run.as_ref().map(|run| &*run.warmers.namespace)
    }

    /// Returns when the job is next due if nothing happens; `None` if it needs no further step.
    pub fn next_due(&self, now: Now) -> Option<Moment> {
        let left = if !self.is_completed() {
            FIRST_RETRY
        } else if self.is_writing {
            // The answer comes as an event.
            return None;
        } else {
            time_to_live(&self.job, now.today)?
        };
        Some((now.moment + left).max(self.not_before))
    }
}

/// Returns when the job began; `None` if it has been completed.
fn begun(job: &PullJob) -> Option<Timestamp> {
    job.started_at.filter(|_| job.completed_at.is_none())
}
