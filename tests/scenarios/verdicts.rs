//! Sidecars that the exit image cannot end: told once, and left alone.

use serde_json::json;

use super::harness::World;
use super::node::Kubelet;
use super::objects::{EXIT, main_container, pod_of, sidecar, sidecar_that_calls};

#[tokio::test(start_paused = true)]
async fn a_command_that_the_exit_image_does_not_have_is_told_once_and_nothing_is_written() {
    for policy in ["Never", "OnFailure"] {
        let world = World::new();
        world.start_kubelet(Kubelet::default());
        world
            .run_pod(&pod_of(
                "p",
                policy,
                vec![
                    main_container(),
                    sidecar_that_calls("side", "/opt/own/server"),
                ],
            ))
            .await;
        let life = world.start_controller();
        world.wait(5).await;
        assert_eq!(world.events("p"), [""; 0], "its main runs");
        world.ends("p", "main", 0).await;
        world.wait(60).await;
        assert_eq!(
            (world.events("p"), world.patches("p")),
            (vec!["NeedsImage".to_owned()], 0)
        );
        assert_eq!(world.image("p"), "side:1");
        life.kill();
        let _next = world.start_controller();
        world.wait(60).await;
        assert_eq!(
            (world.events("p"), world.patches("p")),
            (vec!["NeedsImage".to_owned()], 0),
            "the next life says the same: no new Event"
        );
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_on_a_volume_is_told_once_until_it_is_gone() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    let mut tool = sidecar_that_calls("side", "/work/tool");
    tool["volumeMounts"] = json!([{"name": "work", "mountPath": "/work"}]);
    let mut pod = pod_of(
        "p",
        "OnFailure",
        vec![main_container(), tool, sidecar("other")],
    );
    pod["spec"]["volumes"] = json!([{"name": "work", "emptyDir": {}}]);
    world.run_pod(&pod).await;
    let _life = world.start_controller();
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    let told = vec!["NotSwappable".to_owned()];
    assert_eq!(
        (world.events("p"), world.patches("p")),
        (told, 1),
        "the other sidecar waits for nobody"
    );
    world.ends("p", "side", 0).await;
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["NotSwappable", "SidecarEnded"]);
    assert_eq!(world.get("p")["spec"]["containers"][2]["image"], EXIT);
    world.assert_quiet().await;
}
