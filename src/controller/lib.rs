//! Everything that talks to the API server: watches, guarded writes, reports; and what asks
//! registries meanwhile ([`terminate::derive`], [`warm::resolve`]) by the functions that it is
//! given.
//!
//! ```text
//! watch -> index (memory of all pods, asks core) -> writer -> report
//! ```
//!
//! [`run`] is the loop that connects them; only [`frame::writer`] writes. Of several processes one
//! runs it ([`run::lead`], [`frame::lease`]). Which room may import which stands in
//! `docs/architecture.md`, and `tests/docs/rooms.rs` holds it.

pub mod cluster;
pub mod frame;
mod protect;
pub mod restart;
pub mod run;
pub mod terminate;
pub mod warm;
