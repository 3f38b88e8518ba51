//! Tests on throw-away pods what a node does with each way to end a sidecar.
//!
//! Each way is tried on a pod of its own, by the controller's own index and writer, so that no
//! conclusion is drawn here that the controller would not draw. Only the pods of the probe are
//! written, and they are always deleted.

mod pods;
mod probed;
mod shown;
mod start;
mod trial;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::{NodeId, NodeVerdicts, Proved};
use swaplet_core::objects::moment::Moment;
use tokio::time::{sleep, timeout};

pub use self::pods::LABEL;
use self::probed::ANSWER;
pub use self::probed::{Answer, Images, Interrupt, Probe, Probed, Stopped, Tried, Way};
use self::trial::Trial;
use crate::frame::list::words;
use crate::frame::writer::created;

/// The pause between the tries to delete a pod, and their maximum number.
const DELETE_PAUSE: Duration = Duration::from_millis(500);
const DELETES: u32 = 20;

impl Probe {
    /// Tries the ways one after another; `report` receives each step.
    pub async fn run(
        &self,
        mut interrupt: Interrupt,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Probed {
        let mut probed = Probed::default();
        for way in Way::ALL {
            if let Some(pointless) = pointless(way, &probed.tried) {
                probed.tried.push(pointless);
                continue;
            }
            if *interrupt.borrow() {
                probed.stopped = Some(Stopped::Interrupted);
                break;
            }
            match self
                .try_way(way, &mut interrupt, report, &mut probed.left)
                .await
            {
                Ok(tried) => {
                    report(format!("{way}: {}", tried.answer));
                    probed.tried.push(tried);
                }
                Err(stopped) => {
                    probed.stopped = Some(stopped);
                    break;
                }
            }
        }
        probed
    }

    /// Returns the class that `swaplet run` would assign to the node after these pods.
    #[must_use]
    pub fn class(&self, probed: &Probed) -> NodeClass {
        let node = NodeId {
            name: &self.node.name,
            uid: &self.node.uid,
        };
        let mut verdicts = NodeVerdicts::default();
        for tried in &probed.tried {
            if let Some(proved) = tried.proved {
                verdicts.learn(
                    node,
                    &self.recognised,
                    proved,
                    &self.pod_name(tried.way),
                    Moment::START,
                );
            }
        }
        verdicts.class(node, &self.recognised, Moment::START)
    }

    async fn try_way(
        &self,
        way: Way,
        interrupt: &mut Interrupt,
        report: &(dyn Fn(String) + Send + Sync),
        left: &mut Vec<String>,
    ) -> Result<Tried, Stopped> {
        let name = self.pod_name(way);
        report(format!("{way}: starting pod {}/{name}", self.namespace));
        let result = match self.create(way).await {
            Created::Yes => {
                Trial {
                    probe: self,
                    way,
                    interrupt,
                    report,
                }
                .run()
                .await
            }
            Created::Maybe(error) => {
                // Deleted now; nothing waits for a creation that a busy API server makes later.
                Err(Stopped::Refused(format!(
                    "{error}; if it is created later, it has the label {LABEL}={}",
                    self.id
                )))
            }
            Created::No(error) => return Err(Stopped::Refused(error)),
        };
        if matches!(result, Err(Stopped::Interrupted)) {
            report(format!(
                "interrupted: deleting pod {}/{name}",
                self.namespace
            ));
        }
        if let Err(error) = self.delete(&name).await {
            left.push(format!(
                "pod {}/{name} is still there: {error}",
                self.namespace
            ));
        }
        result
    }

    async fn create(&self, way: Way) -> Created {
        let pod: Pod = match serde_json::from_value(self.pod(way)) {
            Ok(pod) => pod,
            Err(error) => return Created::No(error.to_string()),
        };
        match timeout(ANSWER, self.pods().create(&created(), &pod)).await {
            Ok(Ok(_)) => Created::Yes,
            Ok(Err(kube::Error::Api(status))) if status.code < 500 => {
                Created::No(status.message.clone())
            }
            Ok(Err(error)) => Created::Maybe(words(&error)),
            Err(_) => Created::Maybe(format!("no answer in {} s", ANSWER.as_secs())),
        }
    }

    /// Deletes a pod, and retries until the API server answers that it does not exist.
    async fn delete(&self, name: &str) -> Result<(), String> {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        let mut last = String::new();
        for _ in 0..DELETES {
            match timeout(ANSWER, self.pods().delete(name, &now)).await {
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(()),
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                    return Err(status.message.clone());
                }
                Ok(Ok(_)) => "a finalizer keeps it".clone_into(&mut last),
                Ok(Err(error)) => last = words(&error),
                Err(_) => last = format!("no answer in {} s", ANSWER.as_secs()),
            }
            sleep(DELETE_PAUSE).await;
        }
        Err(last)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// The result of a create request.
enum Created {
    Yes,
    /// Unknown.
    Maybe(String),
    No(String),
}

/// Skips a swap that a node ignores under every restart policy: to observe that takes a minute.
fn pointless(way: Way, tried: &[Tried]) -> Option<Tried> {
    let ignored = tried
        .iter()
        .any(|tried| tried.proved == Some(Proved::Inert));
    (way == Way::SwapNever && ignored).then(|| Tried {
        way,
        answer: Answer::NotTried,
        took: None,
        evidence: Vec::new(),
        note: "the node ignores changed images, whatever the restart policy".to_owned(),
        proved: None,
    })
}
