//! The restarts that the Job of a pod allows, counted from its current pods.

use anyhow::Context;
use kube::{Api, Client};
use swaplet_controller::frame::list::list;
use swaplet_core::cluster::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Pod, RestartPolicy};
use swaplet_core::restart::reconcile::Sight;

use super::UnderWay;
use crate::cli::restart::answer::{answer, plain};

/// The number of the only list of pods.
const LIST: u64 = 1;

/// The restarts of one Job; empty if they do not count.
#[derive(Default)]
pub(super) struct Room(Ledger);

impl Room {
    /// Counts the restarts of the pod's Job, those in progress included.
    pub(super) async fn of<'a>(
        client: &Client,
        pod: &Pod,
        under_way: impl Iterator<Item = &'a UnderWay>,
    ) -> anyhow::Result<Self> {
        let mut ledger = Ledger::default();
        // Under other policies restarts do not count (`pkg/controller/job/job_controller.go`).
        let Some(job) = pod
            .job
            .as_ref()
            .filter(|_| pod.restart_policy == RestartPolicy::OnFailure)
        else {
            return Ok(Self(ledger));
        };
        let jobs: Api<JobWire> = Api::namespaced(client.clone(), &pod.namespace);
        let found = answer(jobs.get_opt(&job.name))
            .await
            .map_err(plain)
            .with_context(|| format!("cannot get Job {}, which counts restarts", job.name))?;
        ledger.job_list_starts();
        found
            .and_then(|found| found.read())
            .iter()
            .for_each(|found| ledger.job(found));
        ledger.job_list_ends();
        ledger.pod_list_starts();
        let pods: Api<PodWire> = Api::namespaced(client.clone(), &pod.namespace);
        let of_job = |other: &Pod| other.job.as_ref().is_some_and(|other| other.uid == job.uid);
        let found = list(&pods, "spec.restartPolicy=OnFailure", |other| {
            other.read().filter(of_job)
        })
        .await;
        let found = found
            .map_err(plain)
            .context("cannot list the pods of a Job")?;
        found
            .iter()
            .for_each(|other| ledger.observe(other, Swapped::default(), LIST));
        ledger.pod_list_ends(LIST);
        for other in under_way {
            if let Some(pod) = other.pod.as_ref().filter(|_| other.coming() > 0) {
                ledger.need(pod, Need::Asked(other.coming()));
            }
        }
        Ok(Self(ledger))
    }

    pub(super) fn answer(&self, sight: Sight<'_>, restarts: u32) -> Headroom {
        match sight {
            Sight::There(pod) => self.0.answer_restarts(&pod.pod, restarts),
            Sight::Unseen | Sight::Refused(_) | Sight::Absent => Headroom::TooEarly,
        }
    }
}
