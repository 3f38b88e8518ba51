//! One job: what is under way for it, and what was told of it.

mod caching;
pub(crate) mod exit_images;
mod pinning;
mod prepare;
mod reporting;
mod run;
mod selected;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::pull_job::object::{Completion, PodWishes, PullJob, PullSpec};
use swaplet_core::warm::pull_job::pins::Pins;
use swaplet_core::warm::pull_job::{Status, lets_others_pull, time_to_live};
use swaplet_core::warm::warming::pulled::Pulled;
use swaplet_core::warm::warming::{Action, Answer, Elsewhere, End, Ended};

use self::run::Run;
use self::selected::Selected;
use super::messages::{Key, PodQuery, PullWrite};
use super::room::Room;
use crate::frame::clock::Now;
use crate::frame::isolated::break_if_asked;
use crate::frame::watch::Event;
use crate::warm::write::Warmers;

/// The wait after the first report that was not applied; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// A job.
pub(crate) struct Entry {
    job: PullJob,
    /// Whether the job is an object of the cluster.
    has_object: bool,
    run: Option<Run>,
    selected: Selected,
    /// When the job as it is now was begun, once that is written down.
    started_at: Option<Timestamp>,
    /// The generation of which this life has written that it is completed; the watch may still show
    /// an older state.
    completed: Option<i64>,
    /// What the status says, if this life has written it.
    told: Option<Status>,
    is_writing: bool,
    not_before: Duration,
    failures: u32,
    /// What the job wants may have changed, or which nodes there are.
    is_stale: bool,
    /// Nodes that have changed.
    stale_nodes: BTreeSet<Box<str>>,
    /// The status may have to say something else than it does.
    has_news: bool,
    /// How many Events have told of this job as it is now.
    events: usize,
    /// When nodes that have failed are tried again.
    again: Option<Duration>,
    pins: Pins,
}

