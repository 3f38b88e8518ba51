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
                ledger.need(pod, Need::Begun(other.coming()));
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::objects::recreate_request::RequestPhase;
    use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
    use swaplet_core::restart::reconcile::Memory;
    use swaplet_core::restart::request::{Journal, RestartRequest};

    use super::*;

    /// A pod whose container has the alias, with this containerID.
    fn pod(id: &str) -> RestartPod {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"containers": [{"name": "app", "image": "b:1"}]},
            "status": {"containerStatuses": [{"name": "app", "containerID": id}]}});
        let wire: RestartPodWire = serde_json::from_value(pod).unwrap();
        wire.read().unwrap()
    }

    /// The node may be slow, and the next pod of the Job must not take the same room.
    #[test]
    fn a_restart_that_was_given_up_counts_until_the_pod_shows_it() {
        let journal = r#"{"app": {"containerID": "c", "intent": {"from": "a:1", "to": "b:1"}}}"#;
        let mut restart = UnderWay {
            request: RestartRequest {
                journal: Journal::read(journal),
                phase: RequestPhase::Completed,
                ..RestartRequest::default()
            },
            memory: Memory::default(),
            pod: None,
            changed: vec![("app".to_owned(), "a:1".to_owned(), "b:1".to_owned())],
            coming: 0,
        };
        for (id, coming) in [("c", 1), ("d", 0)] {
            restart.observe(Some(&pod(id)));
            assert_eq!(restart.coming(), coming, "{id}");
        }
    }
}
