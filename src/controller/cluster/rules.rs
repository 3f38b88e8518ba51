//! What the administrator has laid down for the whole installation.

use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;

use crate::frame::connection::namespaces::Namespaces;

/// What every loop is told when it starts.
#[derive(Clone, Debug)]
pub struct Common {
    /// Where it works.
    pub namespaces: Namespaces,
    /// The rules of the installation.
    pub rules: Rules,
    /// Writes under way at once; at least one.
    pub concurrency: usize,
}

/// The rules of the installation.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The exit images.
    pub exit_images: ExitImages,
    /// The ways to end a sidecar that the administrator allows.
    pub allowed: AllowedMethods,
    /// How nodes are recognised.
    pub node_table: NodeTable,
    /// Who ends sidecars where OpenKruise is there as well.
    pub coexist: Coexist,
}
