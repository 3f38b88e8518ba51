//! Virtual nodes of Alibaba ECI and ACS: how often they are asked, and what they end by themselves.

use std::time::Duration;

use serde_json::{Value, json};

use super::world;
use crate::harness::World;
use crate::objects::{EXIT, main_container, pod, pod_of, sidecar};

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
    with_variable(name, ours, "ECI_CONTAINER_TYPE", "sidecar")
}

fn with_variable(name: &str, ours: bool, variable: &str, value: &str) -> Value {
    let mut container = if ours {
        sidecar(name)
    } else {
        json!({"name": name, "image": format!("{name}:1"), "env": []})
    };
    container["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": variable, "value": value}));
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

/// On one node of both: each ends containers by its own variable, and what a pod on ACS shows says
/// nothing of ECI.
#[tokio::test(start_paused = true)]
async fn pods_on_acs_are_apart_from_those_on_eci() {
    let world = World::new();
    world.create_namespace("state").await;
    world
        .label_node("node-1", &json!({"k8s.aliyun.com/vnode": "true"}))
        .await;
    let _life = world.start_controller_keeping("state");
    for (name, is_on_acs, variable, value, expected) in [
        (
            "left-by-acs",
            true,
            "__IS_SIDECAR__",
            "true",
            (0, "LeftToPlatform"),
        ),
        ("on-acs", true, "ECI_CONTAINER_TYPE", "sidecar", (1, "")),
        (
            "also-on-acs",
            true,
            "__IS_SIDECAR__",
            "false",
            (0, "NoRung"),
        ),
        (
            "left-by-eci",
            false,
            "ECI_CONTAINER_TYPE",
            "sidecar",
            (0, "LeftToPlatform"),
        ),
        ("on-eci", false, "__IS_SIDECAR__", "true", (1, "")),
    ] {
        let marked = with_variable("side", true, variable, value);
        let mut pod = pod_of(name, "OnFailure", vec![main_container(), marked]);
        if is_on_acs {
            pod["metadata"]["labels"] = json!({"alibabacloud.com/acs": "true"});
        }
        world.run_pod(&pod).await;
        world.ends(name, "main", 0).await;
        world.wait(5).await;
        let (patches, reason) = expected;
        let notes = world.notes(name);
        assert_eq!(world.patches(name), patches, "{name}: {notes:?}");
        let told = notes.iter().find(|note| note.0 == reason);
        assert!(reason.is_empty() || told.is_some(), "{name}: {notes:?}");
        assert!(
            reason != "LeftToPlatform" || told.unwrap().1.contains(variable),
            "{notes:?}"
        );
        if name == "on-acs" {
            world.provider_fails(name, "Pending").await;
        }
    }
    let map = world
        .server
        .peek("configmaps", "state", "swaplet-node-verdicts")
        .unwrap();
    let kept: Vec<_> = map["data"].as_object().unwrap().keys().collect();
    assert_eq!(kept, ["alibaba-acs"]);
}
