//! A virtual node of a case: the real virtual-kubelet library with a provider that runs no
//! containers. See "Virtual nodes" in `e2e/README.md`.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::world::{PATIENCE, World, eventually, variable};

/// Waits until the API server has the condition too: the library is ready as soon as it has
/// registered the node.
async fn is_ready(world: &World) {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let name = &*world.namespace;
    eventually(&format!("node {name} to be Ready"), || async {
        let conditions = nodes.get_opt(name).await.unwrap()?.status?.conditions?;
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
            .then_some(())
    })
    .await;
}

/// The node and its process, which ends with the case.
pub struct VirtualNode {
    name: String,
    process: Child,
    calls: Arc<Mutex<Vec<Value>>>,
}

impl VirtualNode {
    /// Starts it, named after the namespace, and waits until it is ready.
    pub async fn start(world: &World, options: &[&str]) -> Self {
        let mut process = Command::new(variable("SWAPLET_E2E_VIRTUAL_KUBELET"))
            .args([
                "--kubeconfig",
                &variable("KUBECONFIG"),
                "--node-name",
                &world.namespace,
            ])
            .args(options)
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
        assert!(first.contains("ready"), "{first}");
        let calls = Arc::default();
        tokio::spawn(collect(lines, Arc::clone(&calls)));
        is_ready(world).await;
        Self {
            name: world.namespace.clone(),
            process,
            calls,
        }
    }

    /// Places a pod spec on this node.
    pub fn place(&self, mut spec: Value) -> Value {
        spec["nodeSelector"] = json!({"kubernetes.io/hostname": self.name});
        spec["tolerations"] = json!([{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]);
        spec
    }

    /// The node says its class itself.
    pub async fn label(&self, world: &World, class: &str) {
        self.label_as(world, "swaplet.io/node-class", class).await;
    }

    /// Gives the node a label.
    pub async fn label_as(&self, world: &World, key: &str, value: &str) {
        let nodes: Api<Node> = Api::all(world.client.clone());
        let patch = json!({"metadata": {"labels": {key: value}}});
        nodes
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// The class of the node and what it is taken for without any proof, as `swaplet nodes` shows
    /// it once this is proved; at once where it is nothing.
    pub async fn known(&self, world: &World, proved: &str) -> (String, String) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        eventually(&format!("{proved:?} to be shown"), || async {
            let shown = Command::new(env!("CARGO_BIN_EXE_swaplet"))
                .args([
                    "nodes",
                    &self.name,
                    "-o",
                    "json",
                    "--state-namespace",
                    &world.state_namespace(),
                    "--kubeconfig",
                    &variable("KUBECONFIG"),
                ])
                .output()
                .await
                .unwrap();
            // A busy API server may have no answer for it.
            let shown: Value = serde_json::from_slice(&shown.stdout).ok()?;
            let node = &shown["nodes"][0];
            (text(&node["proved"]["proved"]) == proved)
                .then(|| (text(&node["class"]), text(&node["takenFor"])))
        })
        .await
    }

    /// How often the library has called the provider with this about a pod.
    pub fn calls(&self, call: &str, pod: &str) -> usize {
        let key = format!("{}/{pod}", self.name);
        self.calls
            .lock()
            .unwrap()
            .iter()
            .filter(|entry| entry["call"] == call && entry["pod"] == *key)
            .count()
    }

    /// Which Events the library has made about a pod, sorted.
    pub async fn events(&self, world: &World, pod: &str) -> Vec<String> {
        let mut reasons = Vec::new();
        for event in world
            .api::<Event>()
            .list(&ListParams::default())
            .await
            .unwrap()
        {
            let about = event.regarding.and_then(|object| object.name);
            reasons.extend(
                event.reason.filter(|reason| {
                    reason.starts_with("Provider") && about.as_deref() == Some(pod)
                }),
            );
        }
        reasons.sort();
        reasons
    }

    /// The end of a case that went well.
    pub async fn done(mut self, world: World) {
        let nodes: Api<Node> = Api::all(world.client.clone());
        world.done().await;
        self.process.kill().await.unwrap();
        let _ = nodes.delete(&self.name, &DeleteParams::default()).await;
    }
}

async fn collect(mut lines: Lines<BufReader<ChildStdout>>, calls: Arc<Mutex<Vec<Value>>>) {
    while let Ok(Some(line)) = lines.next_line().await {
        println!("virtual node: {line}");
        calls
            .lock()
            .unwrap()
            .push(serde_json::from_str(&line).unwrap());
    }
}
