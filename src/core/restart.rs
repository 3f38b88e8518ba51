//! Restarts of single containers: by requests, because a configuration has changed, and of all pods
//! of a workload; and hot upgrades of sidecars that pods have twice.

pub mod hot_upgrade;
pub mod on_config;
pub mod parked;
pub mod pod;
pub mod readiness_gate;
pub mod reconcile;
pub mod request;
pub mod rollout;
