//! What is known of nodes, and what is learned there: one update at most reaches a provider that
//! cannot use it.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::harness::World;
use super::node::Kubelet;
use super::objects::{EXIT, main_container, pod, pod_of, sidecar};

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

/// ECI: four updates per second, and the pods of another namespace and of other nodes are not
/// delayed.
#[tokio::test(start_paused = true)]
async fn a_provider_is_not_asked_more_often_than_its_budget_allows() {
    let world = world(&json!({"k8s.aliyun.com/vnode": "true"}), "OnFailure", 40).await;
    world.create_namespace("small").await;
    let mut small = pod("p40", "OnFailure");
    small["metadata"]["namespace"] = "small".into();
    world.create(&small).await;
    let life = world.start_controller();
    world.wait(1).await;
    for (name, node, namespace) in [("other", "node-2", "default"), ("p40", "node-1", "small")] {
        let mut other = pod(name, "OnFailure");
        other["spec"]["nodeName"] = node.into();
        if namespace == "default" {
            world.run_pod(&other).await;
            world.ends(name, "main", 0).await;
        } else {
            let ended = json!({"name": "main", "image": "main:1", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}});
            let side = json!({"name": "side", "image": "side:1", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}});
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
            world
                .set_status_at(
                    &path,
                    json!({"phase": "Running", "containerStatuses": [ended, side]}),
                )
                .await;
        }
    }
    world.wait(1).await;
    assert_eq!(
        world.patches("other"),
        1,
        "another node has nothing to do with it"
    );
    assert_eq!(world.patches("p40"), 1, "namespaces take turns");
    world.wait(20).await;
    assert_eq!(world.all_patches(), 42);
    let times = life.line.patched_at();
    for window in times.windows(10) {
        assert!(
            window[9] - window[0] >= Duration::from_millis(249),
            "10 patches in {:?}",
            window[9] - window[0]
        );
    }
    let took = *times.last().unwrap() - times[0];
    assert!(
        (Duration::from_secs(9)..Duration::from_secs(11)).contains(&took),
        "{took:?}"
    );
}

