//! OpenKruise on the cluster for one case at a time.

use std::process::Command;

use tokio::sync::{Mutex, MutexGuard};

use crate::world::World;

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/cluster");

static ONE: Mutex<()> = Mutex::const_new(());

/// Its manager and its daemon; taken out again when this is dropped.
pub struct OpenKruise {
    _only: MutexGuard<'static, ()>,
}

/// What its manager does with sidecars.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SidecarTerminator {
    On,
    Off,
}

impl OpenKruise {
    /// Installs it so that it acts in this namespace only.
    pub async fn install(world: &World, terminator: SidecarTerminator) -> Self {
        let only = ONE.lock().await;
        let mut arguments = vec!["up", "--namespace", &world.namespace];
        if terminator == SidecarTerminator::On {
            arguments.push("--sidecar-terminator");
        }
        cluster(&arguments);
        Self { _only: only }
    }

    /// The daemon is dead, and its pod is still Ready.
    pub fn stop_daemon(&self) {
        cluster(&["daemon-stop"]);
    }

    /// The daemon is removed from the node.
    pub fn remove_daemon(&self) {
        cluster(&["daemon-down"]);
    }
}

impl Drop for OpenKruise {
    fn drop(&mut self) {
        let _ = Command::new(CLUSTER).args(["openkruise", "down"]).status();
    }
}

fn cluster(arguments: &[&str]) {
    let status = Command::new(CLUSTER).arg("openkruise").args(arguments).status().expect("e2e/cluster");
    assert!(status.success(), "e2e/cluster openkruise {arguments:?}: {status}");
}
