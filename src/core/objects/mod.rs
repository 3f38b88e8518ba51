//! Kubernetes objects as swaplet reads them: only the fields that decisions use, and tolerant of everything else.
//!
//! Decoding never fails on well-formed JSON: a field of an unexpected type, or longer than its bound, is read as absent and remembered
//! as [`pod::Pod::malformed`], so that one strange object cannot stop a watch (one undecodable item would fail a whole list).

#[macro_use]
mod of_kind;

mod bounded_value;
pub mod bounds;
pub mod configured_pod;
pub mod container_spec;
mod container_wire;
pub mod daemon_pod;
pub mod env;
pub mod go_duration;
pub mod image_cache;
pub mod job;
pub mod label_selector;
pub mod lenient;
pub mod node;
pub mod node_images;
pub mod parked;
pub mod pod;
pub mod pod_readiness;
pub mod pod_template;
pub mod pull_job;
pub mod recreate_request;
pub mod restart_on;
pub mod restart_pod;
pub mod restart_request;
pub mod short_digest;
pub mod warmer_pod;
mod weight;
pub mod wire;
pub mod workload;