/// A container that ECI takes for a sidecar, one of ours or not.
fn sidecar_of_eci(name: &str, ours: bool) -> Value {
    let mut container = if ours {
        sidecar(name)
    } else {
        json!({"name": name, "image": format!("{name}:1"), "env": []})
    };
    container["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "ECI_CONTAINER_TYPE", "value": "sidecar"}));
    container
}

/// Pods with sidecars that ECI ends, on its node and, one, on another.
async fn run_pods_of_eci(world: &World) {
    for (name, beside) in [
        ("both", vec![sidecar_of_eci("side", true)]),
        (
            "mixed",
            vec![sidecar("side"), sidecar_of_eci("theirs", true)],
        ),
        (
            "beside",
            vec![sidecar("side"), sidecar_of_eci("theirs", false)],
        ),
    ] {
        let containers = [vec![main_container()], beside].concat();
        world.run_pod(&pod_of(name, "OnFailure", containers)).await;
    }
    let mut elsewhere = pod_of(
        "elsewhere",
        "OnFailure",
        vec![main_container(), sidecar_of_eci("side", true)],
    );
    elsewhere["spec"]["nodeName"] = "node-2".into();
    world.run_pod(&elsewhere).await;
}

#[tokio::test(start_paused = true)]
async fn what_eci_ends_by_itself_is_left_to_it() {
    let world = World::new();
    world
        .label_node("node-1", &json!({"k8s.aliyun.com/vnode": "true"}))
        .await;
    let _life = world.start_controller();
    run_pods_of_eci(&world).await;
    for name in ["both", "mixed", "beside", "elsewhere"] {
        world.ends(name, "main", 0).await;
    }
    world.wait(5).await;
    let notes = world.notes("both");
    assert!(
        notes.len() == 1
            && notes[0].0 == "LeftToPlatform"
            && notes[0].1.contains("ECI_CONTAINER_TYPE"),
        "{notes:?}"
    );
    assert_eq!(world.patches("both"), 0);
    let mut events = world.events("mixed");
    events.sort();
    assert_eq!(
        (events, world.patches("mixed")),
        (vec!["LeftToPlatform".to_owned()], 1)
    );
    assert_eq!(
        (
            world.image_of("mixed", "side"),
            world.image_of("mixed", "theirs")
        ),
        (EXIT.to_owned(), "theirs:1".to_owned())
    );
    // It ends when the others have ended, so nobody must wait for it.
    assert_eq!(
        (world.patches("beside"), world.events("beside")),
        (1, Vec::new())
    );
    assert_eq!(
        (world.patches("elsewhere"), world.events("elsewhere")),
        (1, Vec::new())
    );
}

/// The next life knows what the last one has learned, from a ConfigMap, and asks no provider again.
#[tokio::test(start_paused = true)]
async fn a_verdict_outlives_the_controller() {
    let world = world(&unknown(), "OnFailure", 1).await;
    world.create_namespace("state").await;
    let first = world.start_controller_keeping("state");
    world.wait(1).await;
    world.provider_fails("p0", "Pending").await;
    world.wait(1).await;
    first.kill();
    world.remove("p0").await;

    let _next = world.start_controller_keeping("state");
    for name in ["p1", "p2"] {
        world.run_pod(&pod(name, "OnFailure")).await;
        world.ends(name, "main", 0).await;
    }
    world.wait(60).await;
    assert_eq!(
        (world.patches("p1"), world.events("p1"), world.events("p2")),
        (0, vec!["NoRung".to_owned()], vec!["NoRung".to_owned()])
    );
    let map = world
        .server
        .peek("configmaps", "state", "swaplet-node-verdicts")
        .unwrap();
    let kept: Value = serde_json::from_str(map["data"]["node-1"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&kept["proved"], &kept["pod"]),
        (&json!("Rejects"), &json!("default/p0"))
    );
    assert_eq!(
        world
            .requests()
            .iter()
            .filter(|request| request.resource == "configmaps" && request.verb != Verb::Get)
            .count(),
        1
    );
    world.assert_quiet().await;
}

/// A node that has not been listed has no uid yet: what a pod proves meanwhile must not take the
/// place of what is kept of it.
#[tokio::test(start_paused = true)]
async fn a_verdict_outlives_the_controller_also_where_pods_are_seen_before_nodes() {
    let world = world(&unknown(), "OnFailure", 1).await;
    world.create_namespace("state").await;
    let first = world.start_controller_keeping("state");
    world.wait(1).await;
    world.provider_fails("p0", "Pending").await;
    world.wait(1).await;
    first.kill();

    world.fault(Effect::Delay(Duration::from_secs(2)), |rule| {
        rule.resource("nodes").verb(Verb::List).times(1)
    });
    let _next = world.start_controller_keeping("state");
    world.wait(5).await;
    world.run_pod(&pod("p1", "OnFailure")).await;
    world.ends("p1", "main", 0).await;
    world.wait(60).await;
    assert_eq!(
        (world.patches("p0"), world.patches("p1"), world.events("p1")),
        (1, 0, vec!["NoRung".to_owned()])
    );
}

/// What is proved within half a minute goes into two writes, and what another replica has written
/// is kept.
#[tokio::test(start_paused = true)]
async fn verdicts_are_written_rarely_and_beside_those_of_others() {
    let world = World::new();
    world.create_namespace("state").await;
    for number in 0..10 {
        world.label_node(&format!("n{number}"), &unknown()).await;
        let mut pod = pod(&format!("p{number}"), "OnFailure");
        pod["spec"]["nodeName"] = format!("n{number}").into();
        world.run_pod(&pod).await;
    }
    let _life = world.start_controller_keeping("state");
    for number in 0..10 {
        let name = format!("p{number}");
        world.ends(&name, "main", 0).await;
        world.wait(1).await;
        world.provider_fails(&name, "Pending").await;
        if number == 5 {
            let theirs =
                json!({"uid": "x", "proved": "Inert", "provedAt": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}).to_string();
            world.keep_verdict("state", "theirs", &theirs).await;
        }
    }
    world.wait(60).await;
    let writes = world
        .requests()
        .iter()
        .filter(|request| request.resource == "configmaps" && request.verb != Verb::Get)
        .count();
    assert_eq!(
        writes, 3,
        "one at once, one after the pause that somebody else had overtaken, and that one again"
    );
    let map = world
        .server
        .peek("configmaps", "state", "swaplet-node-verdicts")
        .unwrap();
    assert_eq!(map["data"].as_object().unwrap().len(), 11);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_keep_verdicts_everything_else_goes_on() {
    for effect in [Effect::from(Effect::reply(403)), Effect::Hang] {
        let world = world(&unknown(), "OnFailure", 1).await;
        world.create_namespace("state").await;
        world.fault(effect, |rule| rule.resource("configmaps"));
        let _life = world.start_controller_keeping("state");
        world.wait(15).await;
        world.provider_fails("p0", "Pending").await;
        world.wait(1).await;
        world.run_pod(&pod("p1", "OnFailure")).await;
        world.ends("p1", "main", 0).await;
        world.wait(60).await;
        assert_eq!(
            (world.patches("p0"), world.patches("p1"), world.events("p1")),
            (1, 0, vec!["NoRung".to_owned()])
        );
    }
}
