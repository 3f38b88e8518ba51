//! What is asked of the check, apart from what is looked at.

use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;

/// How the check judges.
pub(super) struct Settings {
    /// Names of containers that are taken for sidecars, marked or not.
    pub sidecars: Vec<String>,
    /// Whether NeedsImage is no fault.
    pub allow_derived: bool,
    /// Whether the controller may write the phase of a pod where swaps do not fit.
    pub finish: bool,
    /// The namespace of objects that have none.
    pub namespace: Option<Box<str>>,
    /// Whether all pods are said to run on virtual nodes.
    pub virtual_nodes: bool,
    /// The exit images that policies may name, where they are said.
    pub exit_images: Option<ExitImages>,
    /// How nodes are recognised.
    pub node_table: NodeTable,
}
