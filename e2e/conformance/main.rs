//! Holds the testbed to the real things: what a test shows on a fake must be true of what it stands
//! for.
//!
//! Random sequences of operations run on both, and what comes back must be the same but for times
//! and ids. A difference fails, or stands in [`differences`] with its reason; an entry there that
//! no longer matches anything is told.
//!
//! Needs a real cluster and the variables that `e2e/cluster env` prints. Three more are of use:
//!
//! * `SWAPLET_SEED`: another set of sequences; a failure tells its seed
//! * `SWAPLET_SEQUENCES`: how many sequences of the set run for each pair (20)
//! * `SWAPLET_SEQUENCE`: only this one sequence of the set; its answers are printed in full

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod api_server;
mod differences;
#[path = "../cases/images.rs"]
mod images;
mod kubelet;
#[allow(dead_code, reason = "the cases use the rest of it")]
#[path = "../cases/registry_proxy.rs"]
mod registry_proxy;
mod shared;
mod virtual_node;
/// As in the cases.
mod world {
    /// A variable of the cluster.
    pub fn variable(name: &str) -> String {
        std::env::var(name).unwrap_or_else(|_| {
            panic!("{name} is not set: run `eval \"$(e2e/cluster env)\"` first")
        })
    }
}
