//! Kubernetes objects as swaplet reads them: only the fields that decisions use.
//!
//! The API server has checked their types. A field that is longer than its bound is read as absent
//! and recorded, for pods in [`pod::Pod::malformed`]. Where an object cannot be decoded, a list
//! knows it by its metadata alone (see [`item::Item`]), so that it costs no other.

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
