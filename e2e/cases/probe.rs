//! `swaplet probe` on the real kubelet and the real virtual-kubelet library: what it finds, with no
//! more rights than its help names, and that it writes nothing but its own pods and leaves none.

use std::process::{Output, Stdio};

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::audit::{Written, written_in};
use crate::virtual_kubelet::VirtualNode;
use crate::world::{World, eventually, kubectl, variable};

const WAYS: [&str; 3] = ["swap under OnFailure", "swap under Never", "finish"];

/// The rights that `swaplet probe --help` names, but for the ConfigMaps, which it can do without.
struct Rights(String);

impl Rights {
    async fn grant(world: &World) -> Self {
        let (namespace, account) = (
            &world.namespace,
            format!("--serviceaccount={}:swaplet", world.namespace),
        );
        let nodes = format!("{namespace}-probe");
        kubectl(&[
            "create",
            "clusterrole",
            &nodes,
            "--verb=get",
            "--resource=nodes",
        ])
        .await;
        kubectl(&[
            "create",
            "clusterrolebinding",
            &nodes,
            "--clusterrole",
            &nodes,
            &account,
        ])
        .await;
        kubectl(&[
            "create",
            "role",
            "probe",
            "-n",
            namespace,
            "--verb=create,get,patch,delete",
            "--resource=pods,pods/status",
        ])
        .await;
        kubectl(&[
            "create",
            "rolebinding",
            "probe",
            "-n",
            namespace,
            "--role=probe",
            &account,
        ])
        .await;
        Self(nodes)
    }

    async fn take_back(self) {
        kubectl(&["delete", "clusterrolebinding,clusterrole", &self.0]).await;
    }
}

fn command(world: &World, node: &str) -> Command {
    // Who runs the tests may have SIGHUP ignored, and who ignores it wants to go on.
    let mut command = Command::new("env");
    command.args([
        "--default-signal=HUP",
        env!("CARGO_BIN_EXE_swaplet"),
        "probe",
        node,
        "-o",
        "json",
        "--namespace",
        &world.namespace,
        "--exit-image",
        &world.images.exit,
    ]);
    command
        .args(["--park-image", &world.images.park, "--kubeconfig"])
        .arg(&world.kubeconfig)
        // On a busy node a pod takes longer to start.
        .args(["--timeout", "10m"]);
    command
}

/// Nothing stays, and nothing but the pods of the probe was written.
async fn assert_clean(world: &World) {
    eventually("the pods of the probe to be gone", || async {
        world.pods().await.is_empty().then_some(())
    })
    .await;
    let written = written_in(&world.namespace);
    // A creation that was refused has no body: the account of a new namespace may not exist yet.
    let is_refused = |write: &Written| write.code == 403 && write.body.is_null();
    for write in written.iter().filter(|write| !is_refused(write)) {
        let name = if write.pod.is_empty() {
            write.body["metadata"]["name"].as_str().unwrap_or_default()
        } else {
            &write.pod
        };
        assert!(
            write.resource == "pods" && name.starts_with("swaplet-probe-"),
            "{write:#?}"
        );
    }
}

async fn probe(world: &World, node: &str) -> (Output, Value) {
    let output = command(world, node).output().await.unwrap();
    println!("{}", String::from_utf8_lossy(&output.stderr));
    assert_clean(world).await;
    let found = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, found)
}

