//! One sync of a job.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::indexes;
use super::plan::{Plan, condition};
use super::pods::{
    FINALIZER, add, drain, extend, for_removal, has_ended, is_ready, number, past_backoff_limit,
    phase, replaces_only_failed, terminating, tracked,
};

/// The maximum number of pods created or deleted at once.
const BATCH: usize = 500;

/// A job with its pods, classified.
pub(super) struct Sync<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) pods: &'a [Pod],
    pub(super) now: Timestamp,
    pub(super) active: Vec<&'a Pod>,
    pub(super) status: JobStatus,
    pub(super) terminating_before: Option<i32>,
    pub(super) plan: Plan,
}

impl Sync<'_> {
    pub(super) fn run(&mut self, deleting: bool) {
        self.count_released();
        let suspended = self.spec.suspend == Some(true);
        if self.status.start_time.is_none() && !suspended {
            self.status.start_time = Some(Time(self.now));
        }
        let (fresh_good, fresh_bad) = self.fresh();
        let succeeded = self.count(|status| status.succeeded, |uncounted| &uncounted.succeeded)
            + fresh_good.len();
        let failed =
            self.count(|status| status.failed, |uncounted| &uncounted.failed) + fresh_bad.len();
        self.plan.backoff.note(&fresh_good, &fresh_bad);
        let mut verdict = self.verdict(failed);
        let mut active = self.active.len();
        if verdict.is_some() {
            self.plan.delete = self.active.iter().map(|pod| pod.name_any()).collect();
            active = 0;
        } else if !deleting {
            active = self.manage(succeeded);
            if self.is_complete(succeeded, active) {
                verdict = Some(self.condition(
                    "SuccessCriteriaMet",
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                ));
            } else {
                self.note_suspension(suspended);
            }
        }
        self.note_numbers(active);
        self.note_indexes();
        self.note_fresh(&fresh_good, &fresh_bad, deleting, verdict.as_ref());
        self.conclude(verdict);
    }

    /// Counts the pods that were recorded and have lost their finalizer.
    fn count_released(&mut self) {
        let held: BTreeSet<String> = tracked(self.pods).filter_map(ResourceExt::uid).collect();
        let Some(uncounted) = &mut self.status.uncounted_terminated_pods else {
            return;
        };
        let good = drain(&mut uncounted.succeeded, &held);
        let bad = drain(&mut uncounted.failed, &held);
        if uncounted.succeeded.is_none() && uncounted.failed.is_none() {
            self.status.uncounted_terminated_pods = Some(UncountedTerminatedPods::default());
        }
        add(&mut self.status.succeeded, good);
        add(&mut self.status.failed, bad);
    }

    /// Returns the pods that ended and are not recorded yet: succeeded and failed ones.
    fn fresh(&self) -> (Vec<Pod>, Vec<Pod>) {
        let noted = |pod: &&Pod| pod.uid().is_some_and(|uid| self.is_noted(&uid));
        let (good, bad): (Vec<&Pod>, Vec<&Pod>) = tracked(self.pods)
            .filter(|pod| !noted(pod))
            .filter(|pod| has_ended(pod, self.spec))
            .partition(|pod| phase(pod) == "Succeeded");
        (
            good.into_iter().cloned().collect(),
            bad.into_iter().cloned().collect(),
        )
    }

    fn is_noted(&self, uid: &String) -> bool {
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        let lists = uncounted
            .into_iter()
            .flat_map(|uncounted| [&uncounted.succeeded, &uncounted.failed]);
        lists.flatten().any(|list| list.contains(uid))
    }

    fn count(
        &self,
        counter: fn(&JobStatus) -> Option<i32>,
        list: fn(&UncountedTerminatedPods) -> &Option<Vec<String>>,
    ) -> usize {
        let noted = self
            .status
            .uncounted_terminated_pods
            .as_ref()
            .and_then(|uncounted| list(uncounted).as_ref())
            .map_or(0, Vec::len);
        usize::try_from(counter(&self.status).unwrap_or(0)).unwrap_or(0) + noted
    }

    /// Returns the condition with which the job is about to end, if it is; an older one stands.
    fn verdict(&mut self, failed: usize) -> Option<JobCondition> {
        if let Some(older) = condition(&self.status, "SuccessCriteriaMet")
            .or_else(|| condition(&self.status, "FailureTarget"))
        {
            return Some(older.clone());
        }
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if i64::try_from(failed).unwrap_or(i64::MAX) > i64::from(limit)
            || past_backoff_limit(self.spec, self.pods)
        {
            return Some(self.condition(
                "FailureTarget",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            ));
        }
        let deadline = SignedDuration::from_secs(self.spec.active_deadline_seconds?);
        let start = self.status.start_time.as_ref()?.0;
        let left = deadline - self.now.duration_since(start);
        if left <= SignedDuration::ZERO {
            return Some(self.condition(
                "FailureTarget",
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            ));
        }
        self.wake_in(left);
        None
    }

    /// Creates or deletes pods; returns how many are active afterwards.
    fn manage(&mut self, succeeded: usize) -> usize {
        let active = self.active.len();
        let wanted = if self.spec.suspend == Some(true) {
            0
        } else {
            self.wanted(succeeded)
        };
        if wanted < active {
            self.plan.forget = for_removal(&self.active)
                .take((active - wanted).min(BATCH))
                .collect();
            return active - self.plan.forget.len();
        }
        let terminating = if replaces_only_failed(self.spec) {
            terminating(self.pods)
        } else {
            0
        };
        let missing = wanted
            .saturating_sub(terminating)
            .saturating_sub(active)
            .min(BATCH);
        let wait = self.plan.backoff.wait(self.now);
        if missing == 0 || wait.is_zero() {
            let created = self.create(missing);
            return active + created;
        }
        self.wake_in(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX));
        active
    }

    /// Plans new pods; returns their number, which an Indexed Job limits to its free indexes.
    fn create(&mut self, missing: usize) -> usize {
        self.plan.create = missing;
        if indexes::is_indexed(self.spec) {
            let completed = indexes::completed(self.spec, &self.status, self.pods);
            self.plan.indexes = indexes::next(self.spec, &completed, self.pods, missing);
            self.plan.create = self.plan.indexes.len();
        }
        self.plan.create
    }

    fn note_indexes(&mut self) {
        if indexes::is_indexed(self.spec) {
            let completed = indexes::completed(self.spec, &self.status, self.pods);
            self.status.completed_indexes =
                Some(indexes::text(&completed)).filter(|text| !text.is_empty());
        }
    }

    fn wanted(&self, succeeded: usize) -> usize {
        let parallelism = usize::try_from(self.spec.parallelism.unwrap_or(1)).unwrap_or(0);
        match self.spec.completions {
            Some(completions) => usize::try_from(completions)
                .unwrap_or(0)
                .saturating_sub(succeeded)
                .min(parallelism),
            None if succeeded > 0 => self.active.len(),
            None => parallelism,
        }
    }

    fn is_complete(&self, succeeded: usize, active: usize) -> bool {
        let enough = match self.spec.completions {
            Some(completions) => succeeded >= usize::try_from(completions).unwrap_or(0),
            None => succeeded > 0,
        };
        enough && active == 0
    }

    fn note_suspension(&mut self, suspended: bool) {
        let before = self
            .status
            .conditions
            .iter()
            .flatten()
            .find(|one| one.type_ == "Suspended")
            .map(|one| one.status == "True");
        let (status, reason, message) = match (before, suspended) {
            (Some(false) | None, true) => ("True", "JobSuspended", "Job suspended"),
            (Some(true), false) => ("False", "JobResumed", "Job resumed"),
            _ => return,
        };
        let note = JobCondition {
            status: status.to_owned(),
            ..self.condition("Suspended", reason, message)
        };
        let conditions = self.status.conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != "Suspended");
        conditions.push(note);
        if !suspended {
            self.status.start_time = Some(Time(self.now));
        }
    }

    /// Sets the counts of the status; pods that are deleted now count as terminating already.
    fn note_numbers(&mut self, active: usize) {
        let going: Vec<_> = self
            .plan
            .delete
            .iter()
            .chain(&self.plan.forget)
            .cloned()
            .collect();
        let stays = |pod: &&&Pod| !going.contains(&pod.name_any());
        let ready = self
            .active
            .iter()
            .filter(|pod| is_ready(pod))
            .filter(stays)
            .count();
        self.status.active = Some(number(active)).filter(|active| *active > 0);
        self.status.ready = Some(number(ready));
        self.status.terminating = Some(number(terminating(self.pods) + going.len()));
    }

    /// Records pods that ended, and at the end of the job those that it deletes; pods recorded
    /// before are released.
    fn note_fresh(
        &mut self,
        good: &[Pod],
        bad: &[Pod],
        deleting: bool,
        verdict: Option<&JobCondition>,
    ) {
        let failing = verdict.is_some_and(|verdict| verdict.type_ == "FailureTarget");
        let noted: Vec<_> = tracked(self.pods)
            .filter(|pod| pod.uid().is_some_and(|uid| self.is_noted(&uid)))
            .map(ResourceExt::name_any)
            .collect();
        let taken = self
            .active
            .iter()
            .filter(|pod| failing && pod.finalizers().iter().any(|one| one == FINALIZER))
            .filter_map(|pod| pod.uid());
        let uncounted = self
            .status
            .uncounted_terminated_pods
            .get_or_insert_default();
        extend(
            &mut uncounted.succeeded,
            good.iter().filter_map(ResourceExt::uid),
        );
        extend(
            &mut uncounted.failed,
            bad.iter().filter_map(ResourceExt::uid).chain(taken),
        );
        self.plan.release = noted;
        if deleting {
            self.plan.release = tracked(self.pods).map(ResourceExt::name_any).collect();
        }
    }

    /// Sets the interim condition, and the final one once all pods are counted and gone.
    fn conclude(&mut self, verdict: Option<JobCondition>) {
        let Some(verdict) = verdict else { return };
        let conditions = self.status.conditions.get_or_insert_default();
        let kind = if verdict.type_ == "FailureTarget" {
            "Failed"
        } else {
            "Complete"
        };
        if !conditions.iter().any(|one| one.type_ == verdict.type_) {
            conditions.push(verdict.clone());
        }
        let open = self
            .status
            .uncounted_terminated_pods
            .as_ref()
            .is_some_and(|open| open.succeeded.is_some() || open.failed.is_some());
        // As in the real controller, the last pods are counted in a separate write.
        let moving = self.status.terminating != self.terminating_before;
        if open || moving || !self.active.is_empty() || terminating(self.pods) > 0 {
            return;
        }
        let end = JobCondition {
            type_: kind.to_owned(),
            last_probe_time: Some(Time(self.now)),
            last_transition_time: Some(Time(self.now)),
            ..verdict
        };
        self.status.conditions.get_or_insert_default().push(end);
        if kind == "Complete" {
            self.status.completion_time = Some(Time(self.now));
        }
    }

    fn condition(&self, kind: &str, reason: &str, message: &str) -> JobCondition {
        JobCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_probe_time: Some(Time(self.now)),
            last_transition_time: Some(Time(self.now)),
        }
    }

    fn wake_in(&mut self, left: SignedDuration) {
        let left = Duration::try_from(left).unwrap_or_default();
        self.plan.wake = Some(self.plan.wake.map_or(left, |wake| wake.min(left)));
    }
}
