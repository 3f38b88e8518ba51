//! What a decision about a pod depends on besides the pod and what is remembered of it.

use std::time::Duration;

use super::memory::Memory;
use super::memory::image_troubles::ImageTroubles;
use super::methods::AllowedMethods;
use super::openkruise::OpenKruise;
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::Ledger;
use crate::cluster::node_class::NodeClass;
use crate::cluster::node_verdicts::UnderNever;
use crate::objects::pod::{Pod, roles};
use crate::report::decision::Method;

/// The installation, the node and the time.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The exit images of the installation.
    pub exit_images: &'a ExitImages,
    /// What the administrator allows.
    pub allowed: &'a AllowedMethods,
    /// The restarts that count against the limits of Jobs; it must have observed this state of the
    /// pod ([`Ledger::observe`]).
    pub headroom: &'a Ledger,
    /// When a swap of a pod of the same Job was last made: the line of those that wait for room
    /// gets on.
    pub line_moved: Option<Duration>,
    /// Exit images that cannot be had.
    pub image_troubles: &'a ImageTroubles,
    /// The class of the pod's node.
    pub node: NodeClass,
    /// What else is known of it.
    pub facts: NodeFacts,
    /// OpenKruise, where it is there.
    pub openkruise: OpenKruise<'a>,
    /// Until when nothing is ended, because the pod was read before the policies were known that may
    /// be about its sidecars.
    pub policies_unseen_until: Option<Duration>,
    /// The time since the start of the process.
    pub now: Duration,
    /// The time of day at that start, by the clock of the API server; `None` where it is not known.
    pub started_at: Option<jiff::Timestamp>,
}

/// A pod with what is remembered of it, and everything else that a decision depends on.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub pod: &'a Pod,
    pub memory: &'a Memory,
    pub around: &'a Circumstances<'a>,
}

impl Circumstances<'_> {
    /// Whether a kubelet runs the pods of the node, or may: finishing a pod needs more care then,
    /// which does no harm elsewhere.
    pub(crate) const fn may_be_kubelet(&self) -> bool {
        self.node.is_kubelet() || self.facts.may_be_kubelet
    }

    /// Whether the node of this pod may get swaps.
    pub(crate) fn may_swap(&self, pod: &Pod) -> bool {
        self.allowed
            .methods(self.node, &pod.restart_policy, self.bears_swap(pod))
            .contains(&Method::Swap)
    }

    /// Whether this pod may be swapped although it is under `Never`, or may be the one that proves
    /// it: the work of one whose main has failed is not lost by another failure, but neither does
    /// its end prove anything.
    pub(crate) fn bears_swap(&self, pod: &Pod) -> bool {
        match self.facts.under_never {
            UnderNever::No => false,
            UnderNever::Try => self.headroom.bears_failure(pod) && roles::mains_succeeded(pod),
            UnderNever::Yes => true,
        }
    }
}

/// What is known of a pod's node besides its class. All times are durations since the start of the
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Until when the class is not known yet, because the node has not been seen.
    pub unseen_until: Option<Duration>,
    /// Until when the swap of another pod is the probe of this node: one at a time, so that one pod
    /// at most pays for it.
    pub probed_until: Option<Duration>,
    /// Whether a pod under `Never` may be swapped there, where the node replaces containers.
    pub under_never: UnderNever,
    /// When the class changes by itself, because what was proved on the node expires.
    pub class_until: Option<Duration>,
    /// Whether a kubelet may run the pods of the node although its class says otherwise, by what
    /// was proved there or because nobody can look.
    pub may_be_kubelet: bool,
    /// Whether the node has the label `type=virtual-kubelet`, by which alone OpenKruise knows
    /// virtual nodes.
    pub labelled_virtual: bool,
}
