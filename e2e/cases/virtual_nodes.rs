//! Virtual nodes that replace containers, on the real virtual-kubelet library: whatever little
//! their statuses tell, pods end well, and the first one proves what its node does.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::audit::swapped_in;
use crate::controller::Controller;
use crate::pods::{container, job, pod, sidecar, spec};
use crate::virtual_kubelet::VirtualNode;
use crate::world::{World, eventually, phase_of};

/// How sidecars react to SIGTERM, in the words of the virtual node.
const REACTIONS: [&str; 3] = ["term=0", "term=143 term-after=500ms", "term=ignore"];

/// A main that exits with 0 and a sidecar that reacts like this, on this node, with a grace period
/// of one second: the controller's patience with a swap is that and a minute.
pub fn placed(world: &World, node: &VirtualNode, restart_policy: &str, reaction: &str) -> Value {
    let containers = vec![
        container(world, "main", "run=2s exit=0"),
        sidecar(world, "log", &format!("run=forever {reaction}")),
    ];
    let mut spec = node.place(spec(restart_policy, containers));
    spec["terminationGracePeriodSeconds"] = 1.into();
    spec
}

/// One pod per policy and reaction on a node that says nothing of itself.
async fn updates(case: &str, options: &[&str]) {
    let world = World::new(case).await;
    let node = VirtualNode::start(&world, options).await;
    let _controller = Controller::keeping_verdicts(&world).await;
    let mut on_failure = Vec::new();
    for (number, reaction) in REACTIONS.iter().enumerate() {
        for policy in ["Never", "OnFailure"] {
            let name = format!("{}-{number}", policy.to_lowercase());
            world
                .create_pod(pod(&name, placed(&world, &node, policy, reaction)))
                .await;
            on_failure.extend((policy == "OnFailure").then_some(name));
        }
    }
    for found in world.pods().await {
        world
            .pod_ends(found.metadata.name.as_deref().unwrap(), "Succeeded")
            .await;
    }
    assert_eq!(
        swapped_in(&world.namespace),
        on_failure,
        "an unknown provider is not tried with a pod that it could fail"
    );
    for name in &on_failure {
        assert_eq!(
            (node.calls("CreatePod", name), node.calls("UpdatePod", name)),
            (1, 1),
            "{name}"
        );
        let of_library = eventually("both Events of the library", || async {
            Some(node.events(&world, name).await).filter(|events| events.len() >= 2)
        })
        .await;
        assert_eq!(
            of_library,
            ["ProviderCreateSuccess", "ProviderUpdateSuccess"],
            "{name}"
        );
        ends_are_told(&world, name).await;
    }
    assert_eq!(
        node.known(&world, "Updates").await,
        ("VirtualUpdates".to_owned(), "Unknown".to_owned())
    );
    node.done(world).await;
}

/// The end is told, and nothing else; of the one that ignores SIGTERM also how it ended, where the
/// node shows that. Either may come first.
async fn ends_are_told(world: &World, name: &str) {
    let told = eventually(&format!("the end of {name} to be told"), || async {
        let told = world.events_of(name, 1).await;
        told.contains(&"SidecarEnded".to_owned()).then_some(told)
    })
    .await;
    let is_of_it = |reason: &String| reason != "SidecarKilled" || !name.ends_with("-2");
    let rest: Vec<_> = told.into_iter().filter(is_of_it).collect();
    assert_eq!(rest, ["SidecarEnded"], "{name}");
}

/// Nothing but state, start and image tells of the new container: its id is the old one's, it
/// counts as no restart.
#[tokio::test]
async fn a_node_that_updates_and_tells_little() {
    updates("vk-little", &[]).await;
}

/// Such a node ends the pod in the gap: under Never it would be Failed although its main exited
/// with 0.
#[tokio::test]
async fn a_node_that_judges_the_pod_in_the_gap() {
    updates("vk-judged", &["--gap", "judged", "--start-delay", "1s"]).await;
}

#[tokio::test]
async fn jobs_on_a_node_that_updates() {
    for class in [None, Some("VirtualUpdates")] {
        let world = World::new(&format!("vk-job{}", class.map_or("", |_| "-said"))).await;
        let node = VirtualNode::start(&world, &[]).await;
        if let Some(class) = class {
            node.label(&world, class).await;
        }
        let _controller = Controller::start(&world).await;
        for policy in ["Never", "OnFailure"] {
            world
                .create_job(job(
                    &policy.to_lowercase(),
                    placed(&world, &node, policy, "term=143"),
                ))
                .await;
        }
        world.job_ends("never", "Complete").await;
        world.job_ends("onfailure", "Complete").await;
        let pods: Vec<Pod> = world.pods().await;
        assert_eq!(
            pods.iter().map(phase_of).collect::<Vec<_>>(),
            ["Succeeded", "Succeeded"],
            "no pod of a Job has failed"
        );
        assert_eq!(swapped_in(&world.namespace).len(), 1);
        node.done(world).await;
    }
}

/// As OpenKruise does it there: what runs is billed until it ends.
#[tokio::test]
async fn eci_pods_under_never_are_swapped_on_a_node_of_alibaba_eci() {
    let world = World::new("vk-eci").await;
    let node = VirtualNode::start(&world, &[]).await;
    node.label_as(&world, "k8s.aliyun.com/vnode", "true").await;
    let _controller = Controller::start(&world).await;
    world
        .create_pod(pod("never", placed(&world, &node, "Never", "term=143")))
        .await;
    world.pod_ends("never", "Succeeded").await;
    assert_eq!(
        (
            swapped_in(&world.namespace),
            node.calls("UpdatePod", "never")
        ),
        (vec!["never".to_owned()], 1)
    );
    assert_eq!(world.events_of("never", 1).await, ["SidecarEnded"]);
    node.done(world).await;
}

mod long {
    use super::*;

    #[tokio::test]
    async fn a_node_that_updates_and_tells_all() {
        updates(
            "vk-all",
            &[
                "--container-ids",
                "new",
                "--restart-count",
                "counted",
                "--image-id",
                "digest",
            ],
        )
        .await;
    }

    /// Most exit containers are never seen running.
    #[tokio::test]
    async fn a_node_that_updates_and_is_polled() {
        updates("vk-poll", &["--status", "poll"]).await;
    }

    /// The end of the old container is reported before the new one runs.
    #[tokio::test]
    async fn a_node_that_reports_the_gap() {
        updates("vk-gap", &["--gap", "reported", "--start-delay", "1s"]).await;
    }

    /// What an administrator allows who knows his provider: swaps under Never too. On the provider
    /// that judges in the gap he learns why it is not allowed by itself.
    #[tokio::test]
    async fn swaps_under_never_where_they_are_allowed() {
        let world = World::new("vk-never").await;
        let node = VirtualNode::start(&world, &["--gap", "judged", "--start-delay", "1s"]).await;
        node.label(&world, "VirtualUpdates").await;
        let _controller = Controller::start_with(&world, &["--swap-under-never"]).await;
        for (name, reaction) in [("never-0", "term=0"), ("never-143", "term=143")] {
            world
                .create_pod(pod(name, placed(&world, &node, "Never", reaction)))
                .await;
        }
        world.pod_ends("never-0", "Succeeded").await;
        world.pod_ends("never-143", "Failed").await;
        assert_eq!(world.events_of("never-0", 1).await, ["SidecarEnded"]);
        assert_eq!(
            world.events_of("never-143", 1).await,
            ["PodFailedAfterSwap"]
        );
        assert_eq!(swapped_in(&world.namespace), ["never-0", "never-143"]);
        node.done(world).await;
    }
}
