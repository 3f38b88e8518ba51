//! Restarts of single containers: requests are carried out, or made because a configuration has
//! changed.

pub mod driver;
mod observe;
pub mod on_config;
pub mod parked;
pub(crate) mod readiness_gate;
pub mod reconcile;
pub mod write;
