//! Restarts of single containers (by request, after a configuration change, or for all pods of a
//! workload), and hot upgrades of sidecars that a pod has as a pair.

pub mod hot_upgrade;
pub mod on_config;
pub mod parked;
pub mod pod;
pub mod readiness_gate;
pub mod reconcile;
pub mod request;
pub mod rollout;
