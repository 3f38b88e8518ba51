//! The inputs of a decision about a pod besides the pod and its memory.

use super::memory::Memory;
use super::memory::image_troubles::ImageTroubles;
use super::methods::AllowedMethods;
use super::openkruise::OpenKruise;
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::Ledger;
use crate::cluster::node_class::NodeClass;
use crate::cluster::node_verdicts::UnderNever;
use crate::objects::moment::Moment;
use crate::objects::pod::{Pod, roles};
use crate::report::decision::Method;

/// The state of the installation, the node and the time.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The exit images of the installation.
    pub exit_images: &'a ExitImages,
    /// The methods that the administrator allows.
    pub allowed: &'a AllowedMethods,
    /// The restarts that count against the limits of Jobs; it must have observed this state of the
    /// pod ([`Ledger::observe`]).
    pub headroom: &'a Ledger,
    /// Exit images that cannot be pulled, or that a namespace may not use.
    pub image_troubles: &'a ImageTroubles,
    /// The class of the pod's node.
    pub node: NodeClass,
    /// Other facts about the node.
    pub facts: NodeFacts,
    /// The state of OpenKruise, where it is there.
    pub openkruise: OpenKruise<'a>,
    /// The time until which nothing is ended, because the pod was read before the policies were
    /// known that may apply to its sidecars.
    pub policies_unseen_until: Option<Moment>,
    /// The time of the decision.
    pub now: Moment,
    /// The wall-clock time of that start, by the clock of the API server; `None` if unknown.
    pub started_at: Option<jiff::Timestamp>,
}

/// A pod, its memory and its circumstances.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub pod: &'a Pod,
    pub memory: &'a Memory,
    pub around: &'a Circumstances<'a>,
}

impl Circumstances<'_> {
    /// Returns true if a kubelet runs the pods of the node, or may: finishing a pod needs more care
    /// then, which does no harm elsewhere.
    pub(crate) const fn may_be_kubelet(&self) -> bool {
        self.node.is_kubelet() || self.facts.may_be_kubelet
    }

    /// Returns true if pods like this one may be swapped on their node.
    pub(crate) fn may_swap(&self, pod: &Pod) -> bool {
        self.allowed
            .methods(self.node, &pod.restart_policy, self.bears_swap(pod))
            .contains(&Method::Swap)
    }

    /// Returns true if this pod may be swapped although it is under `Never`, or may be the one that
    /// proves it. A pod whose main container has failed loses no work by another failure, but its
    /// end proves nothing either.
    pub(crate) fn bears_swap(&self, pod: &Pod) -> bool {
        match self.facts.under_never {
            UnderNever::No => false,
            UnderNever::Try => self.headroom.bears_failure(pod) && roles::mains_succeeded(pod),
            UnderNever::Yes => true,
        }
    }
}

/// Facts about a pod's node besides its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The time until which the class is unknown, because the watch has not shown the node yet.
    pub unseen_until: Option<Moment>,
    /// The time until which the swap of another pod probes this node, and this pod waits for it: one
    /// pod at a time, so that at most one is harmed. For pods of other namespaces no pod waits long.
    pub probed_until: Option<Moment>,
    /// Whether a pod under `Never` may be swapped there, if the node replaces containers.
    pub under_never: UnderNever,
    /// The time at which the class changes by itself, because what was proved on the node expires.
    pub class_until: Option<Moment>,
    /// True if a kubelet may run the pods of the node although its class says otherwise, by what
    /// was proved there or because that cannot be checked.
    pub may_be_kubelet: bool,
    /// True if the node has the label `type=virtual-kubelet`, the only sign by which OpenKruise
    /// knows virtual nodes.
    pub labelled_virtual: bool,
}
