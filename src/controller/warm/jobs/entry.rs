//! One job: its work under way, and what was reported about it.

pub(crate) mod exit_images;
mod reporting;
mod run;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use self::run::Run;
use super::occupancy::Occupancy;
use super::{Key, PodQuery, PullWrite};
use crate::frame::clock::Now;
use crate::frame::isolated::{break_if_asked, read};
use crate::frame::store::Store;
use crate::frame::watch::Event;
use crate::warm::jobs::caches::Caches;
use crate::warm::jobs::entry::run::warmers;
use crate::warm::jobs::step::Pods;
use crate::warm::jobs::step::room::Wanted;
use crate::warm::jobs::{Nodes, WarmSettings};
use crate::warm::write::Warmers;
use jiff::Timestamp;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Phase, Pod};
use swaplet_core::objects::values::bounds::{self, cut};
use swaplet_core::warm::image_cache::{CacheState, NewImageCache, patience, wanted};
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::pull_job::object::{Completion, PullJob, PullSpec, Targets};
use swaplet_core::warm::pull_job::{
    Stage, Status, exceeds_deadline, lets_others_pull, limits, time_to_live, wants,
};
use swaplet_core::warm::warming::{Action, Answer, Elsewhere, End, Pulled, Warming};

/// The wait after the first report that was not applied; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The state of one job.
pub(crate) struct Entry {
    job: Arc<PullJob>,
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
    stale_nodes: BTreeSet<Box<str>>,
    /// Set when the status may be out of date.
    has_news: bool,
    /// The number of Events about this generation of the job.
    events: usize,
    /// When failed nodes are tried again.
    again: Option<Moment>,
}

