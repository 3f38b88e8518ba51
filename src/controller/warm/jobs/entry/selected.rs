//! The pods by which a job selects nodes.

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Phase, Pod};
use swaplet_core::warm::pull_job::object::{PullJob, Targets};

use crate::frame::isolated::defects::read;
use crate::frame::watch::Event;
use crate::warm::jobs::messages::PodQuery;

/// The pods that a job's `podSelector` matches, with their nodes.
pub(crate) struct Selected {
    /// The query for the pods; `None` if the job has no `podSelector`.
    pub query: Option<PodQuery>,
    /// True once the pods have been listed, or if the job has no `podSelector`.
    pub seen: bool,
    /// True while the pods are not watched, because too many other jobs have theirs.
    pub waits: bool,
    /// The node of each pod, by the pod's uid.
    pods: BTreeMap<Box<str>, Box<str>>,
    unlisted: BTreeSet<Box<str>>,
}

impl Selected {
    pub fn of(job: &PullJob) -> Self {
        let query = query(job);
        Self {
            seen: query.is_none(),
            query,
            waits: false,
            pods: BTreeMap::new(),
            unlisted: BTreeSet::new(),
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

    /// Returns the number of pods.
    pub fn count(&self) -> usize {
        self.pods.len()
    }

    pub fn nodes(&self) -> BTreeSet<Box<str>> {
        self.pods.values().cloned().collect()
    }

    /// Records an event. Returns true if the nodes may have changed.
    pub fn observe(&mut self, event: Event<PodWire>) -> bool {
        match event {
            Event::ListStart => self.unlisted = self.pods.keys().cloned().collect(),
            Event::Listed(pod) | Event::Applied(pod) => {
                return read("pod", || pod.read()).is_some_and(|pod| self.apply(&pod));
            }
            Event::ListEnd => {
                self.seen = true;
                std::mem::take(&mut self.unlisted)
                    .iter()
                    .for_each(|uid| drop(self.pods.remove(uid)));
                return true;
            }
            Event::Deleted(pod) => {
                return read("pod", || pod.read())
                    .is_some_and(|pod| self.pods.remove(&pod.uid).is_some());
            }
            Event::Current(_) | Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {}
        }
        false
    }

    /// Records a pod. Finished and terminating pods do not count (OpenKruise: active pods).
    fn apply(&mut self, pod: &Pod) -> bool {
        self.unlisted.remove(&pod.uid);
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
