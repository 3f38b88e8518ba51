//! What a decision about a pod depends on besides the pod and what is remembered of it.

use std::time::Duration;

use super::exit_images::ExitImages;
use super::ladder::Ladder;
use super::node_class::NodeClass;
use super::openkruise::OpenKruise;

/// The installation, the node and the time.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The exit images of the installation.
    pub exit_images: &'a ExitImages,
    /// What the administrator allows.
    pub ladder: &'a Ladder,
    /// The class of the pod's node.
    pub node: NodeClass,
    /// OpenKruise, where it is there.
    pub openkruise: OpenKruise<'a>,
    /// The time since the start of the process.
    pub now: Duration,
}
