//! Users who edit and delete pods at the wrong moment.

use std::time::Duration;

use swaplet_testbed::apiserver::Effect;

use super::harness::World;
use super::node::Kubelet;
use super::objects::EXIT;

#[tokio::test(start_paused = true)]
async fn t15_an_image_that_the_user_sets_just_before_the_swap_is_not_overwritten_unseen() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_patch_fault(Effect::Delay(Duration::from_secs(1)));
    world.ends("p", "main", 0).await;
    world.wait(0).await;
    world.set_image("p", "side:2").await;
    world.wait(5).await;
    assert_eq!(
        (
            world.image("p").as_str(),
            world.patches("p"),
            world.image_changes("p")
        ),
        (EXIT, 2, 2)
    );
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    let notes = world.notes("p");
    assert!(
        notes.len() == 1 && notes[0].0 == "SidecarEnded" && notes[0].1.contains("side:2 ->"),
        "{notes:?}"
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t15_an_image_that_the_user_sets_just_after_the_swap_is_swapped_again() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    world.set_image("p", "side:2").await;
    world.wait(1).await;
    assert_eq!((world.image("p").as_str(), world.patches("p")), (EXIT, 2));
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(world.phase("p"), "Succeeded");
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    let told = format!("side 2 times (image side:2 -> {EXIT})");
    assert!(world.notes("p")[0].1.ends_with(&told));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t15_a_user_who_insists_wins() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.ends("p", "main", 0).await;
    for nth in 2..12 {
        world.wait(1).await;
        world.set_image("p", &format!("side:{nth}")).await;
    }
    world.wait(60).await;
    assert_eq!(
        (world.image("p").as_str(), world.patches("p")),
        ("side:11", 3)
    );
    assert_eq!(world.events("p"), ["SwapUndone"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t16_a_main_that_fails_and_succeeds_later_keeps_its_sidecar_until_then() {
    let (world, _life) = World::with_pod("OnFailure").await;
    for _ in 0..2 {
        world.ends("p", "main", 1).await;
        world.wait(1).await;
        world
            .waits(
                "p",
                "main",
                "CrashLoopBackOff",
                "back-off 10s restarting failed container",
            )
            .await;
        world.wait(10).await;
        world.runs("p", "main").await;
        world.wait(30).await;
    }
    assert_eq!(world.patches("p"), 0);
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t22_a_pod_that_is_deleted_between_decision_and_write() {
    let (world, life) = World::with_pod("OnFailure").await;
    world.patch_fault(Effect::Delay(Duration::from_secs(1)));
    world.ends("p", "main", 0).await;
    world.wait(0).await;
    world.delete("p").await;
    world.wait(20).await;
    assert_eq!(world.patches("p"), 1, "the one that was under way");
    world.remove("p").await;
    world.wait(1).await;
    assert_eq!(life.pods_kept(), 0);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t22_a_pod_that_is_being_deleted_is_left_alone() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.delete("p").await;
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(20).await;
    assert_eq!((world.patches("p"), world.events("p").len()), (0, 0));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t22_a_pod_that_is_gone_when_the_patch_arrives() {
    let (world, life) = World::with_pod("OnFailure").await;
    world.patch_fault(Effect::Delay(Duration::from_secs(1)));
    world.ends("p", "main", 0).await;
    world.wait(0).await;
    world.remove("p").await;
    world.wait(20).await;
    assert_eq!(
        (
            world.patches("p"),
            world.events("p").len(),
            life.pods_kept()
        ),
        (1, 0, 0)
    );
    world.assert_quiet().await;
}
