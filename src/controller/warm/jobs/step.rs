//! The parts of a step besides the jobs: orphaned pods, what has become final, the queries
//! for pods, the room for jobs, the startup taint, and finalizers that OpenKruise left behind.

pub(super) mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::frame::store::{self, Store};
use crate::frame::watch::shared;
use crate::frame::writer::{is_missing_right, is_unreached};
use crate::warm::jobs::entry::Entry;
use crate::warm::jobs::{Key, PodQuery, PullJobs, PullWrite};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::pull_job::object::PullJob;
use swaplet_core::warm::startup_taint::{STARTUP_TAINT, Untaint};
use swaplet_core::warm::warming::{End, LEAVE, Warming};

// Reports about images that are final on a node.

impl PullJobs {
    /// Reports what is final.
    pub(in crate::warm::jobs) fn report_ended(&mut self, now: Moment) {
        let notices = self.jobs.each(now, |(_, namespace, name), entry| {
            let mut notices = Vec::new();
            let news = entry.warming_mut().map(Warming::news);
            for ended in news.into_iter().flatten() {
                let (node, image) = (&ended.node, &ended.image);
                match &ended.end {
                    End::Succeeded => {
                        tracing::info!(%namespace, job = %name, %node, %image, "the image is on the node");
                    }
                    End::Failed(why) => match entry.notice(&ended, why) {
                        Some(notice) => notices.push(notice),
                        None => {
                            tracing::warn!(%namespace, job = %name, %node, %image, %why, "the image is not on the node");
                        }
                    },
                }
            }
            notices
        });
        self.notices.extend(notices.into_iter().flatten());
    }
}

// The queries for the pods by which jobs select nodes. Each is a watch with a connection of its
// own, and any tenant creates jobs, so their number is bounded.

/// The most queries that are followed at once, as with the pods of requests for restarts.
const AT_ONCE: usize = 256;
/// The most of them in one namespace, so that eight have room beside each other.
const EACH: usize = 32;

impl PullJobs {
    /// Returns the queries to follow, of jobs that are not completed. The other jobs wait, and their
    /// status says so.
    pub fn queries(&mut self) -> &BTreeSet<PodQuery> {
        let wanted: BTreeSet<&PodQuery> = self.jobs.all.values().filter_map(Entry::query).collect();
        let followed = shared(
            wanted,
            (AT_ONCE, EACH),
            |query| &query.1,
            |query| self.queries.contains(*query),
        );
        self.queries = followed.into_iter().cloned().collect();
        for entry in self.jobs.all.values_mut() {
            entry.are_followed(&self.queries);
        }
        &self.queries
    }
}

// OpenKruise's finalizer on jobs that are being deleted. Nothing else removes it where OpenKruise
// is gone.

/// The wait after a removal that was not applied.
pub(super) const AGAIN: Backoff = Backoff::seconds(60, 900);

/// The removal of the finalizer from a job that is being deleted and has it.
#[derive(Default)]
pub(crate) struct Release {
    /// The earliest time of the next one; [`Moment::NEVER`] while one is in flight.
    pub not_before: Moment,
    failures: u32,
}

impl PullJobs {
    /// Returns the removals to write now.
    pub(crate) fn release(&mut self, now: Moment) -> Vec<PullWrite> {
        let all = self.objects.values_mut().flat_map(Store::iter_mut);
        let due = all.filter(|(_, job, release)| is_held(job) && now >= release.not_before);
        due.map(|(_, job, release)| {
            release.not_before = Moment::NEVER;
            PullWrite::Release(job.clone())
        })
        .collect()
    }

    /// Records the answer to a removal; a later version that the watch shows counts.
    pub(crate) fn released(&mut self, job: &PullJob, answer: &Result<(), WriteError>, now: Moment) {
        let (jobs, key) = (self.objects.entry(job.kind).or_default(), object_key(job));
        let Some((shown, release)) = jobs.get_mut(&key).filter(|(shown, _)| shown.uid == job.uid)
        else {
            return;
        };
        if shown.version != job.version {
            release.not_before = now;
        } else if answer.is_ok() {
            jobs.forget(&key);
        } else {
            log_refusal(job, "its finalizer is not removed, so it stays", answer);
            release.not_before = now + AGAIN.after(release.failures);
            release.failures += 1;
        }
    }

