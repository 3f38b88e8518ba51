//! The settings of the check, apart from its input.

use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;

/// The settings by which the check judges.
pub(super) struct Settings {
    /// The names of containers that count as sidecars, marked or not.
    pub sidecars: Vec<String>,
    /// True if NeedsImage is not a fault.
    pub allow_derived: bool,
    /// True if the controller may write the phase of a pod where swaps do not fit.
    pub finish: bool,
    /// The namespace of objects that have none.
    pub namespace: Option<Box<str>>,
    /// True if all pods are declared to run on virtual nodes.
    pub virtual_nodes: bool,
    /// The exit images that policies may name, if they are given.
    pub exit_images: Option<ExitImages>,
    /// The exit images that may need credentials to be pulled; `None` if nobody names one.
    pub pulled: Option<ExitImages>,
    /// The table by which nodes are recognised.
    pub node_table: NodeTable,
}
