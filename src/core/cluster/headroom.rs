//! The ledger of restarts: it decides if a swap still fits into what the Job of a pod allows.
//!
//! Under `OnFailure` the Job controller adds up the restartCounts of all containers, init
//! containers included, of all pods of a Job that are Pending or Running, pods that are being
//! deleted too. It fails the Job when the sum reaches `backoffLimit`, or passes 0 where that is 0
//! (Kubernetes: `pastBackoffLimitOnFailure` in `pkg/controller/job/job_controller.go`). A swap adds
//! one restart, which counts until its pod is finished; ten at once failed a Job whose ten main
//! containers had succeeded (`docs/measured.md`, rows 27 and 28 and "Restarts of all pods of a
//! Job"). Under `Never` no restarts are added up, also not where `backoffLimitPerIndex` is set, which
//! exists only there. But a kubelet that cannot pull the exit image then fails the pod, which shows
//! that when it is too late for the pods that were swapped meanwhile. So there the ledger says how
//! many pods are at risk at once ([`Ledger::unborne`]). No pod waits for that to change, but for the
//! lists of pods and Jobs.
//!
//! So a swap is made only where the observed restarts, those that other swaps have yet to cause, and
//! its own stay below the limit: an answer is a function of these sums and of the pod, and of
//! nothing else. What does not fit waits, and is woken when the sums fall, in the order in which the
//! main containers ended. The ledger has no clock and does no I/O: its caller reports what is
//! observed, and it returns which pods to reconcile again.

mod account;

pub use account::{Swapped, fits_alone};

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;

use self::account::Leaves;
use crate::objects::job::Job;
use crate::objects::pod::roles::{self, Mains};
use crate::objects::pod::{Phase, Pod, RestartPolicy};
use crate::objects::values::short_digest::hash_of;
use crate::report::reason::Reason;
use account::{Account, Seen, Turn};

/// The ledger's answer to a pod that wants to swap some of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// No Job counts the restarts of this pod: it has none, or it is not under `OnFailure`.
    Free,
    /// The swaps may be made now.
    Fits,
    /// Other pods have to finish first; they will.
    Wait(Shortage),
    /// No swap in progress will make room: the limit has to be raised, or the pod is ended without
    /// a restart.
    NeverFits(Shortage),
    /// The Job has not been observed, so its limit is unknown.
    JobUnknown {
        /// Why Jobs, or those of a namespace, cannot be observed; `None` if they can.
        trouble: Option<Box<str>>,
    },
    /// The list of pods or that of Jobs is not complete, so the answer is not known yet.
    TooEarly,
    /// Under `Never` the Job may not bear that the swap fails the pod.
    Unborne {
        /// How many more of its pods may fail.
        borne: u32,
        /// How many pods beside this one may fail by their swaps, or have failed.
        at_risk: i64,
    },
}

/// The need of a pod, as decided after the last [`Ledger::observe`]. Only what has begun is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The pod needs no swap, or the swaps that it needs fit.
    Nothing,
    /// The pod waits for the room of so many swaps.
    Waits(u32),
    /// What has begun may still be in flight, or its effect is not shown.
    Held,
    /// A write of so many restarts begins, or another controller was requested to make them.
    Begun(u32),
}

/// The restarts of all pods that are counted, by Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    limits: BTreeMap<Box<str>, Limit>,
    accounts: BTreeMap<Box<str>, Account>,
    /// The Job in whose account each pod is, whatever its present owner: a Job can release a pod,
    /// or adopt one.
    jobs: BTreeMap<Box<str>, Box<str>>,
    pods_known: bool,
    jobs_known: bool,
    /// Why Jobs cannot be listed or watched now.
    trouble: Option<Box<str>>,
    /// Why Jobs of a namespace are unknown until the next list.
    hidden: Option<Box<str>>,
    job_list: u64,
    waiting: usize,
    wakes: Vec<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Limit {
    namespace: Box<str>,
    backoff_limit: u32,
    failures_borne: u32,
    list: u64,
}

