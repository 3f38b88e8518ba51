//! Where the mock node differs from the real virtual-kubelet library, and why that may stay.

use crate::shared::known::Known;

/// The virtual profiles of the mock node, compared with virtual-kubelet 1.12.
pub const VIRTUAL_NODE: &[Known] = &[];
