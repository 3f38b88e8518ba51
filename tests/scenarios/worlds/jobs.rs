//! The Job controller: the restarts of the pods that run count against the limit of their Job.

use serde_json::json;
use swaplet_core::objects::job::JobWire;

use super::objects::{Container, Place};
use super::world::{Event, World};

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
        let counts = |count: fn(&Container) -> u32| {
            let counted = self
                .pods
                .iter()
                .filter(|pod| pod.job == job && !pod.gone && !pod.never && pod.phase == "Running");
            counted.flat_map(|pod| pod.shown.iter()).map(count).sum()
        };
        let (all, own): (u32, u32) = (counts(|one| one.restarts), counts(|one| one.own_restarts));
        let limit = self.jobs[job].limit;
        if !fails(all, limit) {
            return;
        }
        self.jobs[job].failed = Some(self.now);
        if !fails(own, limit) && !self.options.crashes && !self.is_excused(job) {
            self.problem(format!(
                "job {job} (limit {limit}) failed by swaps: sum {all}, natural {own}"
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
        let mut pods = self.pods.iter().filter(|pod| pod.job == job);
        pods.any(|pod| {
            let is_broken = |one: &Container| !one.exit_starts;
            let is_surprise = |one: &Container| !one.exit_starts && !one.is_doubtful();
            pod.containers.iter().any(is_surprise)
                || pod.place == Place::Virtual
                    && pod.containers.iter().any(is_broken)
                    && !can_finish
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
                        ledger.job_bears_failure(&job.uid, wire.bears_failure());
                    }
                },
                now,
            )
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
            )
        });
    }
}