impl Ledger {
    /// Records a pod as it is now, and the swaps in it ([`Swapped::of`]); `list` is the number of
    /// the list in which, or after which, it was observed.
    pub fn observe(&mut self, pod: &Pod, swapped: Swapped, list: u64) {
        if pod.phase.is_terminal() {
            self.pod_ended(pod)
        } else {
            self.count(pod, swapped, roles::may_fail_by_swap(pod), list)
        }
    }

    /// Like [`observe`](Self::observe), for a pod whose phase was written by swaplet. A node may
    /// still take that back, and then its restarts count again. So they count until the pod is
    /// reported gone.
    pub fn observe_finished(&mut self, pod: &Pod, swapped: Swapped, list: u64) {
        let may_fail = swapped.containers > 0 && roles::may_fail_by_swap(pod);
        // It will end, like one whose sidecars are swapped.
        let swapped = Swapped {
            containers: swapped.containers.max(1),
            left: 0,
            ..swapped
        };
        self.count(pod, swapped, may_fail, list);
    }

    fn count(&mut self, pod: &Pod, swapped: Swapped, may_fail: bool, list: u64) {
        let mains_run = roles::mains_state(pod) != Mains::Done;
        // Under `Never` nothing counts before a swap.
        let is_kept = Self::counts(pod) || !mains_run || self.has(&pod.uid);
        let job = job_of(pod).filter(|job| is_kept && self.may_have(job, pod));
        if self.jobs.get(&pod.uid).map(|before| &**before) != job {
            self.pod_gone(pod);
            self.jobs
                .extend(job.map(|job| (pod.uid.clone(), job.into())));
        }
        let Some(job) = job else { return };
        let counted = if Self::counts(pod) { pod.restarts() } else { 0 };
        let seen = Seen {
            restarts: clamp(counted),
            swapped,
            mains_run,
            may_fail,
            has_failed: !mains_run && pod.phase != Phase::Succeeded && !roles::will_succeed(pod),
            deleting: pod.deleting,
            namespace: hash_of(&pod.namespace),
        };
        self.accounts.entry(job.into()).or_default();
        self.change(job, |account| account.observe(&pod.uid, seen, list));
    }

    /// Returns false if the Job is in another namespace than the pod: anybody may create a pod that
    /// names it, and the Job controller does not count that.
    fn may_have(&self, job: &str, pod: &Pod) -> bool {
        let limit = self.limits.get(job);
        limit.is_none_or(|job| job.namespace.is_empty() || job.namespace == pod.namespace)
    }

    /// Records what a pod needs. No pod waits for a Job that does not count its restarts.
    pub fn need(&mut self, pod: &Pod, need: Need) {
        let need = match need {
            Need::Waits(_) if !Self::counts(pod) => Need::Nothing,
            need => need,
        };
        if let Some(job) = job_of(pod) {
            self.change(job, |account| account.need(Turn::of(pod), need));
        }
    }

    /// Records that a pod has ended for good. One that has failed under `Never` counts until its
    /// Job has counted more failures, it is gone, or pods are listed again.
    pub fn pod_ended(&mut self, pod: &Pod) {
        if Self::counts(pod) || pod.phase != Phase::Failed {
            self.pod_gone(pod);
        } else if let Some(job) = self.jobs.get(&pod.uid).cloned() {
            self.change(&job, |account| account.failed(&pod.uid));
        }
    }

    /// Records that a pod is gone.
    pub fn pod_gone(&mut self, pod: &Pod) {
        if let Some(job) = self.jobs.remove(&pod.uid) {
            self.change(&job, |account| account.forget(&pod.uid));
        }
    }

    /// Returns true if a Job counts the restarts of this pod.
    pub fn counts(pod: &Pod) -> bool {
        counted_by(pod).is_some()
    }

    /// Returns true if the restarts of this pod are in an account.
    pub fn has(&self, uid: &str) -> bool {
        self.jobs.contains_key(uid)
    }

