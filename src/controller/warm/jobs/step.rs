//! The parts of a step besides the jobs: orphaned pods, proofs that other jobs can use, the queries
//! for pods, the startup taint, and finalizers that OpenKruise left behind.

pub(super) mod finalizers;
pub(crate) mod orphans;
mod queries;
mod sharing;
mod taints;