    pub(crate) fn next_release(&self) -> Option<Moment> {
        let all = self.objects.values().flat_map(Store::iter);
        let held = all.filter(|(_, job, _)| is_held(job));
        let times = held.map(|(.., release)| release.not_before);
        times.filter(|time| *time < Moment::NEVER).min()
    }
}

fn is_held(job: &PullJob) -> bool {
    job.deleting && job.other_finalizers.is_some()
}

/// Returns the key of a job among those of its kind.
pub(super) fn object_key(job: &PullJob) -> store::Key {
    (job.namespace.clone(), job.name.clone())
}

/// Logs why a job that is to go stays.
pub(super) fn log_refusal(job: &PullJob, what: &str, answer: &Result<(), WriteError>) {
    // A missing right is reported once, for all jobs.
    if let Err(WriteError::Denied(error) | WriteError::Failed { error, .. }) = answer
        && !is_missing_right(error)
    {
        tracing::warn!(namespace = %job.namespace, job = %job.name, error, "{what}; trying again later");
    }
}

// The startup taint of nodes, which is removed once jobs of type `Never` have their images there.

/// What a node lacks until all jobs are known, as where they may not be listed.
const NOT_LISTED: &str = "which jobs want the node is not known";

impl PullJobs {
    /// Returns the removals for nodes whose time is over, or that lack no image.
    pub(crate) fn untaint(&mut self, now: Moment) -> Vec<PullWrite> {
        let namespaces = &self.settings.startup_taint_namespaces;
        let is_known =
            self.has_seen_all() || namespaces.is_empty() && self.has_seen_pods_and_nodes();
        let Some(taints) = &mut self.nodes.startup_taints else {
            return Vec::new();
        };
        let counts = |entry: &&Entry| !entry.has_object() || namespaces.contains(entry.namespace());
        let untaints = taints.step(now, |node| {
            if !is_known {
                return Some(NOT_LISTED.to_owned());
            }
            self.jobs
                .all
                .values()
                .filter(counts)
                .find_map(|entry| entry.owes(node))
        });
        untaints
            .into_iter()
            .map(|untaint| PullWrite::Untaint(Box::new(untaint)))
            .collect()
    }

    /// Records and logs the result of a removal.
    pub(crate) fn untainted(
        &mut self,
        untaint: &Untaint,
        answer: &Result<(), WriteError>,
        now: Moment,
    ) {
        let node = &untaint.node;
        match (answer, &untaint.missing) {
            (Ok(()), None) => {
                tracing::info!(%node, "the images are there; the taint {STARTUP_TAINT} is removed")
            }
            (Ok(()), Some(missing)) => {
                tracing::warn!(%node, missing, "the time limit has passed; the taint {STARTUP_TAINT} is removed")
            }
            _ => {}
        }
        let Some(taints) = &mut self.nodes.startup_taints else {
            return;
        };
        let is_missing = matches!(answer, Err(WriteError::Denied(why)) if is_missing_right(why));
        let Some(why) = taints.written(untaint, answer, is_missing, now) else {
            return;
        };
        if is_missing {
            tracing::warn!(%node, why, "nodes keep the taint {STARTUP_TAINT}: bind the ClusterRole swaplet-warm-startup-taint; trying again each minute");
        } else {
            tracing::warn!(%node, why, "this node keeps the taint {STARTUP_TAINT}, because it cannot be changed; trying again");
        }
    }
}

// Pods that belong to no job that is under way.

/// The wait after the answer before the deletion of the same pod is requested again.
const DELETE_AGAIN: Duration = Duration::from_secs(60);
/// The wait after the API server has denied it: a right is missing, as for a pod that somebody has
/// made to look like one of ours in a namespace of their own.
const DENIED_AGAIN: Duration = Duration::from_secs(600);

/// The warmer pods, with the deletion of each that we are deleting, or that terminates.
pub(crate) type Pods = Store<WarmerPod, Option<Deletion>>;

/// A warmer pod, and its deletion.
type Kept<'a> = (&'a WarmerPod, Option<Deletion>);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deletion {
    /// When it was requested first, or when the pod was first seen terminating.
    pub(crate) since: Moment,
    /// The earliest time of another request.
    pub(crate) again: Moment,
}

