//! Pods of a tenant that are made to end the controller, or to keep it busy: each costs itself, and
//! the pod beside it ends as ever.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::terminate::derive::Push;
use swaplet_core::cluster::exit_images::derived::Trouble;

use super::harness::World;
use super::log::{keep_log, logged};
use super::node::Kubelet;
use super::objects::{main_container, pod, pod_of, sidecar, sidecar_that_calls};

/// Each variable is the one before it twice.
fn doubling(command: &str) -> Value {
    let mut side = sidecar_that_calls("side", command);
    let variables = side["env"].as_array_mut().unwrap();
    variables.push(json!({"name": "A0", "value": "aaaaaaaa"}));
    variables.extend((1..=60).map(
        |nth| json!({"name": format!("A{nth}"), "value": format!("$(A{0})$(A{0})", nth - 1)}),
    ));
    side
}

async fn ends_as_ever(world: &World, name: &str) {
    world.ends(name, "main", 0).await;
    world.wait(10).await;
    assert_eq!(
        (world.phase(name).as_str(), world.patches(name)),
        ("Succeeded", 1),
        "{name}"
    );
}

#[tokio::test(start_paused = true)]
async fn a1_variables_that_double_cost_nobody_anything() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    world
        .run_pod(&pod_of(
            "unused",
            "Never",
            vec![main_container(), doubling("/bin/sleep")],
        ))
        .await;
    world
        .run_pod(&pod_of(
            "used",
            "Never",
            vec![main_container(), doubling("/bin/$(A60)")],
        ))
        .await;
    world.run_pod(&pod("honest", "Never")).await;
    let _life = world.start_controller();
    world.wait(1).await;
    ends_as_ever(&world, "honest").await;
    ends_as_ever(&world, "unused").await;
    world.ends("used", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.patches("used"), world.events("used")),
        (0, vec!["NotSwappable".to_owned()])
    );
    assert!(
        world.notes("used")[0].1.contains("or is too long"),
        "{:?}",
        world.notes("used")
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a7_a_pod_with_thousands_of_mounts_is_told_so_in_few_words() {
    keep_log();
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    let mut side = sidecar_that_calls("side", "/bin/sleep");
    side["volumeMounts"] = (0..20_000)
        .map(|nth| json!({"name": "v", "mountPath": format!("/bin/sh/a{nth}")}))
        .collect();
    let mut many = pod_of("many", "Never", vec![main_container(), side]);
    many["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    world.run_pod(&many).await;
    let mut side = sidecar_that_calls("side", "/bin/sleep");
    side["volumeMounts"] = (0..15)
        .map(|nth| json!({"name": "v", "mountPath": format!("/bin/sh/{nth}{}", "b".repeat(200))}))
        .collect();
    let mut long = pod_of("long", "Never", vec![main_container(), side]);
    long["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    world.run_pod(&long).await;
    world.run_pod(&pod("honest", "Never")).await;
    let _life = world.start_controller();
    world.wait(1).await;
    ends_as_ever(&world, "honest").await;
    for (name, reason) in [("many", "NotSwappable"), ("long", "NeedsImage")] {
        world.ends(name, "main", 0).await;
        world.wait(5).await;
        assert_eq!(
            (world.patches(name), world.events(name)),
            (0, vec![reason.to_owned()])
        );
        assert!(world.notes(name)[0].1.len() <= 1024);
    }
    assert!(
        world.notes("many")[0].1.contains("more than 1000 volumes"),
        "{:?}",
        world.notes("many")
    );
    let lines = logged("");
    assert!(
        lines.iter().any(|line| line.contains("NeedsImage"))
            && lines.iter().all(|line| line.len() < 2_000),
        "{lines:?}"
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a8_large_pods_are_listed_a_few_at_a_time_and_left_alone() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    for nth in 0..12 {
        let mut side = sidecar("side");
        side["image"] = format!("r.example/{}", "a".repeat(1_000_000)).into();
        world
            .run_pod(&pod_of(
                &format!("big-{nth}"),
                "Never",
                vec![main_container(), side],
            ))
            .await;
    }
    world.run_pod(&pod("honest", "Never")).await;
    let _life = world.start_controller();
    world.wait(1).await;
    assert!(
        world.lists() > 3,
        "12 MB are not one answer: {}",
        world.lists()
    );
    ends_as_ever(&world, "honest").await;
    for nth in 0..12 {
        let name = format!("big-{nth}");
        assert_eq!(
            (world.patches(&name), world.events(&name)),
            (0, vec!["PodMalformed".to_owned()])
        );
        assert!(
            world.notes(&name)[0].1.contains("spec.containers[*]"),
            "{:?}",
            world.notes(&name)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_registry_that_asks_to_wait_for_ever_does_not_end_the_controller() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    world
        .run_pod(&pod_of(
            "p",
            "OnFailure",
            vec![
                main_container(),
                sidecar_that_calls("side", "/opt/own/server"),
            ],
        ))
        .await;
    world.run_pod(&pod("honest", "OnFailure")).await;
    let busy = || Trouble {
        words: "pushing: 429".to_owned(),
        retry_after: Some(Duration::from_secs(u64::MAX)),
    };
    let _life = world.start_deriving_controller(Push::by(move |_| async move { Err(busy()) }));
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["NeedsImage".to_owned()])
    );
    ends_as_ever(&world, "honest").await;
}
