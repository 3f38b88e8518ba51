//! Kubernetes objects as swaplet reads them: only the fields that decisions use, and tolerant of
//! everything else.
//!
//! Decoding never fails on well-formed JSON: a field of an unexpected type, or longer than its
//! bound, is read as absent and recorded in [`pod::Pod::malformed`], so that one malformed object
//! cannot stop a watch (one undecodable item would fail a whole list).

#[macro_use]
mod of_kind;
pub mod command;
pub mod isolated;
pub mod item;
pub mod moment;
pub mod values;

pub mod job;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod recreate_request;
pub mod runs_on;
pub mod sidecar_policy;