    /// Records that a list of all pods begins: until it is complete no swap is said to fit, because
    /// restarts may have been missed.
    pub const fn pod_list_starts(&mut self) {
        self.pods_known = false;
    }

    /// Records that the list of this number is complete: pods observed only before it are gone.
    pub fn pod_list_ends(&mut self, list: u64) {
        self.pods_known = true;
        let mut woken = Vec::new();
        let all: Vec<_> = self.accounts.keys().cloned().collect();
        for job in &all {
            self.change(job, |account| {
                account.sweep(list);
                account.wake_all(&mut woken);
            });
        }
        let Self { jobs, accounts, .. } = self;
        jobs.retain(|uid, job| accounts.get(job).is_some_and(|account| account.has(uid)));
        self.wakes.extend(woken);
    }

    /// Records that a Job was listed, added or changed.
    pub fn job(&mut self, job: &Job) {
        let limit = Limit {
            namespace: job.namespace.clone(),
            backoff_limit: job.backoff_limit,
            failures_borne: job.failures_borne,
            list: self.job_list,
        };
        let before = self.limits.insert(job.uid.clone(), limit);
        if before.is_none() && !job.namespace.is_empty() {
            self.forget_strangers(job);
        }
        if before
            .as_ref()
            .is_some_and(|it| it.failures_borne > job.failures_borne)
        {
            self.change(&job.uid, Account::counted);
        }
        if before.is_none_or(|before| before.backoff_limit != job.backoff_limit) {
            self.limit_changed(&job.uid);
        }
    }

    /// Forgets the pods that were counted before the Job was known and are not of its namespace.
    fn forget_strangers(&mut self, job: &Job) {
        let mut strangers = Vec::new();
        self.change(&job.uid, |account| {
            strangers = account.forget_strangers(hash_of(&job.namespace));
        });
        for uid in &strangers {
            self.jobs.remove(uid);
        }
    }

    /// Records that a Job is gone.
    pub fn job_gone(&mut self, uid: &str) {
        if self.limits.remove(uid).is_some() {
            self.limit_changed(uid);
        }
    }

    /// Records that a list of all Jobs begins.
    pub fn job_list_starts(&mut self) {
        self.job_list += 1;
    }

    /// Records that the list is complete: Jobs that it did not contain are gone.
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

    /// Records that Jobs cannot be listed or watched, for this reason.
    pub fn jobs_trouble(&mut self, trouble: &str) {
        self.trouble = Some(trouble.into());
    }

    /// Records that a watch of Jobs was opened: earlier trouble is not reported any more.
    pub fn jobs_watched(&mut self) {
        self.trouble = None;
    }

    /// Records that Jobs of one of several namespaces cannot be observed, for this reason.
    pub fn jobs_hidden(&mut self, why: &str) {
        self.hidden = Some(why.into());
    }

    /// Returns true if the Job of this pod is known to survive the failure of the pod, with at least
    /// half of the failures that it allows left. False until all pods are known: another one may be
    /// at risk already.
    pub fn bears_failure(&self, pod: &Pod) -> bool {
        let limit = pod.job.as_ref().and_then(|job| self.limits.get(&job.uid));
        let has_half_left = |limit: &Limit| {
            u64::from(limit.failures_borne) * 2 >= u64::from(limit.backoff_limit) + 2
        };
        self.pods_known && limit.is_some_and(has_half_left)
    }

    /// Returns why no swap is made under `Never`, where the phase ends the pod too: its Job may not bear
    /// that it fails, as the others may that are swapped and have not ended. `None` if it bears that,
    /// if a swap of the pod has begun, or if nobody can tell: there is no Job, or Jobs cannot be read.
    pub fn unborne(&self, pod: &Pod) -> Option<Headroom> {
        let is_at_stake = roles::may_fail_by_swap(pod) && roles::will_succeed(pod);
        let job = job_of(pod).filter(|job| is_at_stake && self.may_have(job, pod))?;
        let at_risk = match self.accounts.get(job) {
            Some(account) => account.at_risk_beside(&pod.uid)?,
            None => 0,
        };
        match self.limits.get(job) {
            None if self.trouble.is_some() || self.hidden.is_some() => None,
            None if self.jobs_known => Some(Headroom::JobUnknown { trouble: None }),
            Some(limit) if self.pods_known => {
                let borne = limit.failures_borne;
                (at_risk >= borne.into()).then_some(Headroom::Unborne { borne, at_risk })
            }
            _ => Some(Headroom::TooEarly),
        }
    }

