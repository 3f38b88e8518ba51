//! The sidecars of finished Job pods: the index of pods, the exit images that are derived, and the
//! writes that are no swap.

pub mod derive;
pub mod index;
pub(crate) mod job_events;
pub mod logs;
pub mod policies;
pub mod probe;
pub mod selection;
pub mod snapshot;
pub mod write_finish;
pub mod write_recreate;

/// Pods that restart always are not pods of Jobs; the API server keeps them from us.
pub(crate) const JOB_PODS: &str = "spec.restartPolicy!=Always";
