//! The embedded API server, through the real kube client and the real `kubectl`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

mod common;
mod faults;
mod jobs;
mod kubectl;
mod objects;
mod watches;
