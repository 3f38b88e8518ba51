//! What a step does beside the jobs: pods of nobody, what one job has proved for the others, the
//! startup taint, and finalizers that OpenKruise has left.

pub(super) mod finalizers;
mod orphans;
mod sharing;
mod taints;
