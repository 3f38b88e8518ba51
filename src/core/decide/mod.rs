//! Every decision, as plain functions: no clock, no client, no async. Time comes in as an argument.
//!
//! A decision ([`terminate`]) reads the pod as it was last seen, what is remembered of it ([`memory`]) and what is around it
//! ([`circumstances`]); it answers what to write and what to report ([`decision`]). The ways to end a sidecar are the rungs of
//! the [`ladder`], one file each. Restarts of single containers are decided in [`restart`]. Memory only times things
//! and keeps reports from being repeated: all else is derived from the pod, so that a new process goes on where the old
//! one ended.

pub mod budget;
pub mod circumstances;
pub mod command;
pub mod decision;
pub mod denials;
pub mod derived_images;
mod ending;
pub mod evidence;
pub mod exit_images;
pub mod explain;
pub mod finish;
pub mod headroom;
pub mod image_troubles;
pub mod ladder;
pub mod lease;
pub mod memory;
pub mod node_class;
pub mod node_table;
pub mod node_verdicts;
pub mod openkruise;
pub mod owner;
pub mod past_exits;
pub mod predownload;
mod preflight;
pub mod proof;
pub mod pull_job;
pub mod reason;
pub mod recreate;
pub mod restart;
pub mod restart_on;
pub mod roles;
pub mod rollout;
pub mod swap;
pub mod terminate;
pub mod warm;
