//! What is known of nodes, and what is learned there: one update at most reaches a provider that
//! cannot use it.

mod eci;
mod kept_verdicts;

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::harness::World;
use super::node::Kubelet;
use super::objects::{EXIT, pod};

/// A label by which nobody knows what the provider does.
fn unknown() -> Value {
    json!({"type": "virtual-kubelet"})
}

fn of_class(class: &str) -> Value {
    json!({"type": "virtual-kubelet", "swaplet.io/node-class": class})
}

/// A world in which `node-1` has these labels, with so many pods whose main containers have just
/// ended.
async fn world(labels: &Value, restart_policy: &str, pods: usize) -> World {
    let world = World::new();
    world.label_node("node-1", labels).await;
    for number in 0..pods {
        world
            .run_pod(&pod(&format!("p{number}"), restart_policy))
            .await;
        world.ends(&format!("p{number}"), "main", 0).await;
    }
    world
}

impl World {
    /// How many patches of pods arrived from controllers.
    fn all_patches(&self) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.verb == Verb::Patch && request.resource == "pods")
            .count()
    }

    /// Which of the pods got an image of ours.
    fn swapped(&self, pods: usize) -> Vec<usize> {
        (0..pods)
            .filter(|number| self.image(&format!("p{number}")) == EXIT)
            .collect()
    }

    async fn provider_fails(&self, name: &str, phase: &str) {
        self.set_status(
            name,
            json!({"phase": phase, "reason": "ProviderFailed", "message": "cannot be updated"}),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_without_a_way_is_told_once_and_nothing_is_written() {
    for (class, policy) in [
        ("VirtualInert", "Never"),
        ("VirtualRejects", "OnFailure"),
        ("VirtualUpdates", "Never"),
    ] {
        let world = world(&of_class(class), policy, 1).await;
        let _life = world.start_controller();
        world.wait(5).await;
        let notes = world.notes("p0");
        assert!(
            notes.len() == 1
                && notes[0].0 == "NoRung"
                && notes[0].1.contains(&format!("node node-1 is {class}")),
            "{notes:?}"
        );
        assert_eq!(world.all_patches(), 0);
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_node_is_never_probed_by_a_never_pod() {
    let world = world(&unknown(), "Never", 3).await;
    let _life = world.start_controller();
    world.wait(600).await;
    assert_eq!(world.all_patches(), 0);
    assert_eq!(
        (0..3)
            .map(|n| world.events(&format!("p{n}")))
            .collect::<Vec<_>>(),
        [["NoRung"], ["NoRung"], ["NoRung"]]
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn one_pod_finds_out_that_a_provider_updates_and_the_others_follow() {
    let world = world(&unknown(), "OnFailure", 6).await;
    let _life = world.start_controller();
    world.wait(20).await;
    assert_eq!(world.all_patches(), 1, "the others wait for its verdict");
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(world.all_patches(), 6);
    assert!((0..6).all(|n| world.phase(&format!("p{n}")) == "Succeeded"));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn one_update_reaches_a_provider_that_ignores_it() {
    let world = world(&unknown(), "OnFailure", 6).await;
    let _life = world.start_controller();
    world.wait(85).await;
    assert_eq!(world.all_patches(), 1);
    // Which of them finds out is anybody's guess.
    let probe = world.swapped(6);
    assert!(
        (0..6)
            .filter(|number| probe != [*number])
            .all(|number| world.notes(&format!("p{number}")).is_empty())
    );
    world.wait(10).await;
    for number in 0..6 {
        let expected: &[&str] = if probe == [number] {
            &["SwapWithoutEffect"]
        } else {
            &["NoRung"]
        };
        assert_eq!(world.events(&format!("p{number}")), expected, "p{number}");
    }
    world.assert_quiet().await;
    assert_eq!(world.all_patches(), 1);
}

/// As the library does it under OnFailure, also where the next poll takes the reason back.
#[tokio::test(start_paused = true)]
async fn one_update_reaches_a_provider_that_fails_on_it() {
    for labels in [unknown(), of_class("Kubelet"), of_class("VirtualUpdates")] {
        let world = world(&labels, "OnFailure", 1).await;
        let _life = world.start_controller();
        world.wait(1).await;
        world.provider_fails("p0", "Pending").await;
        world.wait(1).await;
        world
            .set_status(
                "p0",
                json!({"phase": "Running", "reason": null, "message": null}),
            )
            .await;
        world.wait(1).await;
        for name in ["p1", "p2"] {
            world.run_pod(&pod(name, "OnFailure")).await;
            world.ends(name, "main", 0).await;
        }
        world.wait(300).await;
        assert_eq!(world.all_patches(), 1, "{labels}");
        let notes = world.notes("p0");
        assert!(
            notes.len() == 1 && notes[0].0 == "SwapRejected" && notes[0].1.contains("node-1"),
            "{labels}: {notes:?}"
        );
        assert_eq!(world.events("p1"), ["NoRung"], "{labels}");
    }
}

/// It was throttled; ten minutes later it is tried again.
#[tokio::test(start_paused = true)]
async fn a_provider_that_is_known_to_update_cools_down() {
    let world = world(&of_class("VirtualUpdates"), "OnFailure", 1).await;
    let _life = world.start_controller();
    world.wait(1).await;
    world.provider_fails("p0", "Pending").await;
    world.wait(1).await;
    world.run_pod(&pod("p1", "OnFailure")).await;
    world.ends("p1", "main", 0).await;
    world.wait(590).await;
    assert_eq!(world.patches("p1"), 0);
    world.wait(10).await;
    assert_eq!((world.patches("p0"), world.patches("p1")), (1, 1));
    assert_eq!(world.events("p1"), ["NoRung"]);
}

impl World {
    /// A pod of another namespace than `default` whose main container has ended.
    async fn ready_elsewhere(&self, namespace: &str, name: &str) {
        if self.server.peek("namespaces", "", namespace).is_none() {
            self.create_namespace(namespace).await;
        }
        let mut pod = pod(name, "OnFailure");
        pod["metadata"]["namespace"] = namespace.into();
        self.create(&pod).await;
        let running = json!({"running": {"startedAt": "2025-01-01T00:00:00Z"}});
        let ended = json!({"terminated": {"exitCode": 0, "startedAt": "2025-01-01T00:00:00Z", "finishedAt": "2025-01-01T00:01:00Z"}});
        let status = |name: &str, state: &Value| json!({"name": name, "image": format!("{name}:1"), "imageID": "i", "containerID": format!("c://{name}"), "ready": true, "restartCount": 0, "state": state});
        let containers = [status("main", &ended), status("side", &running)];
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        self.set_status_at(
            &path,
            json!({"phase": "Running", "containerStatuses": containers}),
        )
        .await;
    }

    async fn provider_fails_elsewhere(&self, namespace: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let status = json!({"phase": "Pending", "reason": "ProviderFailed", "message": "no"});
        self.set_status_at(&path, status).await;
    }
}

/// One tenant's pod may be refused, or be slow, for reasons of its own.
#[tokio::test(start_paused = true)]
async fn u136_what_pods_of_one_namespace_prove_against_a_node_keeps_no_others_from_it() {
    for labels in [unknown(), of_class("Kubelet"), of_class("VirtualUpdates")] {
        for is_refused in [true, false] {
            let world = world(&labels, "OnFailure", 1).await;
            let _life = world.start_controller();
            world.wait(1).await;
            if is_refused {
                world.provider_fails("p0", "Pending").await;
            }
            world.wait(100).await;
            world.run_pod(&pod("p1", "OnFailure")).await;
            world.ends("p1", "main", 0).await;
            world.ready_elsewhere("victim", "v0").await;
            world.wait(5).await;
            assert_eq!(
                (world.patches("p1"), world.patches("v0")),
                (0, 1),
                "{labels}, {is_refused}"
            );
            assert_eq!(world.events("p1"), ["NoRung"], "{labels}, {is_refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn u136_where_pods_of_three_namespaces_prove_the_same_it_counts_for_all() {
    let world = world(&of_class("VirtualUpdates"), "OnFailure", 0).await;
    let _life = world.start_controller();
    for namespace in ["a", "b", "c"] {
        world.ready_elsewhere(namespace, namespace).await;
        world.wait(1).await;
        assert_eq!(world.patches(namespace), 1, "{namespace}");
        world.provider_fails_elsewhere(namespace, namespace).await;
        world.wait(1).await;
    }
    world.ready_elsewhere("victim", "v0").await;
    world.wait(590).await;
    assert_eq!(world.patches("v0"), 0);
    world.wait(15).await;
    assert_eq!(world.patches("v0"), 1, "each has proved it for ten minutes");
}

#[tokio::test(start_paused = true)]
async fn the_next_pod_probes_when_the_probe_is_gone() {
    let world = world(&unknown(), "OnFailure", 2).await;
    let _life = world.start_controller();
    world.wait(5).await;
    let [probe] = world.swapped(2)[..] else {
        panic!("one probe")
    };
    world.remove(&format!("p{probe}")).await;
    world.wait(1).await;
    assert_eq!(
        (
            world.all_patches(),
            world.patches(&format!("p{}", 1 - probe))
        ),
        (2, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_refused_leaves_the_turn_to_others() {
    let world = world(&unknown(), "OnFailure", 2).await;
    world.next_patch_fault(Effect::reply(403));
    let _life = world.start_controller();
    world.wait(5).await;
    assert_eq!((world.all_patches(), world.swapped(2).len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_node_to_be_seen_and_not_for_ever() {
    let world = World::new();
    let hidden = world.fault(Effect::HoldWatch, |rule| {
        rule.verb(Verb::Watch).resource("nodes")
    });
    let _life = world.start_controller();
    world.wait(1).await;
    world.run_pod(&pod("p0", "Never")).await;
    world.ends("p0", "main", 0).await;
    world.wait(25).await;
    assert_eq!((world.all_patches(), world.notes("p0").len()), (0, 0));
    world.end_fault(hidden);
    world.wait(1).await;
    assert_eq!(world.patches("p0"), 1, "an ordinary node");

    let orphan = json!({"spec": {"nodeName": "gone"}});
    let mut pod = pod("p1", "Never");
    pod["spec"]["nodeName"] = orphan["spec"]["nodeName"].clone();
    world.create_on_no_node(&pod).await;
    world.run_containers("p1").await;
    world.ends("p1", "main", 0).await;
    world.wait(29).await;
    assert!(world.notes("p1").is_empty());
    world.wait(2).await;
    assert_eq!(
        (world.patches("p1"), world.events("p1")),
        (0, vec!["NoRung".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_that_must_not_be_looked_at_are_unknown() {
    let world = world(&json!({}), "OnFailure", 2).await;
    world.run_pod(&pod("never", "Never")).await;
    world.ends("never", "main", 0).await;
    let forbidden = world.fault(Effect::reply(403), |rule| rule.resource("nodes"));
    let _life = world.start_controller();
    world.wait(5).await;
    assert_eq!(
        (world.all_patches(), world.events("never")),
        (1, vec!["NoRung".to_owned()])
    );
    world.end_fault(forbidden);
    world.wait(30).await;
    assert_eq!(
        (world.all_patches(), world.patches("never")),
        (3, 1),
        "now they are ordinary nodes"
    );
}

#[tokio::test(start_paused = true)]
async fn an_administrator_who_labels_the_node_is_heard_at_once() {
    let world = world(&unknown(), "Never", 1).await;
    let _life = world.start_controller();
    world.wait(5).await;
    assert_eq!(
        (world.all_patches(), world.events("p0")),
        (0, vec!["NoRung".to_owned()])
    );
    world
        .label_node("node-1", &json!({"swaplet.io/node-class": "Kubelet"}))
        .await;
    world.wait(1).await;
    assert_eq!(world.patches("p0"), 1);
}
