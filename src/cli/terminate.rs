//! The commands about pods whose sidecars must end, and about their nodes and policies.

pub(super) mod explain;
pub(super) mod nodes;
pub(super) mod policy;
pub(super) mod rescue;
pub mod unmarked;
