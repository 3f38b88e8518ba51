//! Restarts of single containers, by request or after a configuration change, and hot upgrades of
//! sidecars.

pub mod driver;
pub mod hot_upgrade;
pub mod on_config;
pub mod parked;
pub(crate) mod readiness_gate;
pub mod reconcile;
pub mod write;
