//! What is probed, the ways that are tried, and what came of them.

use std::fmt;
use std::time::Duration;

use kube::Client;
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::node::Node;
use swaplet_core::report::reason::Reason;
use tokio::sync::watch;

/// How long the API server may take for one answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

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

    /// What tells its pod from those of the other ways.
    pub(crate) const fn suffix(self) -> &'static str {
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