fn results(found: &Value) -> Vec<&str> {
    let ways = found["ways"].as_array().unwrap();
    assert_eq!(
        ways.iter()
            .map(|way| way["way"].as_str().unwrap())
            .collect::<Vec<_>>(),
        WAYS
    );
    ways.iter()
        .map(|way| way["result"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn on_the_kubelet_every_way_works() {
    let world = World::without_leash("probe").await;
    let rights = Rights::grant(&world).await;
    let (output, found) = probe(&world, &variable("SWAPLET_E2E_NODE")).await;
    assert_eq!(results(&found), ["Works", "Works", "Works"], "{found:#}");
    assert_eq!(
        (&found["verdict"], &found["command"], output.status.code()),
        (&json!("Kubelet"), &Value::Null, Some(0))
    );
    assert!(
        found["ways"][0]["evidence"]
            .as_array()
            .unwrap()
            .contains(&json!("new containerID")),
        "{found:#}"
    );
    rights.take_back().await;
    world.done().await;
}

async fn on_a_virtual_node(case: &str, options: &[&str], expected: [&str; 3], verdict: &str) {
    let world = World::without_leash(case).await;
    let rights = Rights::grant(&world).await;
    let node = VirtualNode::start(&world, options).await;
    let (output, found) = probe(&world, &world.namespace).await;
    assert_eq!(results(&found), expected, "{found:#}");
    assert_eq!(
        (
            &found["verdict"],
            &found["nodes"]["class"],
            output.status.code()
        ),
        (&json!(verdict), &json!("Unknown"), Some(0))
    );
    assert_eq!(
        found["command"],
        format!(
            "kubectl label node {} swaplet.io/node-class={verdict}",
            world.namespace
        )
    );
    let created: Vec<_> = written_in(&world.namespace)
        .into_iter()
        .filter(|write| write.verb == "create" && write.code < 400)
        .collect();
    assert_eq!(
        created.len(),
        expected
            .iter()
            .filter(|result| **result != "NotTried")
            .count()
    );
    for write in created {
        let pod = write.body["metadata"]["name"].as_str().unwrap();
        eventually(&format!("the provider to delete {pod}"), || async {
            (node.calls("DeletePod", pod) > 0).then_some(())
        })
        .await;
    }
    rights.take_back().await;
    node.done(world).await;
}

#[tokio::test]
async fn on_a_node_that_ignores_images_finish_works() {
    on_a_virtual_node(
        "probe-inert",
        &["--profile", "inert"],
        ["SwapWithoutEffect", "NotTried", "Works"],
        "VirtualInert",
    )
    .await;
}

/// Nothing is created for it.
#[tokio::test]
async fn a_node_that_is_not_there_or_not_ready_is_said() {
    let world = World::without_leash("probe-not-ready").await;
    let rights = Rights::grant(&world).await;
    let name = &world.namespace;
    let (output, _) = probe(&world, name).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("there is no node {name}")));
    let nodes: Api<Node> = Api::all(world.client.clone());
    let node = json!({"metadata": {"name": name}, "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "no network"}]}});
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).unwrap(),
        )
        .await
        .unwrap();
    let (output, _) = probe(&world, name).await;
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!(
        "node {name} is not ready (KubeletNotReady: no network)"
    )));
    assert!(written_in(name).is_empty());
    nodes.delete(name, &DeleteParams::default()).await.unwrap();
    rights.take_back().await;
    world.done().await;
}

#[tokio::test]
async fn ctrl_c_deletes_the_pod_and_says_so() {
    a_signal_deletes_the_pod("probe-ctrl-c", "-INT").await;
}

#[tokio::test]
async fn a8_a_closed_terminal_deletes_the_pod_too() {
    a_signal_deletes_the_pod("probe-hangup", "-HUP").await;
}

async fn a_signal_deletes_the_pod(name: &str, signal: &str) {
    let world = World::without_leash(name).await;
    let rights = Rights::grant(&world).await;
    let mut child = command(&world, &variable("SWAPLET_E2E_NODE"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        // It has just been created.
        if line.contains("swap under OnFailure: starting pod") {
            eventually("the pod", || async { world.pods().await.pop() }).await;
            let stopped = Command::new("kill")
                .args([signal, &child.id().unwrap().to_string()])
                .status()
                .await
                .unwrap();
            assert!(stopped.success());
        }
        said.push(line);
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(130), "{said:#?}");
    assert_eq!(
        said.last().map(String::as_str),
        Some("interrupted; the pods of the probe are deleted")
    );
    assert_clean(&world).await;
    rights.take_back().await;
    world.done().await;
}

mod long {
    use super::*;

    #[tokio::test]
    async fn on_a_node_that_updates_every_way_works() {
        on_a_virtual_node(
            "probe-updates",
            &[],
            ["Works", "Works", "Works"],
            "VirtualUpdates",
        )
        .await;
    }

    #[tokio::test]
    async fn on_a_node_that_updates_and_is_polled_every_way_works() {
        on_a_virtual_node(
            "probe-poll",
            &["--status", "poll"],
            ["Works", "Works", "Works"],
            "VirtualUpdates",
        )
        .await;
    }

    #[tokio::test]
    async fn on_a_node_that_fails_on_images_finish_works() {
        on_a_virtual_node(
            "probe-rejects",
            &["--profile", "rejects"],
            ["SwapRejected", "PodFailedAfterSwap", "Works"],
            "VirtualRejects",
        )
        .await;
    }
}