impl PullJobs {
    /// Returns the strays to delete: those of jobs that are not left alone after a panic, and none
    /// of jobs that may still be listed.
    pub(crate) fn orphans(&self, now: Moment) -> impl Iterator<Item = Kept<'_>> {
        let (jobs, are_listed) = (self.by_uid(), self.has_seen_all());
        let strays = self.strays();
        let strays = strays.filter(move |(pod, _)| are_listed || pod.job == self.exit_images);
        strays.filter(move |(pod, _)| {
            !jobs
                .get(&*pod.job)
                .is_some_and(|(key, _)| self.jobs.defects.is_left_alone(key, now))
        })
    }

    /// Returns the pods that belong to no job under way. Pods of jobs in namespaces that are not
    /// watched are left out, and so are pods in a namespace where no job of theirs could have any.
    pub(crate) fn strays(&self) -> impl Iterator<Item = Kept<'_>> {
        let jobs = self.by_uid();
        let is_ours = |(pod, _): &Kept<'_>| {
            (self.is_in_our_namespace(pod) || pod.namespace == pod.job_namespace)
                && (pod.job == self.exit_images || self.namespaces.contain(&pod.job_namespace))
        };
        let kept = self.pods.iter().map(|(_, pod, deletion)| (pod, *deletion));
        kept.filter(is_ours).filter(move |(pod, _)| {
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

    /// Returns the number of pods that each job still has but no longer needs. Left out are those
    /// that may stay for ever, and those on nodes that are not Ready.
    pub(crate) fn leaving(&self, now: Moment) -> BTreeMap<Box<str>, usize> {
        let mut leaving = BTreeMap::new();
        let is_ready = |(pod, _): &Kept<'_>| {
            let node = self.nodes.get(&pod.node);
            node.is_some_and(|node| node.ready)
        };
        let jobs = self.by_uid();
        let is_of_its_job = |(pod, _): &Kept<'_>| {
            let job = jobs.get(&*pod.job);
            self.is_in_our_namespace(pod) || job.is_some_and(|(key, _)| key.1 == pod.namespace)
        };
        self.orphans(now)
            .filter(is_of_its_job)
            .filter(|pod| may_pull(*pod, now))
            .filter(is_ready)
            .for_each(|(pod, _)| *leaving.entry(pod.job.clone()).or_default() += 1);
        leaving
    }

    pub(crate) fn delete_orphans(&mut self, now: Moment) -> Vec<PullWrite> {
        let is_due = |(pod, deletion): &Kept<'_>| {
            !pod.deleting && deletion.is_none_or(|deletion| deletion.again <= now)
        };
        let orphans = self.orphans(now).filter(is_due);
        let orphans: Vec<_> = orphans.map(|(pod, _)| pod.clone()).collect();
        // Not again before the answer, however long that takes.
        for pod in &orphans {
            let again = Moment::NEVER;
            let first = Deletion { since: now, again };
            if let Some(deletion) = self.deletion(pod) {
                deletion.get_or_insert(first).again = again;
            }
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
            Err(WriteError::Denied(words)) if !is_unreached(words) => {
                if !is_missing_right(words) {
                    tracing::warn!(namespace = %pod.namespace, pod = %pod.name, error = words, "this warmer pod is no longer needed and cannot be deleted; trying again later");
                }
                DENIED_AGAIN
            }
            _ => DELETE_AGAIN,
        };
        // Once it is seen terminating, that time counts.
        if let Some(Some(deletion)) = self.deletion(pod)
            && deletion.again == Moment::NEVER
        {
            deletion.again = now + wait;
        }
    }

    fn deletion(&mut self, of: &WarmerPod) -> Option<&mut Option<Deletion>> {
        let key = (of.namespace.clone(), of.name.clone());
        let (pod, deletion) = self.pods.get_mut(&key)?;
        (pod.uid == of.uid).then_some(deletion)
    }

    /// Returns when the next deletion may be requested again, or counts no more; `None` if there is
    /// none.
    pub(crate) fn next_deletion(&self, now: Moment) -> Option<Moment> {
        let deletions = self.pods.iter().filter_map(|(.., deletion)| *deletion);
        deletions
            .flat_map(|deletion| [deletion.again, deletion.since + LEAVE])
            .filter(|time| *time > now && *time < Moment::NEVER)
            .min()
    }
}

/// Returns false for a pod that pulls nothing for us any more, or whose deletion takes too long, or
/// is denied: it may stay for ever, as a job also leaves its own behind.
pub(super) fn may_pull((pod, deletion): Kept<'_>, now: Moment) -> bool {
    let is_left = deletion.is_some_and(|deletion| deletion.since + LEAVE <= now);
    !is_left && !pod.phase.is_terminal()
}