impl Entry {
    pub fn new(job: Arc<PullJob>) -> Self {
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
    pub fn apply(&mut self, job: Arc<PullJob>) {
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

    pub fn observe_selected(&mut self, event: Event<PodWire>, now: Moment) {
        let was_told = !self.selected.trouble.is_empty();
        self.is_stale |= self.selected.observe(event, now);
        self.has_news |= !was_told && !self.selected.trouble.is_empty();
    }

    pub const fn nodes_have_changed(&mut self) {
        self.is_stale = true;
    }

    pub fn node_has_changed(&mut self, node: &str) {
        if !self.is_stale {
            self.stale_nodes.insert(node.into());
        }
    }

    /// Returns the progress on its nodes, while the job is under way.
    pub fn warming(&self) -> Option<&Warming> {
        self.run.as_ref().map(|run| &run.warming)
    }

    pub fn warming_mut(&mut self) -> Option<&mut Warming> {
        self.run.as_mut().map(|run| &mut run.warming)
    }

    pub fn observe_pod(&mut self, pod: &WarmerPod, now: Moment) {
        if let Some(run) = self.run.as_mut().filter(|run| run.made(pod)) {
            run.warming.observe_pod(pod.clone(), now);
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

    /// Returns true if one more node may begin.
    pub fn has_a_slot(&self) -> bool {
        self.may_begin() && self.warming().is_some_and(Warming::may_begin)
    }

    /// Returns true once the start is recorded in the status, and its nodes are known.
    fn may_begin(&self) -> bool {
        self.started_at.is_some() && self.knows_its_nodes()
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

// The image cache of a job, for nodes whose provider has image caches.

impl Entry {
    /// Updates the state of the job's cache. Returns the cache if it is to be created, which is
    /// never the case for a job without an object, because it has no status.
    pub fn cache(&mut self, caches: &mut Caches, now: Moment) -> Option<NewImageCache> {
        let may_begin = self.has_object && self.may_begin();
        let run = self
            .run
            .as_mut()
            .filter(|run| !run.cached.nodes.is_empty() && run.gave_up.is_none())?;
        let cache = match wanted(&self.job, &run.spec, &caches.options) {
            Ok(cache) => cache,
            Err(state) => {
                self.has_news |= state != run.cached.state;
                run.cached.state = state;
                return None;
            }
        };
        let (name, since) = run
            .cache_since
            .take()
            .filter(|(name, _)| *name == cache.name)
            .unwrap_or_else(|| (cache.name.clone(), now));
        run.cache_since = Some((name, since));
        let limit = patience(&run.spec).filter(|limit| now >= since + *limit);
        let state = match (caches.state(&cache, now), limit) {
            (CacheState::Waits(why), Some(limit)) => {
                CacheState::Failed(format!("not Ready within {} s: {why}", limit.as_secs()))
            }
            (state, _) => state,
        };
        self.has_news |= state != run.cached.state;
        run.cached.state = state;
        // Checked last, because it counts the cache as in flight.
        (may_begin && limit.is_none() && caches.is_to_be_made(&cache, now)).then_some(cache)
    }
}

// The preparation of a job before a step: its nodes, its pods and its limits.

impl Entry {
    /// Updates the run to the job, the nodes and the time.
    pub fn prepare(&mut self, settings: &WarmSettings, nodes: &Nodes, pods: &Pods, now: Now) {
        let spec = self.job.spec.as_ref().ok().filter(|_| !self.is_completed());
        let Some(spec) = spec else {
            self.run = None;
            return;
        };
        let is_late = self
            .started_at
            .is_some_and(|started_at| exceeds_deadline(spec, started_at, now.today));
        let is_unlisted = !self.waits_for_room && self.selected.are_unlisted(now.moment);
        let gives_up = if is_late {
            Some(Stage::DeadlineExceeded)
        } else {
            is_unlisted.then_some(Stage::GaveUp)
        };
        let warmers = warmers(&self.job, self.has_object, spec, settings);
        // One whose deadline has been raised begins again.
        let goes_on = |run: &Run| {
            run.warmers.run == warmers.run && (run.gave_up.is_none() || gives_up.is_some())
        };
        if !self.run.as_ref().is_some_and(goes_on) {
            self.run = Some(Run::new(
                spec.clone(),
                Arc::new(warmers),
                settings.longest_try,
            ));
            self.is_stale = true;
        }
        let Some(run) = &mut self.run else { return };
        if run.spec != *spec {
            run.change(spec);
            self.has_news = true;
        }
        let stale_nodes = std::mem::take(&mut self.stale_nodes);
        if self.waits_for_room {
            // Its nodes are looked for once there is room.
            self.is_stale = true;
        } else if std::mem::take(&mut self.is_stale) {
            run.aim(nodes, &self.selected, pods, now.moment);
            self.has_news = true;
        } else if !stale_nodes.is_empty() {
            run.aim_at(stale_nodes, nodes, &self.selected, pods, now.moment);
            self.has_news = true;
        }
        // Nodes and images that are new since then are not begun either.
        if let Some(stage) = gives_up.filter(|_| run.gave_up.is_none() || self.has_news) {
            run.give_up(stage);
            self.has_news = true;
        }
        self.try_failed_again(nodes, now.moment);
    }

    /// Sets the limits; `leaving` pods of the job are no longer needed but still there.
    pub fn bound(&mut self, leaving: usize, longest_try: Duration) {
        if let Some(run) = &mut self.run {
            run.warming
                .set_limits(limits(&run.spec, run.nodes.len(), leaving, longest_try));
        }
    }
}

// The pods by which a job selects nodes.

/// How long the pods are waited for, like all tries of an image.
const LISTED_WITHIN: Duration = Duration::from_secs(600);
/// What the number of a query grows by when its pods are collected again: no generation is as large.
const ANOTHER: i64 = 1 << 32;

/// The pods that a job's `podSelector` matches, with their nodes.
pub(crate) struct Selected {
    /// The query for the pods; `None` if the job has no `podSelector`.
    pub query: Option<PodQuery>,
    /// True while the pods are not watched, because too many other jobs have theirs.
    pub waits: bool,
    /// The node of each active pod.
    pods: Store<Box<str>>,
    /// The number of pods when they were forgotten, until they have been listed again.
    forgotten: usize,
    /// Since when the pods are waited for; `None` if they are known, or not watched.
    since: Option<Moment>,
    /// Why they could not be listed, if the API server said so.
    pub trouble: String,
}

impl Selected {
    pub fn of(job: &PullJob) -> Self {
        Self {
            query: query(job),
            waits: false,
            pods: Store::default(),
            forgotten: 0,
            since: None,
            trouble: String::new(),
        }
    }

    /// Follows a change of the job: a new selector starts again without pods, and so does a job that
    /// was completed, because its pods were not watched meanwhile.
    pub fn follow(&mut self, job: &PullJob, was_completed: bool) {
        let new = query(job);
        let selector = |query: &Option<PodQuery>| query.as_ref().map(|query| query.2.clone());
        if was_completed || selector(&new) != selector(&self.query) {
            *self = Self::of(job);
        }
    }

    /// Returns true once the pods have been listed, or if the job has no `podSelector`.
    pub const fn are_known(&self) -> bool {
        self.query.is_none() || self.pods.is_complete()
    }

    /// Returns true if the pods are watched and have not been listed for too long.
    pub fn are_unlisted(&mut self, now: Moment) -> bool {
        if self.are_known() || self.waits {
            (self.since, self.trouble) = (None, String::new());
        } else {
            self.since = self.since.or(Some(now));
        }
        self.since.is_some_and(|since| now >= since + LISTED_WITHIN)
    }

    /// Returns the number of pods; where they were forgotten, as many as they were at least.
    pub fn count(&self) -> usize {
        self.pods.len().max(self.forgotten)
    }

    /// Forgets the pods while there is no room for them. Later they are collected by another query,
    /// because events of this one may still come.
    pub fn forget(&mut self) {
        self.forgotten = self.count();
        self.drop_all();
        if let Some(query) = &mut self.query {
            query.3 = query.3.saturating_add(ANOTHER);
        }
    }

    /// Drops the pods of a completed job, which are not watched any more.
    pub fn drop_all(&mut self) {
        self.pods = Store::default();
        (self.since, self.trouble) = (None, String::new());
    }

    pub fn nodes(&self) -> BTreeSet<Box<str>> {
        self.pods.iter().map(|(_, node, ())| node.clone()).collect()
    }

    /// Records an event. Returns true if the nodes may have changed.
    pub fn observe(&mut self, event: Event<PodWire>, now: Moment) -> bool {
        if let Some(trouble) = event.trouble() {
            self.trouble = cut(trouble, bounds::MESSAGE);
        }
        let were_known = self.are_known();
        let read = |pod: PodWire| active_node(read("pod", || pod.read())?);
        let changes = self.pods.observe(event, now, read);
        if self.pods.is_complete() {
            self.forgotten = 0;
        }
        let is_moved = |(key, before): (_, Option<_>)| {
            self.pods.get(&key).map(|(node, ())| node) != before.as_ref()
        };
        self.are_known() != were_known
            || !changes.gone.is_empty()
            || changes.put.is_some_and(is_moved)
    }
}

/// Returns the node of a pod. Finished and terminating pods do not count (OpenKruise: active pods).
fn active_node(pod: Pod) -> Option<Box<str>> {
    let is_over = pod.deleting || matches!(pod.phase, Phase::Succeeded | Phase::Failed);
    (!is_over && !pod.node.is_empty()).then_some(pod.node)
}

fn query(job: &PullJob) -> Option<PodQuery> {
    let Targets::Pods(selector) = &job.spec.as_ref().ok()?.targets else {
        return None;
    };
    Some((
        job.uid.clone(),
        job.namespace.clone(),
        selector.to_string(),
        job.generation,
    ))
}

// The memory that a job takes: for each of its images on each of its nodes, and for each pod that
// it selects.

/// What a node takes besides its images, as a number of images.
const NODE: usize = 4;
/// What a selected pod takes.
const POD: usize = 2;

impl Entry {
    /// Returns how much room the job takes, or may take if it waits; `None` if it needs none, or the
    /// administrator wants it.
    pub fn wanted_room(&self, nodes: &Nodes) -> Option<Wanted> {
        if self.is_completed() || self.is_of_installation() {
            return None;
        }
        let spec = self.spec().ok()?;
        let all = nodes.all.len();
        let count = match (&self.run, &spec.targets) {
            (Some(run), _) if !self.waits_for_room && !self.is_stale => run.nodes.len(),
            (_, Targets::Names(names)) => names.len().min(all),
            (_, Targets::Pods(_)) => self.selected.count().min(all),
            // To compare those that wait with all nodes in each step would take too long.
            (_, Targets::Labels(_)) if self.waits_for_room => all,
            (_, Targets::Labels(_)) => {
                let (nodes, pods) = (nodes.all.iter(), BTreeSet::new());
                let wanted =
                    nodes.filter(|(key, node, ())| wants(&spec.targets, &key.1, node, &pods));
                wanted.count()
            }
        };
        Some(Wanted {
            waits: self.waits_for_room,
            since: self.started_at,
            cost: count
                .saturating_mul(spec.images.len() + NODE)
                .saturating_add(self.selected.count().saturating_mul(POD)),
        })
    }

    /// Records whether there is room for the job. Without room it has no nodes, its pods are
    /// deleted, and those that it selects are forgotten.
    pub fn has_room(&mut self, has_room: bool) {
        if self.waits_for_room == has_room {
            self.waits_for_room = !has_room;
            (self.is_stale, self.has_news) = (true, true);
            if !has_room {
                self.run = None;
                self.selected.forget();
            }
        }
    }

    /// Returns true if there is room for its nodes, and the nodes of selected pods are known.
    fn knows_its_nodes(&self) -> bool {
        self.selected.are_known() && !self.waits_for_room
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use swaplet_core::cluster::node_table::NodeTable;
    use swaplet_core::warm::pull_job::object::{JobKind, PullJob};

    use super::*;
    use crate::frame::clock::TimeOfDay;
    use crate::frame::watch::Event;

    /// A job that selects pods.
    fn job(status: &Value) -> Arc<PullJob> {
        let metadata = json!({"name": "j", "namespace": "team", "uid": "u", "generation": 1});
        let spec = json!({"image": "a", "podSelector": {"matchLabels": {"app": "web"}}});
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        let object = serde_json::from_value(object).unwrap();
        PullJob::read(JobKind::ImagePullJob, object).unwrap().into()
    }

    /// A list of so many pods.
    fn lists(entry: &mut Entry, count: usize) {
        let pods = (0..count).map(|number| {
            let name = number.to_string();
            let metadata = json!({"name": name, "namespace": "team", "uid": name});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
            serde_json::from_value(pod).unwrap()
        });
        for event in Event::list_of(pods) {
            entry.observe_selected(event, Moment::START);
        }
    }

    fn cost(entry: &Entry) -> usize {
        let nodes = Nodes::new(NodeTable::built_in(), None, false);
        entry.wanted_room(&nodes).unwrap().cost
    }

    #[test]
    fn a12_selected_pods_take_room_and_are_forgotten_where_there_is_none() {
        let mut entry = Entry::new(job(&json!({})));
        lists(&mut entry, 3);
        assert_eq!((cost(&entry), entry.knows_its_nodes()), (6, true));
        let query = entry.query().cloned();
        entry.has_room(false);
        assert!(entry.selected.nodes().is_empty() && entry.query().is_none());
        assert_eq!(cost(&entry), 6, "it needs no less than before");
        entry.has_room(true);
        assert!(entry.query().is_some() && entry.query() != query.as_ref());
        assert_eq!((cost(&entry), entry.knows_its_nodes()), (6, false));
        lists(&mut entry, 1);
        assert_eq!((cost(&entry), entry.knows_its_nodes()), (2, true));
    }

    #[test]
    fn a12_a_completed_job_keeps_none_of_the_pods_that_it_has_selected() {
        let mut entry = Entry::new(job(&json!({})));
        lists(&mut entry, 3);
        let status = json!({"startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:01:00Z", "observedGeneration": 1});
        entry.apply(job(&status));
        entry.are_followed(&BTreeSet::new());
        assert_eq!(entry.selected.count(), 0);
    }

    fn now(seconds: u64) -> Now {
        Now {
            moment: Moment::START + Duration::from_secs(seconds),
            today: Timestamp::from_second(1_767_225_600 + i64::try_from(seconds).unwrap()).unwrap(),
        }
    }

    fn settings() -> WarmSettings {
        WarmSettings {
            namespace: "default".into(),
            park_image: "registry.example/park:1".into(),
            exit_image: None,
            startup_taint_timeout: None,
            startup_taint_namespaces: BTreeSet::new(),
            longest_try: Duration::from_secs(1800),
            coexist: swaplet_core::terminate::openkruise::Coexist::default(),
            image_caches: None,
            sandbox_keys: swaplet_core::warm::pull_job::sandbox::SandboxKeys::default(),
            time_of_day: TimeOfDay(Arc::new(|| Timestamp::UNIX_EPOCH)),
        }
    }

    fn prepare(entry: &mut Entry, seconds: u64) {
        let nodes = Nodes::new(NodeTable::built_in(), None, false);
        entry.prepare(&settings(), &nodes, &Pods::default(), now(seconds));
    }

    /// Else it would say for ever that no node is selected.
    #[test]
    fn u112_a_job_whose_pods_cannot_be_listed_says_so_and_ends() {
        let mut entry = Entry::new(job(&json!({"startTime": "2026-01-01T00:00:00Z"})));
        prepare(&mut entry, 0);
        assert!(entry.report(now(0)).is_some());
        entry.is_writing = false;
        let forbidden = Event::Forbidden("pods is forbidden".to_owned());
        entry.observe_selected(forbidden, Moment::START);
        let Some(PullWrite::Report { report, .. }) = entry.report(now(3)) else {
            panic!("no report")
        };
        let text = json!(report.status).to_string();
        assert!(
            text.contains("its nodes are not known: pods is forbidden"),
            "{text}"
        );
        assert_eq!(report.completed_at, None);
        entry.is_writing = false;
        prepare(&mut entry, 599);
        assert!(entry.run.as_ref().unwrap().gave_up.is_none());
        prepare(&mut entry, 600);
        let Some(PullWrite::Report { report, .. }) = entry.report(now(600)) else {
            panic!("no report")
        };
        let text = json!(report.status).to_string();
        assert!(
            text.contains("job has failed; the pods that its podSelector"),
            "{text}"
        );
        assert!(report.completed_at.is_some());
    }

    /// The status that completes the job may have been refused.
    #[test]
    fn u113_a_job_whose_deadline_is_raised_begins_again() {
        let of = |deadline: u64, generation: u64| {
            let metadata =
                json!({"name": "j", "namespace": "team", "uid": "u", "generation": generation});
            let spec =
                json!({"image": "a", "completionPolicy": {"activeDeadlineSeconds": deadline}});
            let status = json!({"startTime": "2026-01-01T00:00:00Z"});
            let object = json!({"metadata": metadata, "spec": spec, "status": status});
            let object = serde_json::from_value(object).unwrap();
            PullJob::read(JobKind::ImagePullJob, object).unwrap().into()
        };
        let mut entry = Entry::new(of(60, 1));
        prepare(&mut entry, 60);
        assert_eq!(
            entry.run.as_ref().unwrap().gave_up,
            Some(Stage::DeadlineExceeded)
        );
        entry.apply(of(600, 2));
        prepare(&mut entry, 61);
        assert_eq!(entry.run.as_ref().unwrap().gave_up, None);
    }
}
