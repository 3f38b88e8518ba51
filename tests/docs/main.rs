//! The documents: what is generated is up to date, links lead somewhere, and what lists something
//! lists all of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a step of a test that fails is a panic"
)]

mod chart;
mod command_line;
mod crds;
mod exposition;
mod findings;
mod leash;
mod links;
mod markdown;
mod measured;
mod metrics;
mod presets;
mod queries;
mod readme;
mod reasons;
mod release;
mod rooms;
#[path = "../scenarios/sample.rs"]
mod sample;
mod suite;
mod supported;