    /// Returns the uids of the pods whose answer may have changed since the last call.
    pub fn take_wakes(&mut self) -> Vec<Box<str>> {
        take(&mut self.wakes)
    }

    /// Returns true if this reason is reported for the pod's Job for the first time under its
    /// present limit, and records that it was.
    pub fn first_time(&mut self, pod: &Pod, reason: Reason) -> bool {
        let account = pod
            .job
            .as_ref()
            .filter(|_| self.jobs.contains_key(&pod.uid))
            .and_then(|job| self.accounts.get_mut(&job.uid));
        account.is_some_and(|account| account.said.insert(reason))
    }

    /// Returns how many pods are queued for room in their Job.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    fn limit(&self, job: &str) -> Option<u32> {
        self.limits.get(job).map(|limit| limit.backoff_limit)
    }

    /// Reconciles every pod that may want a swap again: what was answered under the old limit is not
    /// true any more.
    fn limit_changed(&mut self, job: &str) {
        let mut done = Vec::new();
        self.change(job, |account| {
            account.said.clear();
            done.extend(account.done_pods());
        });
        self.wakes.extend(done);
    }

    /// Changes an account, then wakes the pods for which that has made room.
    fn change(&mut self, job: &str, change: impl FnOnce(&mut Account)) {
        let limit = self.limit(job);
        let Some(account) = self.accounts.get_mut(job) else {
            return;
        };
        self.waiting -= account.waiting();
        change(account);
        if let Some(limit) = limit.filter(|_| self.pods_known) {
            account.settle(limit, &mut self.wakes);
        }
        self.waiting += account.waiting();
        if account.is_empty() {
            self.accounts.remove(job);
        }
    }
}

/// Returns the uid of the Job of this pod; `None` if it has none.
fn job_of(pod: &Pod) -> Option<&str> {
    pod.job.as_ref().map(|job| &*job.uid)
}

/// Returns the uid of the Job that counts the restarts of this pod; `None` if none does.
fn counted_by(pod: &Pod) -> Option<&str> {
    job_of(pod).filter(|_| pod.restart_policy == RestartPolicy::OnFailure)
}

/// Clamps a count to 0 or more, and so far that no sum of counts overflows.
fn clamp(restarts: i64) -> i64 {
    restarts.clamp(0, u32::MAX.into())
}

// The answers of the ledger to pods, by the account of their Job.

impl Ledger {
    /// Returns the answer to a pod whose swaps may cause this many restarts. The pod must have been
    /// observed as it is.
    pub fn answer(&self, pod: &Pod, restarts: u32) -> Headroom {
        self.answer_leaving(Leaves::Nothing, pod, restarts)
    }

    /// Like [`answer`](Self::answer), for a pod that can be ended without a restart, too: it does
    /// not take the last restart of its Job while main containers of other pods run, because one of
    /// them may need it.
    pub fn answer_sparing(&self, pod: &Pod, restarts: u32) -> Headroom {
        self.answer_leaving(Leaves::OneToMains, pod, restarts)
    }

    fn answer_leaving(&self, leaves: Leaves, pod: &Pod, restarts: u32) -> Headroom {
        match self.account_of(pod) {
            Ok((account, limit)) => {
                account.answer(&pod.uid, restarts.into(), limit, self.pods_known, leaves)
            }
            Err(answer) => answer,
        }
    }

