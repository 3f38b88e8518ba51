//! `swaplet mock-node`: a node that runs nothing, at a real API server.

use std::process::Stdio;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::audit::assert_swapped_once;
use crate::controller::Controller;
use crate::pods::{container, job, sidecar, spec};
use crate::world::{World, eventually, variable};

fn start(world: &World, profile: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swaplet"));
    command.args(["mock-node", "--profile", profile, "--name", &world.namespace, "--kubeconfig", &variable("KUBECONFIG")]);
    command.args(["--taint", "only=this-case:NoSchedule"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

/// The real scheduler, the real Job controller and the real swaplet get on with it; on SIGTERM it takes its Node away.
async fn job_completes_on(profile: &str) {
    let world = World::new(&format!("mock-{profile}")).await;
    let mut process = start(&world, profile);
    let nodes: Api<Node> = Api::all(world.client.clone());
    eventually("the node", || async { nodes.get_opt(&world.namespace).await.unwrap() }).await;
    let _controller = Controller::start(&world).await;
    let containers = vec![container(&world, "main", "run=2s exit=0"), sidecar(&world, "log", "run=forever term=143")];
    let mut spec = spec("OnFailure", containers);
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": world.namespace});
    spec["tolerations"] = json!([{"key": "only", "operator": "Exists"}]);
    world.create_job(job("job", spec)).await;
    world.job_ends("job", "Complete").await;
    let pods = world.pods().await;
    assert_swapped_once(&world.namespace, &[pods[0].metadata.name.as_deref().unwrap()]);
    let stopped = Command::new("kill").arg(process.id().unwrap().to_string()).status().await.unwrap();
    assert!(stopped.success() && process.wait().await.unwrap().success());
    assert!(nodes.get_opt(&world.namespace).await.unwrap().is_none(), "the Node is still there");
    world.done().await;
}

#[tokio::test]
async fn a_job_completes_on_a_mock_kubelet() {
    job_completes_on("kubelet").await;
}

#[tokio::test]
async fn a_job_completes_on_a_mock_node_that_updates() {
    job_completes_on("updates").await;
}
