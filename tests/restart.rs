//! `swaplet restart` and the plugin of kubectl, through the real binary, at the embedded API
//! server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a step of a test that fails is a panic"
)]

mod daemon;
mod habits;
mod nodes;
mod parked;
mod plugin;
mod refusals;
mod rollouts;
mod troubles;
pub mod world;
