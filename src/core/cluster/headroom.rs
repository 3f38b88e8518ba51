//! Whether a swap still fits into what the Job of a pod allows: the ledger of restarts.
//!
//! Under `OnFailure` the Job controller adds up the restartCounts of all containers, init
//! containers included, of all pods of a Job that are Pending or Running, pods that are being
//! deleted too, and fails the Job when the sum reaches `backoffLimit`, or passes 0 where that is 0
//! (Kubernetes: `pastBackoffLimitOnFailure` in `pkg/controller/job/job_controller.go`). A swap adds
//! one restart, which counts until its pod is finished; ten at once failed a Job whose ten main
//! containers had succeeded (`docs/measured.md`, rows 27 and 28 and "Restarts of all pods of a
//! Job"). Under `Never` nothing is added up, also not where `backoffLimitPerIndex` is set, which
//! exists only there.
//!
//! So a swap is granted only where the restarts that are seen, those that other swaps have yet to
//! cause, and its own stay below the limit. What does not fit stands in line, in the order in which
//! the main containers ended. The ledger knows no clock and does no I/O: it is told what is seen,
//! and says which pods to look at again.

mod account;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use crate::objects::job::Job;
use crate::objects::pod::roles::{self, Mains};
use crate::objects::pod::{Pod, RestartPolicy};
use crate::report::reason::Reason;
pub use account::fits_alone;
use account::{Account, Seen, Turn};
pub use words::Shortage;

/// What the ledger answers to a pod that wants to swap some of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// Nobody counts the restarts of this pod: it is not of a Job, or it is under `Never`.
    Free,
    /// The swaps may be made now.
    Fits,
    /// Other pods have to finish first; they will.
    Wait(Shortage),
    /// No swap that is under way will make room: somebody has to raise the limit, or the pod is
    /// ended without a restart.
    NeverFits(Shortage),
    /// The Job has not been seen, so its limit is not known.
    JobUnknown {
        /// Why Jobs cannot be seen at all, where that is so.
        trouble: Option<Box<str>>,
    },
    /// The list of pods or that of Jobs is not complete: it is too early to say.
    TooEarly,
}

/// What a pod needs, as decided after the last [`Ledger::observe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No swap.
    Nothing,
    /// So many swaps, in one write that has not begun.
    Swaps(u32),
    /// What was granted may be on its way: a write has begun, or nobody knows what became of it.
    Held,
    /// So many restarts may be on their way, whoever granted them: somebody was asked for them, and
    /// has not answered.
    Asked(u32),
}

/// The restarts of all pods that are counted, by Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    limits: BTreeMap<Box<str>, Limit>,
    /// The Jobs that do not end by the failure of one more pod.
    bear_failure: BTreeSet<Box<str>>,
    accounts: BTreeMap<Box<str>, Account>,
    /// The Job in whose account each pod is, whatever its present owner: a Job can let a pod go, or
    /// take one over.
    jobs: BTreeMap<Box<str>, Box<str>>,
    pods_known: bool,
    jobs_known: bool,
    /// Why Jobs cannot be listed or watched now.
    trouble: Option<Box<str>>,
    /// Why those of a namespace cannot be seen until the next list.
    hidden: Option<Box<str>>,
    job_list: u64,
    waiting: usize,
    wakes: Vec<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Limit {
    backoff_limit: u32,
    list: u64,
}

impl Ledger {
    /// Takes notice of a pod as it is now, and of the swaps in it ([`Swapped::of`]); `list` is the
    /// number of the list in which, or after which, it was seen.
    pub fn observe(&mut self, pod: &Pod, swapped: Swapped, list: u64) {
        if pod.phase.is_terminal() {
            self.pod_gone(pod)
        } else {
            self.count(pod, swapped, list)
        }
    }

    /// As [`observe`](Self::observe), for a pod whose phase was written by us: a node may still
    /// take it back, and then its restarts count again. So they count until it is said that the pod
    /// is gone.
    pub fn observe_finished(&mut self, pod: &Pod, swapped: Swapped, list: u64) {
        // It ends, as one whose sidecars are swapped.
        self.count(
            pod,
            Swapped {
                containers: swapped.containers.max(1),
                ..swapped
            },
            list,
        );
    }

