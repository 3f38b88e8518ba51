//! Pods of unusual size and shape.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::harness::World;
use super::node::{Kubelet, running, status, terminated};
use super::objects::{EXIT, main_container, pod, pod_of, sidecar};

#[tokio::test(start_paused = true)]
async fn t25_pods_of_a_megabyte_get_small_patches() {
    let world = World::new();
    let noise = "x".repeat(10_000);
    for nth in 0..2 {
        let mains = (0..98).map(|nth| json!({"name": format!("main{nth}"), "image": "main:1", "env": [{"name": "NOISE", "value": noise}]}));
        let containers = mains.chain([sidecar("one"), sidecar("two")]).collect();
        world
            .run_pod(&pod_of(&format!("p{nth}"), "OnFailure", containers))
            .await;
    }
    let _life = world.start_controller();
    world.wait(1).await;
    world.start_kubelet(Kubelet::default());
    for nth in 0..2 {
        let name = format!("p{nth}");
        let mut statuses = world.get(&name)["status"]["containerStatuses"].clone();
        statuses.as_array_mut().unwrap()[..98]
            .iter_mut()
            .for_each(|status| status["state"] = terminated(0, 0));
        world
            .set_status(&name, json!({"containerStatuses": statuses}))
            .await;
    }
    world.wait(5).await;
    for nth in 0..2 {
        let name = format!("p{nth}");
        world.assert_ended_by_one_patch(&name);
    }
    world.assert_quiet().await;
}

/// A pod whose node has reported these statuses; how many patches it got.
async fn patches_with(containers: Value, more: Value) -> usize {
    let world = World::new();
    world.create(&pod("p", "OnFailure")).await;
    let _life = world.start_controller();
    let mut reported = more;
    reported["phase"] = "Running".into();
    reported["containerStatuses"] = containers;
    world.set_status("p", reported).await;
    world.wait(30).await;
    let patches = world.patches("p");
    assert_eq!(world.events("p"), [""; 0]);
    world.wait(90).await;
    world.assert_quiet().await;
    patches
}

#[tokio::test(start_paused = true)]
async fn t26_statuses_are_found_by_name() {
    let (main, side) = (main_container(), sidecar("side"));
    let ended = || status(&main, terminated(0, 0));
    let runs = || status(&side, running());
    assert_eq!(
        patches_with(json!([runs(), ended()]), json!({})).await,
        1,
        "reordered"
    );
    assert_eq!(
        patches_with(json!([ended()]), json!({})).await,
        1,
        "no status of the sidecar"
    );
    assert_eq!(
        patches_with(json!([runs()]), json!({})).await,
        0,
        "no status of the main"
    );
    assert_eq!(
        patches_with(json!([]), json!({})).await,
        0,
        "no status at all"
    );
    let init = json!({"initContainerStatuses": [status(&json!({"name": "init", "image": "init:1"}), terminated(0, 0))]});
    assert_eq!(
        patches_with(json!([runs(), ended()]), init.clone()).await,
        1,
        "init containers besides"
    );
    assert_eq!(
        patches_with(json!([runs()]), init).await,
        0,
        "only an init container has ended"
    );
}

#[tokio::test(start_paused = true)]
async fn t26_a_main_without_a_status_is_waited_for() {
    let world = World::new();
    world.create(&pod("p", "OnFailure")).await;
    let _life = world.start_controller();
    world.wait(60).await;
    world.run_containers("p").await;
    world.wait(60).await;
    assert_eq!(world.patches("p"), 0);
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t33_native_sidecars_and_ephemeral_containers_are_neither_mains_nor_targets() {
    let world = World::new();
    let mut native = sidecar("native");
    native["restartPolicy"] = "Always".into();
    let mut with_native = pod("p", "OnFailure");
    with_native["spec"]["initContainers"] = json!([native]);
    world.run_pod(&with_native).await;
    let debugger = json!({"name": "debugger", "image": "debug:1"});
    let more = json!({"initContainerStatuses": [status(&native, running())], "ephemeralContainerStatuses": [status(&debugger, running())]});
    world.set_status("p", more).await;
    let _life = world.start_controller();
    world.wait(60).await;
    assert_eq!(world.patches("p"), 0);
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (
            world.image("p").as_str(),
            world.patches("p"),
            world.image_changes("p")
        ),
        (EXIT, 1, 1)
    );
    assert_eq!(
        world.get("p")["spec"]["initContainers"][0]["image"],
        "native:1"
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t34_a_sidecar_that_has_ended_by_itself_is_left_out_of_the_patch() {
    let world = World::new();
    world
        .run_pod(&pod_of(
            "p",
            "OnFailure",
            vec![main_container(), sidecar("a"), sidecar("b"), sidecar("c")],
        ))
        .await;
    let _life = world.start_controller();
    world.wait(1).await;
    let mut statuses = world.get("p")["status"]["containerStatuses"].clone();
    (0..2).for_each(|ended| statuses[ended]["state"] = terminated(0, 0));
    world
        .set_status("p", json!({"containerStatuses": statuses}))
        .await;
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    let images: Vec<_> = ["a", "b", "c"].map(|name| world.image_of("p", name)).into();
    assert_eq!(images, ["a:1", EXIT, EXIT]);
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t34_a_sidecar_that_ends_by_itself_while_the_patch_is_under_way() {
    let world = World::new();
    world
        .run_pod(&pod_of(
            "p",
            "Never",
            vec![main_container(), sidecar("a"), sidecar("b")],
        ))
        .await;
    let _life = world.start_controller();
    world.wait(1).await;
    world.patch_fault(Effect::Delay(Duration::from_secs(1)));
    world.ends("p", "main", 0).await;
    world.wait(0).await;
    world.ends("p", "a", 0).await;
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.count(Verb::Patch)),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}
