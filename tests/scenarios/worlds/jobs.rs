//! The Job controller: the restarts of the pods that run count against the limit of their Job.

use serde_json::json;
use swaplet_core::objects::job::JobWire;

use super::objects::{Container, Place};
use super::world::{Event, World};

/// After so many milliseconds a controller that lives has seen what a node has reported.
const SEEN_WITHIN: u64 = 10_000;

const fn fails(restarts: u32, limit: u32) -> bool {
    if limit == 0 {
        restarts > 0
    } else {
        restarts >= limit
    }
}

impl World {
    /// Counts the restarts of a Job, and fails it if they are too many.
    pub fn count_restarts(&mut self, job: usize) {
        if self.jobs[job].failed.is_some() {
            return;
        }
        let counted = self
            .pods
            .iter()
            .filter(|pod| pod.job == job && !pod.gone && !pod.never && pod.phase == "Running");
        let counted: Vec<_> = counted.flat_map(|pod| pod.shown.iter()).collect();
        let all: u32 = counted.iter().map(|one| one.restarts).sum();
        let limit = self.jobs[job].limit;
        if !fails(all, limit) {
            return;
        }
        let swaps: u32 = counted.iter().map(|one| one.swaps()).sum();
        let crashes = counted.iter().flat_map(|one| &one.crashed);
        let crashes: Vec<u64> = crashes.copied().collect();
        // What comes after a swap was not to be known when it was made.
        let swapped = counted.iter().filter(|one| one.swaps() > 0);
        let first = swapped.filter_map(|one| one.swapped_at).min();
        let known = |at: &&u64| first.is_none_or(|first| **at + SEEN_WITHIN < first);
        let known = crashes.iter().filter(known).count() as u32;
        let own = crashes.len() as u32;
        self.jobs[job].failed = Some(self.now);
        if !fails(own, limit) && fails(swaps + known, limit) && !self.is_excused(job) {
            self.problem(format!(
                "job {job} (limit {limit}) failed by swaps: sum {all}, natural {own}, {known} of them before"
            ));
        }
        for at in 0..self.pods.len() {
            let pod = &self.pods[at];
            if pod.job == job && !pod.gone && pod.phase == "Running" {
                self.after(1000, Event::Deleted(at));
            }
        }
    }

    /// Returns true if an exit image that does not start may have failed this Job: nothing said so
    /// before, or its pods have no other end.
    fn is_excused(&self, job: usize) -> bool {
        let namespace = &self.namespaces[self.jobs[job].namespace];
        let can_finish = self.options.finish && namespace.to_finishes.lets_through();
        // Each second another start: a write that is repeated comes too late.
        let is_in_time = self.options.longest_back_off >= SEEN_WITHIN;
        let mut pods = self.pods.iter().filter(|pod| pod.job == job);
        pods.any(|pod| {
            let is_broken = |one: &Container| !one.exit_starts;
            let is_surprise = |one: &Container| !one.exit_starts && !one.is_doubtful();
            pod.containers.iter().any(is_surprise)
                || pod.place == Place::Virtual
                    && pod.containers.iter().any(is_broken)
                    && !(can_finish && is_in_time)
        })
    }

    /// The controller sees a Job.
    pub fn job_is_seen(&mut self, job: usize) {
        let seen = &self.jobs[job];
        let namespace = &self.namespaces[seen.namespace].name;
        let object = json!({
            "metadata": {"name": format!("job-{job}"), "namespace": namespace, "uid": seen.uid},
            "spec": {"backoffLimit": seen.limit}
        });
        let wire: JobWire = serde_json::from_value(object).unwrap();
        self.with_index(|index, now| {
            index.jobs(
                |ledger| {
                    if let Some(job) = wire.read() {
                        ledger.job(&job);
                    }
                },
                now,
            );
        });
    }

    /// The controller has seen all Jobs.
    pub fn jobs_are_seen(&mut self) {
        self.with_index(|index, now| {
            index.jobs(
                |ledger| {
                    ledger.job_list_ends();
                    ledger.jobs_watched();
                },
                now,
            );
        });
    }
}
