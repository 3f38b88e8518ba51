//! Finds out what a node does with each way to end a sidecar, on throw-away pods.
//!
//! Each way is tried on a pod of its own, by the controller's own index and writer, so that nothing
//! can be concluded here that the controller would not conclude. Only the pods of the probe are
//! written, and they are deleted whatever happens.

mod pods;
mod shown;
mod start;
mod trial;

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use swaplet_core::cluster::node_class::{NodeClass, Recognised};
use swaplet_core::cluster::node_verdicts::{NodeId, NodeVerdicts, Proved};
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::node::Node;
use swaplet_core::report::reason::Reason;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

pub use self::pods::LABEL;
use self::trial::Trial;
use crate::frame::list::words;
use crate::frame::writer::FIELD_MANAGER;

/// How long the API server may take for one answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Pauses between the tries to delete a pod, and how many there are.
const DELETE_PAUSE: Duration = Duration::from_millis(500);
const DELETES: u32 = 20;

/// One way to end a sidecar, under one restart policy where that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its image is swapped in a pod under `OnFailure`.
    SwapOnFailure,
    /// Its image is swapped in a pod under `Never`: a provider that fails on it fails the pod.
    SwapNever,
    /// The phase of the pod is written.
    Finish,
}

/// What became of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod is Succeeded, and stayed it.
    Works,
    /// It does not end a pod, for the reason that the controller gives in its Event.
    Fails(Reason),
    /// The time was over before anything was certain.
    TimedOut,
    /// What another way has shown makes it pointless.
    NotTried,
}

/// A way that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The way.
    pub way: Way,
    /// What became of it.
    pub answer: Answer,
    /// From the end of the main container until that was certain.
    pub took: Option<Duration>,
    /// What the status of the pod shows.
    pub evidence: Vec<String>,
    /// The words of the controller, or why it was not tried.
    pub note: String,
    /// What the pod has proved about its node.
    pub proved: Option<Proved>,
}

/// What came of a probe.
#[derive(Debug, Default)]
pub struct Probed {
    /// In the order in which they were tried.
    pub tried: Vec<Tried>,
    /// Why it ended before all ways were tried.
    pub stopped: Option<Stopped>,
    /// Pods that could not be deleted, with the reason.
    pub left: Vec<String>,
}

/// Why a probe ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// There is no pod to try anything on.
    #[error("the API server does not take the pod: {0}")]
    Refused(String),
    /// The node does not run the pod as it should.
    #[error("{0}")]
    NotStarted(String),
    /// Somebody else has deleted it.
    #[error("pod {0} was deleted by somebody else")]
    Gone(String),
    /// Ctrl-C
    #[error("interrupted")]
    Interrupted,
}

/// Becomes true when the probe is to end.
pub type Interrupt = watch::Receiver<bool>;

/// What is probed, and with what.
pub struct Probe {
    /// It must not retry by itself.
    pub client: Client,
    /// The node.
    pub node: Node,
    /// What it is taken for.
    pub recognised: Recognised,
    /// The images of the pods.
    pub images: Images,
    /// Where the pods are created.
    pub namespace: String,
    /// How long a pod may take to start, and a way to show that it works.
    pub timeout: Duration,
    /// Part of the names of the pods and the value of their label: a DNS label of at most 40
    /// characters that no other probe has.
    pub id: String,
}

/// The images of the pods.
pub struct Images {
    /// What the main container runs, and what the sidecar is swapped to.
    pub exit: ImageReference,
    /// What the sidecar runs.
    pub park: ImageReference,
}

impl Way {
    /// In the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::SwapOnFailure, Self::SwapNever, Self::Finish];

    /// `spec.restartPolicy` of its pod.
    #[must_use]
    pub const fn restart_policy(self) -> &'static str {
        match self {
            Self::SwapOnFailure => "OnFailure",
            Self::SwapNever | Self::Finish => "Never",
        }
    }

    /// Whether an image is changed.
    #[must_use]
    pub const fn swaps(self) -> bool {
        matches!(self, Self::SwapOnFailure | Self::SwapNever)
    }

    const fn suffix(self) -> &'static str {
        match self {
            Self::SwapOnFailure => "swap-onfailure",
            Self::SwapNever => "swap-never",
            Self::Finish => "finish",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::SwapOnFailure => "swap under OnFailure",
            Self::SwapNever => "swap under Never",
            Self::Finish => "finish",
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => out.write_str("Works"),
            Self::Fails(reason) => reason.fmt(out),
            Self::TimedOut => out.write_str("TimedOut"),
            Self::NotTried => out.write_str("NotTried"),
        }
    }
}

impl Probe {
    /// Tries the ways one after another; `tell` hears what is being done.
    pub async fn run(
        &self,
        mut interrupt: Interrupt,
        tell: &(dyn Fn(String) + Send + Sync),
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
                .try_way(way, &mut interrupt, tell, &mut probed.left)
                .await
            {
                Ok(tried) => {
                    tell(format!("{way}: {}", tried.answer));
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

    /// What `swaplet run` would take the node for after these pods.
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
                    Duration::ZERO,
                );
            }
        }
        verdicts.class(node, &self.recognised, Duration::ZERO)
    }

    async fn try_way(
        &self,
        way: Way,
        interrupt: &mut Interrupt,
        tell: &(dyn Fn(String) + Send + Sync),
        left: &mut Vec<String>,
    ) -> Result<Tried, Stopped> {
        let name = self.pod_name(way);
        tell(format!("{way}: starting pod {}/{name}", self.namespace));
        let result = match self.create(way).await {
            Created::Yes => {
                Trial {
                    probe: self,
                    way,
                    interrupt,
                    tell,
                }
                .run()
                .await
            }
            Created::Maybe(error) => {
                // It is deleted now; what a busy API server does about it later, nobody waits for.
                Err(Stopped::Refused(format!(
                    "{error}; if it comes into being later all the same, it has the label {LABEL}={}",
                    self.id
                )))
            }
            Created::No(error) => return Err(Stopped::Refused(error)),
        };
        if matches!(result, Err(Stopped::Interrupted)) {
            tell(format!(
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
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match timeout(ANSWER, self.pods().create(&parameters, &pod)).await {
            Ok(Ok(_)) => Created::Yes,
            Ok(Err(kube::Error::Api(status))) if status.code < 500 => {
                Created::No(status.message.clone())
            }
            Ok(Err(error)) => Created::Maybe(words(&error)),
            Err(_) => Created::Maybe(format!("no answer in {} s", ANSWER.as_secs())),
        }
    }

    /// Until the API server says that it is not there.
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

/// Whether there is a pod.
enum Created {
    Yes,
    /// Nobody knows.
    Maybe(String),
    No(String),
}

/// A node that ignores an image ignores it under every policy, and to see that takes a minute.
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
