//! What virtual nodes make of a swap today, on the real virtual-kubelet library: some replace the container, some ignore the
//! change and report success, some fail and break the pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::time::sleep;

use crate::audit::{assert_swapped_once, written_in};
use crate::controller::Controller;
use crate::pods::{container, job, pod, sidecar, spec};
use crate::virtual_kubelet::VirtualNode;
use crate::world::{World, eventually, phase_of};

/// How long a case watches that nothing more is written.
const SILENCE: Duration = Duration::from_secs(10);

/// A main that exits with 0 and a sidecar that reacts to SIGTERM like this, in the words of the virtual node.
fn containers(world: &World, reaction: &str) -> Vec<Value> {
    vec![container(world, "main", "run=2s exit=0"), sidecar(world, "log", &format!("run=forever {reaction}"))]
}

/// The same as a pod spec for this node, with a grace period of one second: the controller's patience is that and a minute.
fn placed(world: &World, node: &VirtualNode, restart_policy: &str, reaction: &str) -> Value {
    let mut spec = node.place(spec(restart_policy, containers(world, reaction)));
    spec["terminationGracePeriodSeconds"] = 1.into();
    spec
}

fn of(pod: &str, reasons: &[&str]) -> Vec<(String, String)> {
    reasons.iter().map(|reason| (pod.to_owned(), (*reason).to_owned())).collect()
}

fn pod_reason(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.reason.as_deref()).unwrap_or_default()
}

/// One pod per policy and reaction: all end well, each with one patch, one update of the provider and two Events.
async fn updates(case: &str, options: &[&str]) {
    let world = World::new(case).await;
    let node = VirtualNode::start(&world, options).await;
    let _controller = Controller::start(&world).await;
    let mut names = Vec::new();
    for policy in ["Never", "OnFailure"] {
        for reaction in ["term=0", "term=143 term-after=500ms", "term=ignore"] {
            let name = format!("pod-{}", names.len());
            world.create_pod(pod(&name, placed(&world, &node, policy, reaction))).await;
            names.push(name);
        }
    }
    for name in &names {
        world.pod_ends(name, "Succeeded").await;
    }
    let expected: Vec<_> = names.iter().flat_map(|name| of(name, &["SidecarEnded", "SidecarSwapped"])).collect();
    assert_eq!(world.events(expected.len()).await, expected);
    assert_swapped_once(&world.namespace, &names.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        assert_eq!((node.calls("CreatePod", name), node.calls("UpdatePod", name)), (1, 1), "{name}");
        assert_eq!(node.events(&world, name).await, ["ProviderCreateSuccess", "ProviderUpdateSuccess"], "{name}");
    }
    node.done(world).await;
}

/// Nothing but state and image tells of the new container: its id is the old one's, it counts as no restart.
#[tokio::test]
async fn a_node_that_updates_and_tells_little() {
    updates("vk-little", &[]).await;
}

#[tokio::test]
async fn a_node_that_updates_and_tells_all() {
    updates("vk-all", &["--container-ids", "new", "--restart-count", "counted", "--image-id", "digest"]).await;
}

/// Most exit containers are never seen running.
#[tokio::test]
async fn a_node_that_updates_and_is_polled() {
    updates("vk-poll", &["--status", "poll"]).await;
}

/// The end of the old container is reported before the new one runs. Under Never the API server then refuses every status
/// until the new container has ended as well.
#[tokio::test]
async fn a_node_that_reports_the_gap() {
    updates("vk-gap", &["--gap", "reported", "--start-delay", "1s"]).await;
}

/// A known limit: such a node ends the pod in the gap. Under Never it is Failed then, although its main exited with 0 and the
/// exit image would have; the controller cannot mend that, and says so.
#[tokio::test]
async fn a_node_that_judges_the_pod_in_the_gap() {
    let world = World::new("vk-judged").await;
    let node = VirtualNode::start(&world, &["--gap", "judged", "--start-delay", "1s"]).await;
    let _controller = Controller::start(&world).await;
    for (name, policy, reaction) in
        [("never-0", "Never", "term=0"), ("never-143", "Never", "term=143"), ("onfailure", "OnFailure", "term=143")]
    {
        world.create_pod(pod(name, placed(&world, &node, policy, reaction))).await;
    }
    world.pod_ends("never-0", "Succeeded").await;
    world.pod_ends("never-143", "Failed").await;
    world.pod_ends("onfailure", "Succeeded").await;
    let expected = [
        of("never-0", &["SidecarEnded", "SidecarSwapped"]),
        of("never-143", &["PodFailedAfterSwap", "SidecarSwapped"]),
        of("onfailure", &["SidecarEnded", "SidecarSwapped"]),
    ];
    assert_eq!(world.events(6).await, expected.concat());
    assert_swapped_once(&world.namespace, &["never-0", "never-143", "onfailure"]);
    node.done(world).await;
}

