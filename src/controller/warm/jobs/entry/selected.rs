//! The pods by which a job selects nodes.

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Phase, Pod};
use swaplet_core::warm::pull_job::object::{PullJob, Targets};

use crate::frame::isolated::defects::read;
use crate::frame::watch::Event;
use crate::frame::watch::mirror::{Change, Mirror};
use crate::warm::jobs::messages::PodQuery;

/// What the number of a query grows by when its pods are collected again: no generation is as large.
const ANOTHER: i64 = 1 << 32;

/// The pods that a job's `podSelector` matches, with their nodes.
pub(crate) struct Selected {
    /// The query for the pods; `None` if the job has no `podSelector`.
    pub query: Option<PodQuery>,
    /// True while the pods are not watched, because too many other jobs have theirs.
    pub waits: bool,
    /// The node of each pod, by the pod's uid.
    pods: BTreeMap<Box<str>, Box<str>>,
    mirror: Mirror<Box<str>>,
    /// The number of pods when they were forgotten, until they have been listed again.
    forgotten: usize,
}

impl Selected {
    pub fn of(job: &PullJob) -> Self {
        Self {
            query: query(job),
            waits: false,
            pods: BTreeMap::new(),
            mirror: Mirror::new(),
            forgotten: 0,
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
        self.query.is_none() || self.mirror.is_complete()
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
        self.pods = BTreeMap::new();
        self.mirror = Mirror::new();
    }

    pub fn nodes(&self) -> BTreeSet<Box<str>> {
        self.pods.values().cloned().collect()
    }

    /// Records an event. Returns true if the nodes may have changed.
    pub fn observe(&mut self, event: Event<PodWire>) -> bool {
        let read = |pod: PodWire| {
            let pod = read("pod", || pod.read())?;
            Some((pod.uid.clone(), pod))
        };
        let (were_known, before) = (self.are_known(), self.pods.len());
        let known = self.pods.keys().cloned();
        let change = self.mirror.change(event, known, read);
        if self.mirror.is_complete() {
            self.forgotten = 0;
        }
        match change {
            Some(Change::Put(pod)) => self.apply(&pod),
            Some(Change::Gone(uids)) => {
                uids.iter().for_each(|uid| drop(self.pods.remove(uid)));
                !were_known || self.pods.len() < before
            }
            None => false,
        }
    }

    /// Records a pod. Finished and terminating pods do not count (OpenKruise: active pods).
    fn apply(&mut self, pod: &Pod) -> bool {
        let is_active = !pod.deleting
            && !matches!(pod.phase, Phase::Succeeded | Phase::Failed)
            && !pod.node.is_empty();
        if !is_active {
            return self.pods.remove(&pod.uid).is_some();
        }
        self.pods.insert(pod.uid.clone(), pod.node.clone()).as_ref() != Some(&pod.node)
    }
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