    fn count(&mut self, pod: &Pod, swapped: Swapped, list: u64) {
        let job = counted_by(pod);
        if self.jobs.get(&pod.uid).map(|before| &**before) != job {
            self.pod_gone(pod);
            self.jobs
                .extend(job.map(|job| (pod.uid.clone(), job.into())));
        }
        let Some(job) = job else { return };
        let Swapped { containers, coming } = swapped;
        let mains_run = roles::mains_state(pod) != Mains::Done;
        let restarts = clamp(pod.restarts());
        let seen = Seen {
            restarts,
            swapped: containers.into(),
            coming: coming.into(),
            mains_run,
            deleting: pod.deleting,
        };
        self.accounts.entry(job.into()).or_default();
        self.change(job, |account, _| account.observe(&pod.uid, seen, list));
    }

    /// Takes notice of what a pod needs.
    pub fn need(&mut self, pod: &Pod, need: Need) {
        if let Some(job) = counted_by(pod) {
            self.change(job, |account, limit| {
                account.need(Turn::of(pod), need, limit)
            });
        }
    }

    /// A pod is gone, or has ended for good.
    pub fn pod_gone(&mut self, pod: &Pod) {
        if let Some(job) = self.jobs.remove(&pod.uid) {
            self.change(&job, |account, _| account.forget(&pod.uid));
        }
    }

    /// Whether somebody counts the restarts of this pod.
    #[must_use]
    pub fn counts(pod: &Pod) -> bool {
        counted_by(pod).is_some()
    }

    /// Whether this pod counts.
    #[must_use]
    pub fn has(&self, uid: &str) -> bool {
        self.jobs.contains_key(uid)
    }

    /// Whether a pod of this Job counts.
    #[must_use]
    pub fn has_pods(&self, job: &str) -> bool {
        self.accounts.contains_key(job)
    }

    /// A list of all pods begins: until it is complete nothing is granted, because restarts may
    /// have been missed.
    pub fn pod_list_starts(&mut self) {
        self.pods_known = false;
        self.change_all(Account::begin_anew);
    }

    /// The list of this number is complete: pods that were seen only before it are gone.
    pub fn pod_list_ends(&mut self, list: u64) {
        self.pods_known = true;
        let mut held = Vec::new();
        self.change_all(|account| {
            account.sweep(list);
            held.extend(account.held_pods());
        });
        let Self { jobs, accounts, .. } = self;
        jobs.retain(|uid, job| accounts.get(job).is_some_and(|account| account.has(uid)));
        self.wakes.extend(held);
    }

    /// A Job was listed, added or has changed.
    pub fn job(&mut self, job: &Job) {
        let limit = Limit {
            backoff_limit: job.backoff_limit,
            list: self.job_list,
        };
        let before = self.limits.insert(job.uid.clone(), limit);
        if before.is_none_or(|before| before.backoff_limit != job.backoff_limit) {
            self.limit_changed(&job.uid);
        }
    }

    /// Whether this Job bears that one more of its pods fails.
    pub fn job_bears_failure(&mut self, uid: &str, bears: bool) {
        if bears {
            self.bear_failure.insert(uid.into());
        } else {
            self.bear_failure.remove(uid);
        }
    }

    /// A Job is gone.
    pub fn job_gone(&mut self, uid: &str) {
        self.bear_failure.remove(uid);
        if self.limits.remove(uid).is_some() {
            self.limit_changed(uid);
        }
    }

    /// A list of all Jobs begins.
    pub fn job_list_starts(&mut self) {
        self.job_list += 1;
    }

    /// The list is complete: Jobs that it did not name are gone.
    pub fn job_list_ends(&mut self) {
        self.trouble = None;
        self.hidden = None;
        if !std::mem::replace(&mut self.jobs_known, true) {
            let unknown = self
                .accounts
                .iter()
                .filter(|(job, _)| !self.limits.contains_key(*job));
            self.wakes
                .extend(unknown.flat_map(|(_, account)| account.done_pods()));
        }
        let gone: Vec<_> = self
            .limits
            .iter()
            .filter(|(_, limit)| limit.list != self.job_list)
            .map(|(uid, _)| uid.clone())
            .collect();
        gone.iter().for_each(|uid| self.job_gone(uid));
    }

    /// Jobs cannot be listed or watched, for this reason.
    pub fn jobs_trouble(&mut self, trouble: &str) {
        self.trouble = Some(trouble.into());
    }

    /// A watch of Jobs was opened after whatever trouble there was: nobody is told of that any
    /// more.
    pub fn jobs_watched(&mut self) {
        self.trouble = None;
    }

    /// Jobs of one of several namespaces cannot be seen, for this reason.
    pub fn jobs_hidden(&mut self, why: &str) {
        self.hidden = Some(why.into());
    }

