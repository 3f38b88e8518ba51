//! OpenKruise on the cluster, for the cases of one installation at a time.

use std::process::{Command, Stdio};

use tokio::sync::{Mutex, MutexGuard};

use crate::world::World;

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/cluster");
const RIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/openkruise.yaml");

static ONE: Mutex<()> = Mutex::const_new(());

/// Its manager and its daemon; taken out again when this is dropped.
pub struct OpenKruise {
    namespaces: Vec<String>,
    _only: MutexGuard<'static, ()>,
}

/// What its manager does with sidecars.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SidecarTerminator {
    On,
    Off,
}

impl OpenKruise {
    /// Installs it so that it acts in these namespaces only, and gives the controllers of these
    /// namespaces the rights of `deploy/openkruise.yaml`.
    pub async fn install(worlds: &[&World], terminator: SidecarTerminator) -> Self {
        let only = ONE.lock().await;
        let installed = Self {
            namespaces: worlds.iter().map(|world| world.namespace.clone()).collect(),
            _only: only,
        };
        let mut arguments = vec!["openkruise", "up"];
        arguments.extend(
            installed
                .namespaces
                .iter()
                .flat_map(|namespace| ["--namespace", namespace]),
        );
        if terminator == SidecarTerminator::On {
            arguments.push("--sidecar-terminator");
        }
        succeeds(Command::new(CLUSTER).args(arguments));
        kubectl(&["apply", "-f", RIGHTS]);
        installed
            .namespaces
            .iter()
            .for_each(|namespace| grant(namespace));
        installed
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
        let bindings = self.namespaces.iter().map(|namespace| binding(namespace));
        let delete = ["delete", "clusterrolebinding"];
        let _ = Command::new("kubectl")
            .args(delete)
            .args(bindings)
            .stdout(Stdio::null())
            .status();
    }
}

fn grant(namespace: &str) {
    let account = format!("--serviceaccount={namespace}:swaplet");
    kubectl(&[
        "create",
        "rolebinding",
        "swaplet-requests",
        "-n",
        namespace,
        "--clusterrole=swaplet-requests",
        &account,
    ]);
    kubectl(&[
        "create",
        "rolebinding",
        namespace,
        "-n",
        "kruise-system",
        "--role=swaplet-openkruise",
        &account,
    ]);
    kubectl(&[
        "create",
        "clusterrolebinding",
        &binding(namespace),
        "--clusterrole=swaplet-openkruise",
        &account,
    ]);
}

fn binding(namespace: &str) -> String {
    format!("{namespace}-openkruise")
}

fn kubectl(arguments: &[&str]) {
    succeeds(
        Command::new("kubectl")
            .args(arguments)
            .stdout(Stdio::null()),
    );
}

fn succeeds(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