    /// Returns the answer to a restart of this many containers of a pod whose work continues. It is
    /// never queued.
    pub fn answer_restarts(&self, pod: &Pod, restarts: u32) -> Headroom {
        match self.account_of(pod) {
            Ok((account, limit)) if self.pods_known => {
                // The pod may have been observed later than the one of the account.
                let shown = clamp(pod.restarts());
                account.answer_restarts(&pod.uid, shown, restarts.into(), limit)
            }
            Ok(_) => Headroom::TooEarly,
            Err(answer) => answer,
        }
    }

    /// Returns the account of a pod's Job, with the limit; where there is none, the answer to each
    /// question about the pod.
    fn account_of(&self, pod: &Pod) -> Result<(&Account, u32), Headroom> {
        let job = counted_by(pod).ok_or(Headroom::Free)?;
        match (self.limit(job), self.accounts.get(job)) {
            (Some(limit), Some(account)) => Ok((account, limit)),
            (None, _) if self.jobs_known || self.trouble.is_some() => Err(Headroom::JobUnknown {
                trouble: self.trouble.clone().or_else(|| self.hidden.clone()),
            }),
            _ => Err(Headroom::TooEarly),
        }
    }
}

// The text of answers, with the numbers behind them.

/// The numbers behind a refusal or a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// `spec.backoffLimit` of the Job.
    pub limit: u32,
    /// Restarts that count or will count: of all pods of the Job, or of this pod alone if its own
    /// are too many.
    pub restarts: i64,
    /// The part of these that comes from swaps in progress: granted, written, or done in a pod that
    /// has not ended.
    pub under_way: i64,
    /// The restarts that were requested: one for each swap, more where an exit image may not start.
    pub swaps: i64,
    /// The restarts that are left to main containers of other pods.
    pub spared: i64,
}

impl Shortage {
    /// Returns the smallest `spec.backoffLimit` with which the swaps would fit.
    pub const fn limit_needed(&self) -> i64 {
        self.restarts + self.swaps + self.spared + 1
    }

    /// Returns how sure it is that the swaps fail the Job: with those alone, or with the restart of
    /// a main container.
    pub(crate) const fn may(&self) -> &'static str {
        if self.spared > 0 { "could" } else { "would" }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            restarts,
            under_way,
            swaps,
            spared,
        } = self;
        let of_swaps = if *under_way > 0 {
            format!(" ({under_way} by swaps under way)")
        } else {
            String::new()
        };
        let left = if *spared > 0 {
            format!(", {spared} is left to main containers that run")
        } else {
            String::new()
        };
        let count = if *restarts == 1 {
            "restart counts"
        } else {
            "restarts count"
        };
        // With the limit 0 the first restart fails the Job, as with the limit 1.
        let fails_at = (*limit).max(1);
        write!(
            formatter,
            "{restarts} {count}{of_swaps}, {swaps} more would be added{left}, and it fails at {fails_at} (backoffLimit {limit})"
        )
    }
}

impl fmt::Display for Headroom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => formatter.write_str("no Job counts restarts of this pod"),
            Self::Fits => formatter.write_str("the swaps fit into what the Job allows"),
            Self::Wait(shortage) => write!(
                formatter,
                "other pods of the Job must end first: {shortage}"
            ),
            Self::NeverFits(shortage) => {
                let may = shortage.may();
                write!(formatter, "the swaps {may} fail the Job: {shortage}")
            }
            Self::JobUnknown {
                trouble: Some(trouble),
            } => write!(formatter, "the Job cannot be read: {trouble}"),
            Self::JobUnknown { trouble: None } => {
                formatter.write_str("the Job has not been observed")
            }
            Self::TooEarly => formatter.write_str("pods or Jobs are being listed"),
            Self::Unborne { borne, at_risk } => write!(
                formatter,
                "a swap under Never fails its pod if the exit image cannot be pulled just then, and the Job may not bear that: {borne} more of its pods may fail (backoffLimit, backoffLimitPerIndex, podFailurePolicy), and {at_risk} others that are swapped, or have failed, may not be counted yet"
            ),
        }
    }
}
