//! The subject of a probe, the ways that are tried, and their results.

use std::fmt;
use std::time::Duration;

use kube::Client;
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::node::Node;
use swaplet_core::report::reason::Reason;
use tokio::sync::watch;

/// The deadline of one request to the API server.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// A method of ending a sidecar, combined with a restart policy where that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Swaps the image in a pod with `restartPolicy: OnFailure`.
    SwapOnFailure,
    /// Swaps the image in a pod with `restartPolicy: Never`, which a failing provider fails.
    SwapNever,
    /// Writes the phase of the pod.
    Finish,
}

/// The result of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod is Succeeded and stays so.
    Works,
    /// The pod does not end, for the reason that the controller reports in its Event.
    Fails(Reason),
    /// The timeout passed before there was a result.
    TimedOut,
    /// Skipped, because the result of another way makes it pointless.
    NotTried,
}

/// A way with its result.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The way.
    pub way: Way,
    /// Its result.
    pub answer: Answer,
    /// The time from the end of the main container to the result; `None` if it was not tried.
    pub took: Option<Duration>,
    /// The evidence in the status of the pod.
    pub evidence: Vec<String>,
    /// The controller's message, or why the way was not tried.
    pub note: String,
    /// What the pod proved about its node.
    pub proved: Option<Proved>,
}

/// The result of a probe.
#[derive(Debug, Default)]
pub struct Probed {
    /// The ways, in the order in which they were tried.
    pub tried: Vec<Tried>,
    /// Why the probe ended before all ways were tried.
    pub stopped: Option<Stopped>,
    /// Pods that could not be deleted, each with the reason.
    pub left: Vec<String>,
}

/// The reason why a probe ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The API server does not accept the pod.
    #[error("the API server rejects the pod: {0}")]
    Refused(String),
    /// The node does not run the pod as expected.
    #[error("{0}")]
    NotStarted(String),
    /// Somebody else has deleted the pod.
    #[error("pod {0} was deleted by somebody else")]
    Gone(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// A flag that becomes true when the probe must end.
pub type Interrupt = watch::Receiver<bool>;

/// The settings of a probe.
pub struct Probe {
    /// The client. It must not retry by itself.
    pub client: Client,
    /// The node.
    pub node: Node,
    /// How the node was recognised.
    pub recognised: Recognised,
    /// The images of the pods.
    pub images: Images,
    /// The namespace of the pods.
    pub namespace: String,
    /// The time that a pod has to start, and then each way to show a result.
    pub timeout: Duration,
    /// The suffix of the pod names and value of their label: a DNS label of at most 40 characters,
    /// unique to this probe.
    pub id: String,
}

/// The images of the pods.
pub struct Images {
    /// The image of the main container, and the one to which the sidecar is swapped.
    pub exit: ImageReference,
    /// The image of the sidecar.
    pub park: ImageReference,
}

impl Way {
    /// All ways, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::SwapOnFailure, Self::SwapNever, Self::Finish];

    /// Returns `spec.restartPolicy` of the way's pod.
    #[must_use]
    pub const fn restart_policy(self) -> &'static str {
        match self {
            Self::SwapOnFailure => "OnFailure",
            Self::SwapNever | Self::Finish => "Never",
        }
    }

    /// Returns true if the way changes an image.
    #[must_use]
    pub const fn swaps(self) -> bool {
        matches!(self, Self::SwapOnFailure | Self::SwapNever)
    }

    /// Returns the part of the pod name that is unique to the way.
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
