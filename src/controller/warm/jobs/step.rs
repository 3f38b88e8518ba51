//! The parts of a step besides the jobs: orphaned pods, proofs that other jobs can use, the queries
//! for pods, the room for jobs, the startup taint, and finalizers that OpenKruise left behind.

pub(super) mod finalizers;
pub(crate) mod orphans;
mod queries;
pub(super) mod room;
mod sharing;
mod taints;