#[tokio::test]
async fn a_job_on_a_node_that_updates() {
    let world = World::new("vk-job").await;
    let node = VirtualNode::start(&world, &[]).await;
    let _controller = Controller::start(&world).await;
    for policy in ["Never", "OnFailure"] {
        world.create_job(job(&policy.to_lowercase(), placed(&world, &node, policy, "term=143"))).await;
    }
    world.job_ends("never", "Complete").await;
    world.job_ends("onfailure", "Complete").await;
    let pods = world.pods().await;
    assert_eq!(pods.iter().map(phase_of).collect::<Vec<_>>(), ["Succeeded", "Succeeded"]);
    node.done(world).await;
}

/// A known limit: such a node takes the patch, reports success and does nothing. The pod runs on; the controller says so when
/// its patience is over, and does not try again.
async fn inert(case: &str, status: &str) {
    let world = World::new(case).await;
    let node = VirtualNode::start(&world, &["--profile", "inert", "--status", status]).await;
    let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
    for policy in ["Never", "OnFailure"] {
        world.create_pod(pod(&policy.to_lowercase(), placed(&world, &node, policy, "term=143"))).await;
    }
    let expected =
        [of("never", &["SidecarSwapped", "SwapWithoutEffect"]), of("onfailure", &["SidecarSwapped", "SwapWithoutEffect"])].concat();
    assert_eq!(world.events(4).await, expected);
    let written = written_in(&world.namespace).len();
    sleep(SILENCE).await;
    assert_eq!(written_in(&world.namespace).len(), written);
    assert_swapped_once(&world.namespace, &["never", "onfailure"]);
    for found in world.pods().await {
        let name = found.metadata.name.as_deref().unwrap();
        assert_eq!(phase_of(&found), "Running", "{name}");
        assert_eq!(node.calls("UpdatePod", name), 1, "{name}");
        assert_eq!(node.events(&world, name).await, ["ProviderCreateSuccess", "ProviderUpdateSuccess"], "{name}");
    }
    node.done(world).await;
}

#[tokio::test]
async fn a_node_that_ignores_updates() {
    inert("vk-inert", "notify").await;
}

#[tokio::test]
async fn a_node_that_ignores_updates_and_is_polled() {
    inert("vk-inert-poll", "poll").await;
}

/// A known limit: where the provider fails, the library itself writes phase Failed under Never, and the pod is lost although
/// its main exited with 0. The provider is asked once, because the library leaves a Failed pod alone.
#[tokio::test]
async fn a_node_that_rejects_updates_breaks_a_never_pod() {
    let world = World::new("vk-rejects").await;
    let node = VirtualNode::start(&world, &["--profile", "rejects"]).await;
    let _controller = Controller::start(&world).await;
    world.create_pod(pod("never", placed(&world, &node, "Never", "term=143"))).await;
    let failed = world.pod_ends("never", "Failed").await;
    assert_eq!(pod_reason(&failed), "ProviderFailed");
    assert_eq!(world.events(2).await, of("never", &["PodFailedAfterSwap", "SidecarSwapped"]));
    assert_eq!(node.events(&world, "never").await, ["ProviderCreateSuccess", "ProviderUpdateFailed"]);
    assert_eq!(node.calls("UpdatePod", "never"), 1);
    assert_swapped_once(&world.namespace, &["never"]);
    node.done(world).await;
}

/// A known limit: under OnFailure the library writes phase Pending and asks the provider again and again (5 ms, 10 ms, 20 ms,
/// ...). The controller patches once and says that nothing happened.
async fn rejects_on_failure(case: &str, status: &str) {
    let world = World::new(case).await;
    let node = VirtualNode::start(&world, &["--profile", "rejects", "--status", status]).await;
    let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
    world.create_pod(pod("onfailure", placed(&world, &node, "OnFailure", "term=143"))).await;
    world.pod_is("onfailure", "pending", |pod| phase_of(pod) == "Pending" && pod_reason(pod) == "ProviderFailed").await;
    if status == "poll" {
        // The next poll says that it runs; the next retry says that it is pending again.
        world.pod_is("onfailure", "running", |pod| phase_of(pod) == "Running").await;
    }
    assert_eq!(world.events(2).await, of("onfailure", &["SidecarSwapped", "SwapWithoutEffect"]));
    let tries = eventually("a dozen updates", || async { Some(node.calls("UpdatePod", "onfailure")).filter(|tries| *tries >= 12) }).await;
    assert!(tries <= 21, "{tries} updates of the provider");
    let written = written_in(&world.namespace).len();
    sleep(SILENCE).await;
    assert_eq!(written_in(&world.namespace).len(), written);
    assert_swapped_once(&world.namespace, &["onfailure"]);
    node.done(world).await;
}

#[tokio::test]
async fn a_node_that_rejects_updates_leaves_an_onfailure_pod_pending() {
    rejects_on_failure("vk-rejects-of", "notify").await;
}

#[tokio::test]
async fn a_node_that_rejects_updates_and_is_polled() {
    rejects_on_failure("vk-rejects-poll", "poll").await;
}
