//! The rules that the administrator has set for the whole installation.

use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;

use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::writer::Tools;

/// What each loop beside that of pods is started with.
#[derive(Clone)]
pub(crate) struct Beside {
    /// The kinds that the API server has.
    pub(crate) discovery: Discovery,
    /// The settings of every loop.
    pub(crate) common: Common,
    /// The tools that all loops share.
    pub(crate) tools: Tools,
}

/// The settings that every loop is started with.
#[derive(Clone, Debug)]
pub struct Common {
    /// The namespaces that the loop works in.
    pub namespaces: Namespaces,
    /// The rules of the installation.
    pub rules: Rules,
    /// The most writes in flight at once; at least one.
    pub concurrency: usize,
}

/// The rules of the installation.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The exit images that may be written.
    pub exit_images: ExitImages,
    /// The methods to end a sidecar that the administrator allows.
    pub allowed: AllowedMethods,
    /// The table by which nodes are recognised.
    pub node_table: NodeTable,
    /// The party that ends sidecars where OpenKruise is installed as well.
    pub coexist: Coexist,
}
