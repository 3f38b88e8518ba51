//! The commands about pods whose sidecars are to end, and about what decides it: their nodes and
//! policies.

pub(super) mod explain;
pub(super) mod nodes;
pub(super) mod policy;
pub(super) mod rescue;
