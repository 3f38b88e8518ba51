//! How a node reacts to an image change.

use std::fmt;

/// The class of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeClass {
    /// A kubelet: restarts exactly the changed container (truth table, rows 1 to 6).
    Kubelet,
    /// A virtual node whose provider carries image changes out.
    VirtualUpdates,
    /// A virtual node whose provider ignores image changes, and may say that they succeeded (truth table, section 6).
    VirtualInert,
    /// A virtual node whose provider answers image changes with an error, which fails a pod under `Never` (truth table, section 6).
    VirtualRejects,
    /// A kubelet beside which OpenKruise's daemon runs.
    Daemon,
    /// A virtual node of which nothing is known.
    Unknown,
}

impl NodeClass {
    /// Whether a kubelet runs the pods of the node.
    #[must_use]
    pub const fn is_kubelet(self) -> bool {
        matches!(self, Self::Kubelet | Self::Daemon)
    }
}

impl fmt::Display for NodeClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}
