//! The end of a run: late Events, and the deletion of its pods.

use kube::Api;
use kube::api::ListParams;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::WarmerPodWire;
use swaplet_core::warm::warming::Action;
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};

use super::{CLEAN_UP, LATE_EVENTS, LOOK, News, PullEvent, Run};
use crate::frame::list::{list_with, words};
use crate::frame::watch::Event;
use crate::warm::write::Warmers;

impl Run {
    pub(super) async fn hear_late_events(&mut self, pulls: &mut Receiver<Event<PullEvent>>) {
        let _ = timeout(LATE_EVENTS, async {
            while self.warming.is_told_nothing_of_a_pull() {
                self.observe_pull(pulls.recv().await);
            }
        })
        .await;
    }

    /// Deletes all remaining pods of the run, even one whose creation was sent but never answered.
    /// Returns true if none is left.
    pub(super) async fn clean_up(&mut self, report: &mut impl FnMut(News)) -> bool {
        let cleaned = timeout(CLEAN_UP, async {
            while self.writes.join_next().await.is_some() {}
            let pods: Api<WarmerPodWire> =
                Api::namespaced(self.client.clone(), &self.job.warmers.namespace);
            let ours = ListParams::default().labels(&self.job.warmers.selector());
            while let Err(error) = self.delete_all(&pods, &ours).await {
                report(News::Trouble(format!(
                    "warmer pods are not deleted yet: {error}"
                )));
                sleep(LOOK).await;
            }
        });
        let is_clean = cleaned.await.is_ok();
        if !is_clean {
            let Warmers { namespace, .. } = &self.job.warmers;
            let selector = self.job.warmers.selector();
            report(News::Trouble(format!(
                "delete what is left with: kubectl delete pods -n {namespace} -l {selector}"
            )));
        }
        is_clean
    }

    async fn delete_all(&self, pods: &Api<WarmerPodWire>, ours: &ListParams) -> Result<(), String> {
        for pod in list_with(pods, ours.clone(), WarmerPodWire::read)
            .await
            .map_err(|error| words(&error))?
        {
            if pod.deleting {
                continue;
            }
            let delete = Action::Delete {
                name: pod.name,
                uid: pod.uid,
            };
            match self
                .writer
                .warm(&self.job.warmers, &pod.node, &delete)
                .await
            {
                Ok(_) | Err(WriteError::Gone | WriteError::Conflict) => (),
                Err(WriteError::Denied(why)) => return Err(why),
                Err(WriteError::Failed { .. }) => return Err("no answer".to_owned()),
            }
        }
        Ok(())
    }
}
