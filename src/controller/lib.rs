//! The loops that talk to the API server: watches, guarded writes and reports.
//! [`terminate::derive`] also pushes to a registry, through a function that is passed to it.
//!
//! ```text
//! watch -> index (memory of all pods, calls core) -> writer -> report
//! ```
//!
//! [`run`] is the loop that connects them; every write to an object of a user goes through
//! [`frame::writer`]. Of several replicas one runs it ([`run::lead`], [`frame::lease`]).
//! `docs/architecture.md` says which room may import which, and `tests/docs/rooms.rs` checks it.

pub mod cluster;
pub mod frame;
mod protect;
pub mod restart;
pub mod run;
pub mod terminate;
pub mod warm;