    /// The answer to a pod that wants so many swaps. The pod must have been observed as it is.
    #[must_use]
    pub fn answer(&self, pod: &Pod, swaps: u32) -> Headroom {
        let Some(job) = counted_by(pod) else {
            return Headroom::Free;
        };
        match (self.limit(job), self.accounts.get(job)) {
            (Some(limit), Some(account)) => {
                account.answer(&Turn::of(pod), swaps.into(), limit, self.pods_known)
            }
            (None, _) if self.jobs_known || self.trouble.is_some() => self.job_unknown(),
            _ => Headroom::TooEarly,
        }
    }

    /// The answer to somebody who wants to restart so many containers of a pod, whose work goes on.
    /// Nobody stands in line for it.
    #[must_use]
    pub fn answer_restarts(&self, pod: &Pod, restarts: u32) -> Headroom {
        let Some(job) = counted_by(pod) else {
            return Headroom::Free;
        };
        match (self.limit(job), self.accounts.get(job)) {
            (Some(limit), Some(account)) if self.pods_known => {
                account.answer_restarts(&pod.uid, restarts.into(), limit)
            }
            (None, _) if self.jobs_known || self.trouble.is_some() => self.job_unknown(),
            _ => Headroom::TooEarly,
        }
    }

    /// Whether the Job of this pod is seen to bear that the pod fails. Not before all pods are
    /// known: another one may be at risk already.
    #[must_use]
    pub fn bears_failure(&self, pod: &Pod) -> bool {
        self.pods_known
            && pod
                .job
                .as_ref()
                .is_some_and(|job| self.bear_failure.contains(&job.uid))
    }

    fn job_unknown(&self) -> Headroom {
        Headroom::JobUnknown {
            trouble: self.trouble.clone().or_else(|| self.hidden.clone()),
        }
    }

    /// The uids of the pods whose answer may have changed since this was asked last.
    pub fn take_wakes(&mut self) -> Vec<Box<str>> {
        take(&mut self.wakes)
    }

    /// Whether something is told of the pod's Job for the first time under its present limit;
    /// remembers it.
    pub fn first_time(&mut self, pod: &Pod, reason: Reason) -> bool {
        let account = pod
            .job
            .as_ref()
            .and_then(|job| self.accounts.get_mut(&job.uid));
        account.is_some_and(|account| account.first_time(reason))
    }

    /// How many pods stand in line for room in their Job.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    fn limit(&self, job: &str) -> Option<u32> {
        self.limits.get(job).map(|limit| limit.backoff_limit)
    }

    /// What the old limit granted or refused counts no more: every pod that may want a swap is
    /// looked at again.
    fn limit_changed(&mut self, job: &str) {
        let mut done = Vec::new();
        self.change(job, |account, _| {
            account.limit_changed();
            done.extend(account.done_pods());
        });
        self.wakes.extend(done);
    }

    /// Changes an account, then grants what fits in it now.
    fn change(&mut self, job: &str, change: impl FnOnce(&mut Account, Option<u32>)) {
        let limit = self.limit(job);
        let Some(account) = self.accounts.get_mut(job) else {
            return;
        };
        self.waiting -= account.waiting();
        change(account, limit);
        if let Some(limit) = limit.filter(|_| self.pods_known) {
            account.settle(limit, &mut self.wakes);
        }
        self.waiting += account.waiting();
        if account.is_empty() {
            self.accounts.remove(job);
        }
    }

    fn change_all(&mut self, mut change: impl FnMut(&mut Account)) {
        let jobs: Vec<_> = self.accounts.keys().cloned().collect();
        jobs.iter()
            .for_each(|job| self.change(job, |account, _| change(account)));
    }
}

/// The uid of the Job that counts the restarts of this pod.
fn counted_by(pod: &Pod) -> Option<&str> {
    pod.job
        .as_ref()
        .filter(|_| pod.restart_policy == RestartPolicy::OnFailure)
        .map(|job| &*job.uid)
}

/// No count is negative; and no sum of counts, however strange one is, leaves the range of numbers.
fn clamp(restarts: i64) -> i64 {
    restarts.clamp(0, u32::MAX.into())
}

/// The swaps that were made in a pod, whoever made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swapped {
    /// Containers whose image in the spec is an exit image.
    pub containers: u32,
    /// Those of them that have not been restarted with it, as far as the status tells. Where it
    /// does not tell, the restart counts as still to come.
    pub coming: u32,
}
