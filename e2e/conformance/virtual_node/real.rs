//! The nodes on the real virtual-kubelet library, and the namespace of their pods. See "Virtual
//! nodes" in `e2e/README.md`.

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::profile::PROFILES;

const PATIENCE: Duration = Duration::from_secs(300);

/// A node of each profile.
pub struct Real {
    pub client: Client,
    pub namespace: String,
    nodes: Vec<Child>,
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run `eval \"$(e2e/cluster env)\"` first"))
}

impl Real {
    /// Starts them all and waits until they are ready.
    pub async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_default()
            .await
            .expect("KUBECONFIG: run `eval \"$(e2e/cluster env)\"` first");
        let namespace = format!("conformance-nodes-{}", std::process::id());
        prepare(&client, &namespace).await;
        let nodes = (0..PROFILES.len())
            .map(|profile| start(node_name(&namespace, profile), PROFILES[profile].flags));
        let nodes = futures::future::join_all(nodes).await;
        Self {
            client,
            namespace,
            nodes,
        }
    }

    /// The name of the node of a profile.
    pub fn node(&self, profile: usize) -> String {
        node_name(&self.namespace, profile)
    }

    /// Takes all away again; what is left of it goes with the namespace.
    pub async fn clean(mut self) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        let _ = pods.delete_collection(&now, &ListParams::default()).await;
        for node in &mut self.nodes {
            let _ = node.kill().await;
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        for profile in 0..PROFILES.len() {
            let _ = nodes
                .delete(&self.node(profile), &DeleteParams::default())
                .await;
        }
        let _ = Api::<Namespace>::all(self.client.clone())
            .delete(&self.namespace, &DeleteParams::default())
            .await;
    }
}

fn node_name(namespace: &str, profile: usize) -> String {
    format!("{namespace}-{profile}")
}

async fn prepare(client: &Client, namespace: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let object: Namespace = serde_json::from_value(object).unwrap();
    Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let exists = async {
        while accounts.get_opt("default").await.unwrap().is_none() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, exists)
        .await
        .expect("the default ServiceAccount");
}

async fn start(name: String, flags: &[&str]) -> Child {
    let mut process = Command::new(variable("SWAPLET_E2E_VIRTUAL_KUBELET"))
        .args([
            "--kubeconfig",
            &variable("KUBECONFIG"),
            "--node-name",
            &name,
        ])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the program of virtual nodes: run `e2e/cluster build`");
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let first = timeout(PATIENCE, lines.next_line())
        .await
        .expect("a first line")
        .unwrap()
        .unwrap_or_default();
    assert!(first.contains("ready"), "{name}: {first}");
    // It tells of every call; a full pipe would stop it.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    process
}
