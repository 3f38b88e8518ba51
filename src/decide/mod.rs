//! Every decision, as plain functions: no clock, no client, no async. Time comes in as an argument.
//!
//! A decision reads the pod as it was last seen, what is remembered of it ([`memory`]) and the rules of the
//! installation ([`exit_images`]); it answers what to write and what to report ([`terminate`]). Memory only times things
//! and keeps reports from being repeated: all else is derived from the pod, so that a new process goes on where the old
//! one ended.

pub mod command;
pub mod evidence;
pub mod exit_images;
pub mod headroom;
pub mod memory;
pub mod reason;
pub mod roles;
pub mod terminate;
