//! Policies on virtual nodes, on the real virtual-kubelet library: one that replaces containers, and
//! one on which nothing but the phase ends a pod.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{COLLECTOR, PROXY, crds_are_there, labelled};
use crate::audit::{Written, swapped_in, written_in};
use crate::controller::Controller;
use crate::pods::{container, main_has_ended, pod, spec};
use crate::virtual_kubelet::VirtualNode;
use crate::world::World;

/// What ends by itself 6 s after the main container.
const FLUSHES: &str = "run=8s exit=0";

/// Pods for each of the policies, on a node that says of itself what it does, have ended.
async fn pods_end(world: &World, node: &VirtualNode, class: &str) -> [Pod; 4] {
    node.label(world, class).await;
    let waits =
        |seconds: u32| json!([{"name": COLLECTOR, "waitForExit": {"deadlineSeconds": seconds}}]);
    let ordered = json!([{"name": COLLECTOR}, {"name": PROXY, "order": 1}]);
    world.policy("ordered", ordered).await;
    // Far more than it takes on a busy machine.
    world.policy("flushes", waits(600)).await;
    world.policy("hangs", waits(10)).await;
    world
        .policy("delayed", json!([{"name": COLLECTOR, "delaySeconds": 12}]))
        .await;
    let all = [
        ("ordered", "run=forever term=0 term-after=2s"),
        ("flushes", FLUSHES),
        ("hangs", "run=forever term=143"),
        ("delayed", "run=forever term=0"),
    ];
    for (name, collector) in all {
        let mut containers: Vec<Value> = vec![
            container(world, "main", "run=2s exit=0"),
            container(world, COLLECTOR, collector),
        ];
        if name == "ordered" {
            containers.push(container(world, PROXY, "run=forever term=0"));
        }
        let made = pod(name, node.place(spec("OnFailure", containers)));
        world.create_pod(labelled(made, name)).await;
    }
    let ended = all.map(|(name, _)| world.pod_ends(name, "Succeeded"));
    let [ordered, flushes, hangs, delayed] = ended;
    [ordered.await, flushes.await, hangs.await, delayed.await]
}

#[tokio::test]
async fn a_node_that_updates_ends_sidecars_in_order_and_in_time() {
    crds_are_there().await;
    let world = World::new("vk-policies").await;
    let node = VirtualNode::start(&world, &["--gap", "reported"]).await;
    let _controller = Controller::start_with(&world, &["--sidecar-policies"]).await;
    let [ordered, flushes, hangs, delayed] = pods_end(&world, &node, "VirtualUpdates").await;
    world.assert_in_order(&ordered);
    assert_eq!(node.calls("UpdatePod", "ordered"), 2);
    world.assert_ended_by_itself(&flushes);
    world.assert_ended_after(&hangs, 10);
    world.assert_ended_after(&delayed, 12);
    assert_eq!(
        swapped_in(&world.namespace),
        ["delayed", "hangs", "ordered", "ordered"]
    );
    node.done(world).await;
}

/// scenarios policies::an_inert_node_ends_the_pod_when_its_last_sidecar_is_due,
/// policies::a_delay_is_kept_to_over_the_end_of_a_life
mod long {
    use super::*;

    /// What the next leader knows is what the node reports.
    #[tokio::test]
    async fn a_delay_is_kept_to_when_the_leader_is_killed() {
        const FLAGS: &[&str] = &["--sidecar-policies"];
        crds_are_there().await;
        let world = World::new("vk-policies-killed").await;
        let node = VirtualNode::start(&world, &["--gap", "reported"]).await;
        node.label(&world, "VirtualUpdates").await;
        world
            .policy("delayed", json!([{"name": COLLECTOR, "delaySeconds": 30}]))
            .await;
        let controller = Controller::start_with(&world, FLAGS).await;
        let containers = vec![
            container(&world, "main", "run=2s exit=0"),
            container(&world, COLLECTOR, "run=forever term=0"),
        ];
        let made = pod("delayed", node.place(spec("OnFailure", containers)));
        world.create_pod(labelled(made, "delayed")).await;
        world
            .pod_is("delayed", "without its main", main_has_ended)
            .await;
        let _next = controller.killed(&world, FLAGS).await;
        let pod = world.pod_ends("delayed", "Succeeded").await;
        world.assert_ended_after(&pod, 30);
        assert_eq!(swapped_in(&world.namespace), ["delayed"]);
        assert_eq!(node.calls("UpdatePod", "delayed"), 1);
        node.done(world).await;
    }

    /// Only the whole pod can be ended there, when the last of its sidecars is due.
    #[tokio::test]
    async fn an_inert_node_ends_the_pod_when_its_last_sidecar_is_due() {
        crds_are_there().await;
        let world = World::new("vk-policies-inert").await;
        let node = VirtualNode::start(&world, &["--profile", "inert"]).await;
        let _controller = Controller::start_with(&world, &["--sidecar-policies"]).await;
        let [_, _, hangs, delayed] = pods_end(&world, &node, "VirtualInert").await;
        world.assert_ended_after(&hangs, 10);
        world.assert_ended_after(&delayed, 12);
        let written = written_in(&world.namespace);
        let finished = written.into_iter().filter(Written::is_applied_finish);
        let mut finished: Vec<_> = finished.map(|write| write.pod).collect();
        finished.sort();
        finished.dedup();
        assert_eq!(finished, ["delayed", "hangs", "ordered"]);
        assert_eq!(swapped_in(&world.namespace), [""; 0]);
        node.done(world).await;
    }
}
