//! `swaplet-demo mock-node`: a node that runs nothing, at a real API server.

use std::path::Path;
use std::process::Stdio;

use k8s_openapi::api::core::v1::{Node, NodeSpec};
use kube::Api;
use serde_json::json;
use swaplet_core::warm::pull_job::object::JobKind;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::audit::assert_swapped_once;
use crate::controller::Controller;
use crate::pods::{container, job, sidecar, spec};
use crate::pull_jobs::Jobs;
use crate::world::{World, eventually, kubectl, variable};

fn start(world: &World, profile: &str) -> Child {
    start_with(world, profile, &[])
}

fn start_with(world: &World, profile: &str, arguments: &[&str]) -> Child {
    // Of another package: cargo puts it beside the program.
    let mut command =
        Command::new(Path::new(env!("CARGO_BIN_EXE_swaplet")).with_file_name("swaplet-demo"));
    command.args([
        "mock-node",
        "--profile",
        profile,
        "--name",
        &world.namespace,
        "--kubeconfig",
        &variable("KUBECONFIG"),
    ]);
    command
        .args(["--taint", "only=this-case:NoSchedule"])
        .args(arguments);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn stop(process: &mut Child) {
    let stopped = Command::new("kill")
        .arg(process.id().unwrap().to_string())
        .status()
        .await
        .unwrap();
    assert!(stopped.success() && process.wait().await.unwrap().success());
}

/// The real scheduler, the real Job controller and the real swaplet get on with it; on SIGTERM it
/// takes its Node away.
async fn job_completes_on(profile: &str) {
    let world = World::new(&format!("mock-{profile}")).await;
    let mut process = start(&world, profile);
    let nodes: Api<Node> = Api::all(world.client.clone());
    eventually("the node", || async {
        nodes.get_opt(&world.namespace).await.unwrap()
    })
    .await;
    let _controller = Controller::start(&world).await;
    let containers = vec![
        container(&world, "main", "run=2s exit=0"),
        sidecar(&world, "log", "run=forever term=143"),
    ];
    let mut spec = spec("OnFailure", containers);
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": world.namespace});
    spec["tolerations"] = json!([{"key": "only", "operator": "Exists"}]);
    world.create_job(job("job", spec)).await;
    world.job_ends("job", "Complete").await;
    let pods = world.pods().await;
    assert_swapped_once(
        &world.namespace,
        &[pods[0].metadata.name.as_deref().unwrap()],
    );
    stop(&mut process).await;
    assert!(
        nodes.get_opt(&world.namespace).await.unwrap().is_none(),
        "the Node is still there"
    );
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

/// Neither when it starts nor when it ends: the node of the cluster keeps its Node and its Lease.
#[tokio::test]
async fn a1_the_name_of_a_real_node_is_refused_and_nothing_is_done_to_it() {
    let world = World::new("mock-taken").await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    // Other nodes come and go with their cases.
    let name = variable("SWAPLET_E2E_NODE");
    let real = nodes.get(&name).await.unwrap();
    let output =
        Command::new(Path::new(env!("CARGO_BIN_EXE_swaplet")).with_file_name("swaplet-demo"))
            .args(["mock-node", "--profile", "inert", "--name", &name])
            .args(["--kubeconfig", &variable("KUBECONFIG")])
            .output()
            .await
            .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("no mock node made"), "{words}");
    let after = nodes.get(&name).await.unwrap();
    assert_eq!(after.metadata.uid, real.metadata.uid);
    assert_eq!(
        (&after.metadata.labels, without_conditions(&after)),
        (&real.metadata.labels, without_conditions(&real))
    );
    world.done().await;
}

/// What a node is to be, but for the taints that Kubernetes itself makes of its conditions.
fn without_conditions(node: &Node) -> Option<NodeSpec> {
    let mut spec = node.spec.clone()?;
    let mut taints = spec.taints.take().unwrap_or_default();
    taints.retain(|taint| !taint.key.starts_with("node.kubernetes.io/"));
    spec.taints = Some(taints);
    Some(spec)
}

/// Held while a node has the startup taint: a controller that takes it away does so on every node
/// of the cluster.
pub static STARTUP_TAINT: Mutex<()> = Mutex::const_new(());

/// The keys of the taints of a node, but for those of Kubernetes.
async fn keys_of_taints(nodes: &Api<Node>, node: &str) -> Vec<String> {
    let taints = nodes
        .get(node)
        .await
        .unwrap()
        .spec
        .and_then(|spec| spec.taints)
        .unwrap_or_default();
    taints
        .into_iter()
        .map(|taint| taint.key)
        .filter(|key| !key.starts_with("node.kubernetes.io/"))
        .collect()
}

/// Gives the controller of this namespace the right to taints; gives the name of the binding.
async fn may_take_taints(node: &str) -> String {
    let (role, account) = (
        format!("{node}-startup-taint"),
        format!("--serviceaccount={node}:swaplet"),
    );
    kubectl(&[
        "create",
        "clusterrolebinding",
        &role,
        "--clusterrole",
        &role,
        &account,
    ])
    .await;
    role
}

/// On a mock node: a taint on the node of the cluster would be in the way of all other cases.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_loses_the_startup_taint_when_its_images_are_there_and_not_before() {
    let _only = STARTUP_TAINT.lock().await;
    let jobs = Jobs::with_pods("startup-taint").await;
    let (node, park) = (&jobs.world.namespace, &jobs.world.images.park);
    let mut process = start_with(
        &jobs.world,
        "kubelet",
        &["--taint", "swaplet.io/warming=new:NoSchedule"],
    );
    let nodes: Api<Node> = Api::all(jobs.world.client.clone());
    eventually("the node", || async { nodes.get_opt(node).await.unwrap() }).await;
    let keys = || keys_of_taints(&nodes, node);
    assert_eq!(keys().await, ["only", "swaplet.io/warming"]);
    let kind = JobKind::ImagePullJob;
    let spec = json!({
        "image": jobs.world.images.work, "selector": {"names": [node]}, "parallelism": 0, "completionPolicy": {"type": "Never"},
    });
    jobs.create(kind, "j", &spec).await.unwrap();
    let status = || async { jobs.api(kind).get("j").await.unwrap().data["status"].clone() };
    let role = may_take_taints(node).await;
    // Of tenants' jobs only those of listed namespaces keep pods away.
    let taint = [
        "--warm-startup-taint",
        "--warm-startup-taint-timeout",
        "86400",
        "--warm-startup-taint-namespace",
        node,
    ];
    let arguments = [&["--warm", "--park-image", park][..], &taint].concat();
    let _controller = Controller::start_with(&jobs.world, &arguments).await;
    eventually("the job to be paused", || async {
        status().await["message"]
            .as_str()?
            .contains("paused")
            .then_some(())
    })
    .await;
    assert_eq!(
        keys().await,
        ["only", "swaplet.io/warming"],
        "it waits for the job"
    );
    jobs.edit(kind, "j", &json!({"parallelism": 1}))
        .await
        .unwrap();
    eventually("the taint to be taken away", || async {
        (keys().await == ["only"]).then_some(())
    })
    .await;
    eventually("the job to tell of it", || async {
        (status().await["succeeded"] == 1).then_some(())
    })
    .await;
    kubectl(&["delete", "clusterrolebinding", &role]).await;
    stop(&mut process).await;
    jobs.done().await;
}
