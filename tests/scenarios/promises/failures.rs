//! What has failed once says nothing for ever.

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Verb};

use crate::harness::World;
use crate::node::Kubelet;
use crate::objects::{EXIT, main_container, pod, pod_of, sidecar};

/// The sidecar `b` is ended ten minutes after `a`.
fn two() -> serde_json::Value {
    let containers = vec![main_container(), sidecar("a"), sidecar("b")];
    let mut pod = pod_of("p", "OnFailure", containers);
    pod["metadata"]["annotations"] = json!({"swaplet.io/delay": "b=10m"});
    pod
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_and_a_503_ten_minutes_later_are_no_ten_minutes_of_failure() {
    let world = World::new();
    world.run_pod(&two()).await;
    let _life = world.start_controller_that_may_finish();
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.next_patch_fault(Effect::ApplyThenDrop);
    world.ends_now("p", "main", 0).await;
    world.wait(300).await;
    assert_eq!(world.image_of("p", "a"), EXIT);
    world.next_patch_fault(Effect::reply(503));
    world.wait(400).await;
    assert_eq!(
        world.events("p"),
        ["SidecarEnded"],
        "{:?}",
        world.notes("p")
    );
    assert_eq!(world.image_of("p", "b"), EXIT);
}

#[tokio::test(start_paused = true)]
async fn two_failures_ten_minutes_apart_are_two() {
    let world = World::new();
    world.run_pod(&two()).await;
    let _life = world.start_controller_that_may_finish();
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.next_patch_fault(Effect::reply(503));
    world.ends_now("p", "main", 0).await;
    world.wait(300).await;
    world.next_patch_fault(Effect::Drop);
    world.wait(400).await;
    assert_eq!(
        world.events("p"),
        ["SidecarEnded"],
        "{:?}",
        world.notes("p")
    );
}

/// Each of them waits for its turn to try again, which is no time without a failure.
#[tokio::test(start_paused = true)]
async fn u147_many_pods_behind_a_webhook_that_hangs_are_ended_by_the_phase() {
    let world = World::new();
    let names: Vec<_> = (0..40).map(|nth| format!("p{nth}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "Never")).await;
    }
    let _life = world.start_controller_that_may_finish();
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Patch).resource("pods").subresource("")
    });
    for name in &names {
        world.ends_now(name, "main", 0).await;
    }
    world.wait(3600).await;
    for name in &names {
        assert_eq!(
            world.phase(name),
            "Succeeded",
            "{name}: {:?}",
            world.notes(name)
        );
    }
}

/// While it is down nothing ends; it may be back at any moment.
#[tokio::test(start_paused = true)]
async fn after_a_webhook_is_back_pods_end_within_two_minutes() {
    let world = World::new();
    world.run_pod(&pod("p", "OnFailure")).await;
    let _life = world.start_controller_that_may_finish();
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    let down = Effect::reply(500).message(
        "Internal error occurred: failed calling webhook \"w.example\": connection refused",
    );
    let down = world.fault(down, |rule| rule.verb(Verb::Patch).resource("pods"));
    world.ends_now("p", "main", 0).await;
    world.wait(1200).await;
    world.end_fault(down);
    world.wait(120).await;
    assert_eq!(world.phase("p"), "Succeeded", "{:?}", world.notes("p"));
    assert!(world.patches("p") < 45, "{}", world.patches("p"));
}

/// The registry was away for ten seconds; then the exit image has ended a pod well.
#[tokio::test(start_paused = true)]
async fn an_image_that_could_not_be_pulled_counts_until_it_has_worked() {
    let world = World::new();
    world.run_pod(&pod("p", "OnFailure")).await;
    let _life = world.start_controller();
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    let words = format!("failed to pull and unpack image \"{EXIT}\": 503");
    world.waits("p", "side", "ErrImagePull", &words).await;
    world.wait(10).await;
    world.run_pod(&pod("held", "Never")).await;
    world.wait(1).await;
    world.ends("held", "main", 0).await;
    world.wait(10).await;
    assert_ne!(world.image("held"), EXIT, "it is not tried out");
    world.start_kubelet(Kubelet::default());
    world.wait(10).await;
    world.run_pod(&pod("q", "Never")).await;
    world.wait(1).await;
    world.ends("q", "main", 0).await;
    world.wait(60).await;
    assert_eq!(world.phase("q"), "Succeeded", "{:?}", world.notes("q"));
}
