//! Pods whose phase is written: on the mock node with a kubelet, and on nodes by hand where
//! something goes wrong.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_testbed::Clock;
use swaplet_testbed::apiserver::{Effect, Verb};
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
use tokio::time::sleep;

use super::harness::{Life, World};
use super::node::terminated;
use super::objects::{EXIT, main_container, pod, pod_of, sidecar};

/// How long a pod on a kubelet must have been quiet, and a moment.
const QUIET: u64 = swaplet_core::terminate::memory::finish_record::QUIET.as_secs() + 1;

async fn on_a_kubelet(world: &World) {
    let options = NodeOptions::new("node-1", Profile::kubelet());
    tokio::spawn(VirtualNode::new(world.server.client_as("node"), Clock::default(), options).run());
    world.wait(1).await;
}

/// A main that is done after two seconds, and sidecars that end with 143.
fn played(policy: &str, sidecars: &[Value]) -> Value {
    let mut containers = vec![main_container()];
    containers[0]["args"] = json!(["run=2s"]);
    containers.extend(sidecars.iter().cloned().map(|mut sidecar| {
        sidecar["args"] = json!(["term=143"]);
        sidecar
    }));
    pod_of("p", policy, containers)
}

fn ignoring(name: &str) -> Value {
    let mut sidecar = sidecar(name);
    sidecar["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": IGNORE_EXIT_CODE, "value": "true"}));
    sidecar
}

fn ended(world: &World, container: usize) -> (Value, Value) {
    let status = &world.get("p")["status"]["containerStatuses"][container];
    (
        status["state"]["terminated"]["exitCode"].clone(),
        status["restartCount"].clone(),
    )
}

/// A pod on no node whose main is done; a controller that finishes.
async fn done_by_hand() -> (World, Life) {
    let world = World::new();
    world.run_pod(&pod("p", "Never")).await;
    world.ends("p", "main", 0).await;
    let life = world.start_finishing_controller();
    (world, life)
}

/// What a kubelet does with a phase that it keeps: it ends the sidecar and says so; and the time
/// until the controller tells it.
async fn torn_down(world: &World) {
    let mut statuses = world.get("p")["status"]["containerStatuses"]
        .as_array()
        .unwrap()
        .clone();
    statuses[1]["state"] = terminated(143, 0);
    world
        .set_status("p", json!({"containerStatuses": statuses}))
        .await;
    world.wait(30).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_kubelet_is_finished_by_one_write() {
    for policy in ["Never", "OnFailure"] {
        let world = World::new();
        on_a_kubelet(&world).await;
        world.create(&played(policy, &[sidecar("side")])).await;
        let _life = world.start_finishing_controller();
        world.wait(60).await;
        assert_eq!(
            (
                world.phase("p").as_str(),
                world.patches("p"),
                world.image_changes("p")
            ),
            ("Succeeded", 1, 0),
            "{policy}"
        );
        assert_eq!(ended(&world, 1), (json!(143), json!(0)));
        assert_eq!(
            world
                .events("p")
                .iter()
                .filter(|reason| ["PhaseWritten", "SidecarEnded"].contains(&reason.as_str()))
                .count(),
            2
        );
        world.assert_quiet().await;
    }
}

/// Under `Never` the node would judge the pod by it when the last other container has ended: so the
/// phase ends all of them.
#[tokio::test(start_paused = true)]
async fn an_ignored_exit_code_under_never_has_all_sidecars_ended_by_the_phase() {
    let world = World::new();
    on_a_kubelet(&world).await;
    world
        .create(&played("Never", &[sidecar("side"), ignoring("ignored")]))
        .await;
    let _life = world.start_controller_that_may_finish();
    world.wait(60).await;
    let patched: Vec<_> = world
        .requests()
        .into_iter()
        .filter(|request| request.verb == Verb::Patch)
        .map(|request| request.subresource)
        .collect();
    assert_eq!(
        (world.phase("p").as_str(), patched),
        ("Succeeded", vec!["status".to_owned()])
    );
    assert_eq!(world.image_of("p", "ignored"), "ignored:1");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_phase_that_is_taken_back_is_written_again_at_once() {
    let (world, _life) = done_by_hand().await;
    world.wait(QUIET).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    let nudge =
        |world: &World| world.get("p")["metadata"]["annotations"]["swaplet.io/finished"].clone();
    let first = nudge(&world);
    world.set_status("p", json!({"phase": "Running"})).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 2)
    );
    assert_ne!(nudge(&world), first);
    torn_down(&world).await;
    assert_eq!(world.events("p"), ["PhaseWritten", "SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_the_pod_keeps_changing_but_it_is_not_left_for_ever() {
    let (world, _life) = done_by_hand().await;
    let busy = world.clone();
    let churn = tokio::spawn(async move {
        for nth in 0.. {
            busy.edit(
                "p",
                &json!({"metadata": {"annotations": {"beat": nth.to_string()}}}),
            )
            .await;
            sleep(Duration::from_millis(50)).await;
        }
    });
    world.patch_fault(Effect::Delay(Duration::from_millis(300)));
    world.wait(55).await;
    assert_eq!(world.patches("p"), 0);
    world.wait(10).await;
    churn.abort();
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert!(
        world.notes("p")[0].1.contains("keeps changing"),
        "{:?}",
        world.notes("p")
    );
    torn_down(&world).await;
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changed_under_the_write_is_not_written() {
    let (world, life) = done_by_hand().await;
    world.wait(QUIET - 2).await;
    world.next_watch_fault(Effect::HoldWatch);
    world
        .set_status("p", json!({"phase": "Failed", "reason": "Evicted"}))
        .await;
    world.wait(5).await;
    assert_eq!(world.phase("p"), "Failed");
    assert!(
        world
            .requests()
            .iter()
            .any(|request| request.subresource == "status"),
        "it was not tried"
    );
    drop(life);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_told_when_the_phase_shows_it() {
    let (world, _life) = done_by_hand().await;
    world.next_patch_fault(Effect::ApplyThenDrop);
    world.wait(QUIET).await;
    torn_down(&world).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (
            1,
            vec!["PhaseWritten".to_owned(), "SidecarEnded".to_owned()]
        )
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_forbidden_names_the_right_that_is_missing_and_gives_way_to_the_swap() {
    let (world, _life) = done_by_hand().await;
    let words = "pods \"p\" is forbidden: User \"swaplet\" cannot patch resource \"pods/status\" in API group \"\"";
    world.fault(Effect::reply(403).message(words), |rule| {
        rule.verb(Verb::Patch)
            .resource("pods")
            .subresource("status")
    });
    world.wait(QUIET + 5).await;
    let notes = world.notes("p");
    assert_eq!(
        (notes[0].0.as_str(), world.patches("p")),
        ("WriteDenied", 5)
    );
    assert!(
        notes[0].1.contains("pods/status") && notes[0].1.contains("--finish=never"),
        "{notes:?}"
    );
    assert_eq!(world.image_of("p", "side"), EXIT);
}

#[tokio::test(start_paused = true)]
async fn the_next_life_goes_on_where_the_last_one_was_killed() {
    let (world, first) = done_by_hand().await;
    world.wait(QUIET - 2).await;
    first.kill();
    let second = world.start_finishing_controller();
    world.wait(QUIET - 2).await;
    assert_eq!(world.patches("p"), 0);
    world.wait(3).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    second.kill();
    // Taken back while nobody watched.
    world.set_status("p", json!({"phase": "Running"})).await;
    let _third = world.start_finishing_controller();
    world.wait(QUIET).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 2)
    );
    torn_down(&world).await;
    world.assert_quiet().await;
}