impl Entry {
    pub fn new(job: PullJob) -> Self {
        Self {
            started_at: begun(&job),
            selected: Selected::of(&job),
            job,
            has_object: true,
            run: None,
            completed: None,
            told: None,
            is_writing: false,
            not_before: Duration::ZERO,
            failures: 0,
            is_stale: true,
            stale_nodes: BTreeSet::new(),
            has_news: true,
            events: 0,
            again: None,
            pins: Pins::default(),
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
        self.completed == Some(self.job.generation) || self.job.is_completed()
    }

    pub const fn query(&self) -> Option<&PodQuery> {
        self.selected.query.as_ref()
    }

    /// The job has changed. One that was completed begins anew where its spec is another one.
    pub fn apply(&mut self, job: PullJob) {
        if job.generation != self.job.generation {
            if self.is_completed() {
                self.started_at = None;
            }
            (self.completed, self.told, self.events) = (None, None, 0);
            self.selected.follow(&job);
            if let Ok(spec) = &job.spec {
                self.pins.follow(spec);
            }
        }
        self.started_at = self.started_at.or_else(|| begun(&job));
        // What was written to its status comes back, and changes nothing that nodes are chosen by.
        let is_another = job.generation != self.job.generation
            || job.spec != self.job.spec
            || job.pinned != self.job.pinned;
        self.is_stale |= is_another;
        self.has_news |= is_another;
        self.job = job;
    }

    pub fn see_selected(&mut self, event: Event<PodWire>) {
        self.is_stale |= self.selected.see(event);
    }

    pub const fn nodes_have_changed(&mut self) {
        self.is_stale = true;
    }

    pub fn node_has_changed(&mut self, node: &str) {
        if !self.is_stale {
            self.stale_nodes.insert(node.into());
        }
    }

    /// Others who were on a node may have left it.
    pub fn node_is_free_again(&mut self, node: &str) {
        if let Some(run) = &mut self.run {
            run.warming.is_free_again(node);
        }
    }

    pub fn see_pod(&mut self, pod: &WarmerPod, now: Duration) {
        if let Some(run) = self.run.as_mut().filter(|run| run.made(pod)) {
            run.warming.see_pod(pod.clone(), now);
        }
    }

    pub fn pod_is_gone(&mut self, uid: &str, now: Duration) {
        if let Some(run) = &mut self.run {
            run.warming.pod_is_gone(uid, now);
        }
    }

    /// How long the pull took, where that is news.
    pub fn hear(&mut self, uid: &str, pulled: &Pulled) -> Option<Duration> {
        self.run.as_mut()?.warming.hear(uid, pulled)
    }

    /// A job that goes on for ever tries again where a node has come back.
    pub fn node_is_ready_again(&mut self, node: &str, now: Duration) {
        if let Some(run) = self
            .run
            .as_mut()
            .filter(|run| run.spec.completion == Completion::Never)
        {
            run.warming.try_again(node, true, now);
        }
    }

    /// Whether this job has made the pod, and needs it.
    pub fn owns(&self, pod: &WarmerPod) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.made(pod) && run.warming.needs(pod))
    }

    pub fn held(&self, now: Duration) -> impl Iterator<Item = (&str, bool)> {
        self.run.iter().flat_map(move |run| run.warming.held(now))
    }

    /// Whether one more node may begin.
    pub fn has_a_slot(&self) -> bool {
        self.may_begin() && self.run.as_ref().is_some_and(|run| run.warming.may_begin())
    }

    pub fn waits_for(&self, node: &str, now: Duration) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.warming.waits_for(node, now))
    }

    /// Whether it is written down when the job was begun, and known which nodes it wants.
    fn may_begin(&self) -> bool {
        self.started_at.is_some() && self.selected.seen
    }

    /// Whether a pull of this job is kept back on the node.
    pub fn is_kept_back(&self, node: &str) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.warming.is_kept_back(node))
    }

    /// `others_pull` says where pods wait for their images. What the installation itself keeps on
    /// the nodes is small, and comes first.
    pub fn step(
        &mut self,
        key: &Key,
        room: &mut Room,
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
        let actions = run.warming.step(now.since_start, |node| {
            break_if_asked(node);
            Elsewhere {
                others_pull: waits && others_pull(node),
                ..room.elsewhere(key, node)
            }
        });
        let write = |(node, action): (Box<str>, Action)| {
            room.note(key, &node, &action);
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
        now: Duration,
    ) {
        if let Some(run) = self
            .run
            .as_mut()
            .filter(|run| run.warmers.run == warmers.run)
        {
            run.warming.written(node, action, answer, now);
        }
    }

    /// What a job that goes on for ever has not proved on a node yet; nothing where it does not
    /// want the node, or can do nothing for it.
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
        // One that a defect has broken off has none.
        let Some(run) = self.run.as_ref().filter(|_| self.selected.seen) else {
            return Some(format!("{job}: which nodes it wants is not known"));
        };
        let images = run.warming.progress_on(node)?;
        if let Some(image) = self.not_pinned() {
            return Some(format!("{job}: {image}"));
        }
        let cold = images
            .iter()
            .find(|image| image.end != Some(End::Succeeded))?;
        Some(match &cold.end {
            Some(End::Failed(why)) => format!("{job}: {}: {why}", cold.image),
            _ => format!("{job}: {}", cold.image),
        })
    }

    /// A defect has left it half done: it begins anew, with the job and what is known of the pods
    /// that it selects.
    pub fn break_off(&mut self) {
        let selected = std::mem::replace(&mut self.selected, Selected::of(&self.job));
        *self = Self {
            has_object: self.has_object,
            selected,
            ..Self::new(self.job.clone())
        };
    }

    /// The nodes about which a decision has panicked, with what the panic says.
    pub fn take_defects(&mut self) -> Vec<(Box<str>, String)> {
        self.run
            .as_mut()
            .map(|run| run.warming.take_defects())
            .unwrap_or_default()
    }

    /// The nodes on which pods of another shape are used now, and why.
    pub fn fallbacks(&mut self) -> Vec<(Box<str>, Box<str>)> {
        self.run
            .as_mut()
            .map(|run| run.warming.fallbacks())
            .unwrap_or_default()
    }

    pub fn news(&mut self) -> Vec<Ended> {
        self.run
            .as_mut()
            .map(|run| run.warming.news())
            .unwrap_or_default()
    }

    /// In which namespace the pods are, while it is under way.
    pub fn pod_namespace(&self) -> Option<&str> {
        self.run.as_ref().map(|run| &*run.warmers.namespace)
    }

    /// In which namespace and how the pods pull that prove something.
    pub fn prover(&self) -> Option<(Box<str>, PodWishes)> {
        self.run
            .as_ref()
            .map(|run| (run.warmers.namespace.clone(), run.spec.pods.clone()))
    }

    /// Another job has proved that an image is on a node. It counts where a pod of this job would
    /// prove the same: with the same credentials, and asked of the registry if that is wanted.
    pub fn found(&mut self, namespace: &str, wishes: &PodWishes, ended: &Ended) {
        let Some(run) = &mut self.run else { return };
        let own = &run.spec.pods;
        let same_credentials =
            own.pull_secrets == wishes.pull_secrets && *run.warmers.namespace == *namespace;
        if same_credentials && (wishes.always_pulls || !own.always_pulls) {
            run.warming
                .found(&ended.node, &ended.image, ended.pulled.as_ref());
        }
    }

    /// When to look again although nothing happens.
    pub fn next_due(&self, now: Now) -> Option<Duration> {
        let left = if self.is_completed() {
            time_to_live(&self.job, now.today)?
        } else {
            FIRST_RETRY
        };
        Some((now.since_start + left).max(self.not_before))
    }
}

/// When the job was begun, unless that was before it was completed and changed.
fn begun(job: &PullJob) -> Option<Timestamp> {
    job.started_at.filter(|_| job.completed_at.is_none())
}
