//! swaplet beside the real OpenKruise: its manager and its daemon, built from its Go module.
//!
//! Needs what the other cases of the cluster need, and `e2e/cluster`. OpenKruise is one per
//! cluster: so these cases are a test of their own, and wait for each other. It acts in the
//! namespaces of its cases only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed case"
)]

#[path = "../cases/audit.rs"]
#[allow(dead_code, reason = "shared with the other cases; each uses a part")]
mod audit;
mod both;
mod daemon;
#[path = "../cases/images.rs"]
#[allow(dead_code, reason = "shared with the other cases; each uses a part")]
mod images;
mod install;
mod installations;
#[path = "../cases/leashes.rs"]
mod leashes;
mod outcomes;
#[path = "../cases/pods.rs"]
#[allow(dead_code, reason = "shared with the other cases; each uses a part")]
mod pods;
#[path = "../cases/process.rs"]
#[allow(dead_code, reason = "shared with the other cases; each uses a part")]
mod process;
mod restart;
#[path = "../cases/shared.rs"]
#[allow(dead_code, reason = "no case of these shares an installation")]
mod shared;
#[path = "../cases/virtual_kubelet.rs"]
#[allow(dead_code, reason = "shared with the other cases; each uses a part")]
mod virtual_kubelet;
mod workloads;
#[path = "../cases/world.rs"]
#[allow(dead_code, reason = "shared with the other cases; each uses a part")]
mod world;
