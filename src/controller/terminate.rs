//! Ends the sidecars of finished Job pods: the index of pods, the derived exit images, and the
//! writes other than swaps.

mod call;
pub mod derive;
pub mod index;
pub(crate) mod job_events;
pub mod policies;
pub mod probe;
pub mod public;
pub mod selection;
pub mod snapshot;
pub mod write_finish;
pub mod write_recreate;

/// The field selector for pods of Jobs: pods with `restartPolicy: Always` are never such pods.
pub(crate) const JOB_PODS: &str = "spec.restartPolicy!=Always";
