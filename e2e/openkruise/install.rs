//! OpenKruise on the cluster for one case at a time.

use std::process::{Command, Stdio};

use tokio::sync::{Mutex, MutexGuard};

use crate::world::World;

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/cluster");
const RIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/openkruise.yaml");

static ONE: Mutex<()> = Mutex::const_new(());

/// Its manager and its daemon; taken out again when this is dropped.
pub struct OpenKruise {
    namespace: String,
    _only: MutexGuard<'static, ()>,
}

/// What its manager does with sidecars.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SidecarTerminator {
    On,
    Off,
}

impl OpenKruise {
    /// Installs it so that it acts in this namespace only, and gives the controller of this namespace the rights of
    /// `deploy/openkruise.yaml`.
    pub async fn install(world: &World, terminator: SidecarTerminator) -> Self {
        let only = ONE.lock().await;
        let installed = Self { namespace: world.namespace.clone(), _only: only };
        let mut arguments = vec!["openkruise", "up", "--namespace", &world.namespace];
        if terminator == SidecarTerminator::On {
            arguments.push("--sidecar-terminator");
        }
        succeeds(Command::new(CLUSTER).args(arguments));
        installed.grant();
        installed
    }

    fn grant(&self) {
        let namespace = &self.namespace;
        let account = format!("--serviceaccount={namespace}:swaplet");
        kubectl(&["apply", "-f", RIGHTS]);
        kubectl(&["create", "rolebinding", "swaplet-requests", "-n", namespace, "--clusterrole=swaplet-requests", &account]);
        kubectl(&["create", "rolebinding", namespace, "-n", "kruise-system", "--role=swaplet-openkruise", &account]);
        kubectl(&["create", "clusterrolebinding", &self.binding(), "--clusterrole=swaplet-openkruise", &account]);
    }

    fn binding(&self) -> String {
        format!("{}-openkruise", self.namespace)
    }

    /// The daemon is dead, and its pod is still Ready.
    pub fn stop_daemon(&self) {
        succeeds(Command::new(CLUSTER).args(["openkruise", "daemon-stop"]));
    }

    /// The daemon is removed from the node.
    pub fn remove_daemon(&self) {
        succeeds(Command::new(CLUSTER).args(["openkruise", "daemon-down"]));
    }
}

impl Drop for OpenKruise {
    fn drop(&mut self) {
        let _ = Command::new(CLUSTER).args(["openkruise", "down"]).status();
        let _ = Command::new("kubectl").args(["delete", "clusterrolebinding", &self.binding()]).stdout(Stdio::null()).status();
    }
}

fn kubectl(arguments: &[&str]) {
    succeeds(Command::new("kubectl").args(arguments).stdout(Stdio::null()));
}

fn succeeds(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
