//! The parts of a step besides the jobs: orphaned pods, proofs that other jobs can use, the startup
//! taint, and finalizers that OpenKruise left behind.

pub(super) mod finalizers;
pub(crate) mod orphans;
mod sharing;
mod taints;
