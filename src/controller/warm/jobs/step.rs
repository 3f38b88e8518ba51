//! The parts of a step besides the jobs: orphaned pods, what has become final, the queries
//! for pods, the room for jobs, the startup taint, and finalizers that OpenKruise left behind.

mod ended;
pub(super) mod finalizers;
pub(crate) mod orphans;
mod queries;
pub(super) mod room;
mod taints;
