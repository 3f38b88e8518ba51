//! Pods that belong to no job that is under way.

use std::collections::BTreeMap;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::warming::LEAVE;

use crate::frame::writer::is_unreached;
use crate::warm::jobs::PullJobs;
use crate::warm::jobs::entry::Entry;
use crate::warm::jobs::{Key, PullWrite};

/// The wait after the answer before the deletion of the same pod is requested again.
const DELETE_AGAIN: Duration = Duration::from_secs(60);
/// The wait after the API server has denied it: a right is missing, as for a pod that somebody has
/// made to look like one of ours in a namespace of their own.
const DENIED_AGAIN: Duration = Duration::from_secs(600);

/// The deletion of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deletion {
    /// When it was requested first, or when the pod was first seen terminating.
    pub(crate) since: Moment,
    /// The earliest time of another request.
    pub(crate) again: Moment,
}

impl PullJobs {
    /// Returns the strays to delete: those of jobs that are not left alone after a panic.
    pub(crate) fn orphans(&self, now: Moment) -> impl Iterator<Item = &WarmerPod> {
        let jobs = self.by_uid();
        self.strays().filter(move |pod| {
            !jobs
                .get(&*pod.job)
                .is_some_and(|(key, _)| self.jobs.leaves_alone(key, now))
        })
    }

    /// Returns the pods that belong to no job under way. Pods of jobs in namespaces that are not
    /// watched are left out, and so are pods in a namespace where no job of theirs could have any.
    pub(crate) fn strays(&self) -> impl Iterator<Item = &WarmerPod> {
        let jobs = self.by_uid();
        let is_ours = |pod: &&WarmerPod| {
            (self.is_in_our_namespace(pod) || pod.namespace == pod.job_namespace)
                && (pod.job == self.exit_images || self.namespaces.contain(&pod.job_namespace))
        };
        let known = self.pods.values().filter(is_ours);
        known.filter(move |pod| {
            !jobs
                .get(&*pod.job)
                .is_some_and(|(_, entry)| entry.owns(pod))
        })
    }

    /// Returns true for a pod in the namespace of the installation. Elsewhere anyone who may create
    /// pods can make one that looks like ours; it must hold no node, and count for no job of
    /// another namespace.
    pub(crate) fn is_in_our_namespace(&self, pod: &WarmerPod) -> bool {
        pod.namespace == self.settings.namespace
    }

    fn by_uid(&self) -> BTreeMap<&str, (&Key, &Entry)> {
        self.jobs
            .all
            .iter()
            .map(|(key, entry)| (entry.uid(), (key, entry)))
            .collect()
    }

    /// Returns false for a pod that pulls nothing for us any more, or whose deletion takes too long,
    /// or is denied: it may stay for ever, as a job also leaves its own behind.
    pub(crate) fn may_pull(&self, pod: &WarmerPod, now: Moment) -> bool {
        let deletion = self.deletions.get(&pod.uid);
        let is_left = deletion.is_some_and(|deletion| deletion.since + LEAVE <= now);
        !is_left && !pod.phase.is_terminal()
    }

    /// Returns the number of pods that each job still has but no longer needs. Left out are those
    /// that may stay for ever, and those on nodes that are not Ready.
    pub(crate) fn leaving(&self, now: Moment) -> BTreeMap<Box<str>, usize> {
        let mut leaving = BTreeMap::new();
        let is_ready =
            |pod: &&WarmerPod| self.nodes.all.get(&pod.node).is_some_and(|node| node.ready);
        let jobs = self.by_uid();
        let is_of_its_job = |pod: &&WarmerPod| {
            let job = jobs.get(&*pod.job);
            self.is_in_our_namespace(pod) || job.is_some_and(|(key, _)| key.1 == pod.namespace)
        };
        self.orphans(now)
            .filter(is_of_its_job)
            .filter(|pod| self.may_pull(pod, now))
            .filter(is_ready)
            .for_each(|pod| *leaving.entry(pod.job.clone()).or_default() += 1);
        leaving
    }

    pub(crate) fn delete_orphans(&mut self, now: Moment) -> Vec<PullWrite> {
        let is_due = |pod: &&WarmerPod| {
            !pod.deleting
                && self
                    .deletions
                    .get(&pod.uid)
                    .is_none_or(|deletion| deletion.again <= now)
        };
        let orphans: Vec<WarmerPod> = self.orphans(now).filter(is_due).cloned().collect();
        // Not again before the answer, however long that takes.
        for pod in &orphans {
            let again = Moment::NEVER;
            let first = Deletion { since: now, again };
            self.deletions.entry(pod.uid.clone()).or_insert(first).again = again;
        }
        orphans
            .into_iter()
            .map(|pod| PullWrite::DeletePod(Box::new(pod)))
            .collect()
    }

    /// Records the answer to a deletion. The watch shows what becomes of the pod.
    pub(crate) fn deletion_was_answered(
        &mut self,
        pod: &WarmerPod,
        answer: &Result<(), WriteError>,
        now: Moment,
    ) {
        let wait = match answer {
            Err(WriteError::Denied(words)) if !is_unreached(words) => DENIED_AGAIN,
            _ => DELETE_AGAIN,
        };
        // Once it is seen terminating, that time counts.
        let deletion = self.deletions.get_mut(&pod.uid);
        if let Some(deletion) = deletion.filter(|deletion| deletion.again == Moment::NEVER) {
            deletion.again = now + wait;
        }
    }

    /// Returns when the next deletion may be requested again, or counts no more; `None` if there is
    /// none.
    pub(crate) fn next_deletion(&self, now: Moment) -> Option<Moment> {
        let times = self.deletions.values();
        times
            .flat_map(|deletion| [deletion.again, deletion.since + LEAVE])
            .filter(|time| *time > now && *time < Moment::NEVER)
            .min()
    }
}
