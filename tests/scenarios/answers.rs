//! Answers of the API server to writes: lost, late, busy, broken, forbidding.

mod denials;
mod events;

use std::time::Duration;

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Verb};
use tokio::time::sleep;

use super::harness::{CONCURRENCY, Life, World};
use super::node::Kubelet;
use super::objects::{EXIT, pod};

/// A world with a controller and so many running pods `p0`, `p1`...
async fn with_pods(count: usize) -> (World, Life, Vec<String>) {
    let world = World::new();
    let names: Vec<_> = (0..count).map(|nth| format!("p{nth}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "OnFailure")).await;
    }
    let life = world.start_controller();
    world.wait(1).await;
    (world, life, names)
}

/// Each has succeeded by one swap, however often that was sent, and its end is all that was told.
#[track_caller]
fn assert_swapped_once(world: &World, names: &[String]) {
    for name in names {
        assert_eq!(
            (world.phase(name).as_str(), world.image_changes(name)),
            ("Succeeded", 1),
            "{name}"
        );
        assert_eq!(world.events(name), ["SidecarEnded"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn t3_reply_lost_after_the_patch_was_applied() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_patch_fault(Effect::ApplyThenDrop);
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t4_a_504_after_the_patch_was_applied_is_not_sent_again() {
    let (world, _life) = World::with_pod("Never").await;
    world.next_patch_fault(Effect::ApplyThenReply(Effect::reply(504)));
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t5_a_pod_that_changes_twenty_times_a_second_needs_one_patch() {
    let (world, _life) = World::with_pod("OnFailure").await;
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
    world.wait(5).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    churn.abort();
    assert_eq!(
        (
            world.image("p").as_str(),
            world.patches("p"),
            world.image_changes("p")
        ),
        (EXIT, 1, 1)
    );
    assert_eq!(world.events("p"), [""; 0]);
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t6_a_busy_server_is_asked_as_rarely_as_it_wants() {
    let (world, life, names) = with_pods(50).await;
    let busy = world.patch_fault(Effect::reply(429).retry_after(5));
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(60).await;
    let rounds = 1 + 60 / 5;
    assert!(
        world.count(Verb::Patch) <= rounds * CONCURRENCY,
        "{} patches in a minute",
        world.count(Verb::Patch)
    );
    world.end_fault(busy);
    world.wait(60).await;
    assert!(names.iter().all(|name| world.image_changes(name) == 1));
    assert!(names.iter().all(|name| world.events(name).is_empty()));
    assert!(life.line.most_under_way() <= CONCURRENCY);
    world.start_kubelet(Kubelet::default());
    world.wait(10).await;
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t6_a_server_that_names_no_time_is_asked_ever_more_rarely() {
    let (world, _life) = World::with_pod("OnFailure").await;
    let busy = world.patch_fault(Effect::reply(429));
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    let patches = world.patches("p");
    assert!((4..=8).contains(&patches), "{patches} patches in a minute");
    world.end_fault(busy);
    world.start_kubelet(Kubelet::default());
    world.wait(65).await;
    assert_eq!(
        (world.phase("p").as_str(), world.image_changes("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

/// It is a proxy's, or an API server's that just starts: the pod is still there, and the watch says
/// nothing more of it.
#[tokio::test(start_paused = true)]
async fn a_404_that_does_not_name_the_pod_is_tried_again() {
    let (world, _life) = World::with_pod("OnFailure").await;
    let missing = world.patch_fault(Effect::reply(404));
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(world.image_changes("p"), 0);
    assert!(world.patches("p") > 1, "{} patches", world.patches("p"));
    world.end_fault(missing);
    world.wait(20).await;
    assert_eq!(world.image_changes("p"), 1);
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(world.phase("p"), "Succeeded");
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t7_writes_fail_for_a_minute() {
    for code in [500, 503] {
        let (world, _life, names) = with_pods(20).await;
        let broken = world.patch_fault(Effect::reply(code));
        world.start_kubelet(Kubelet::default());
        for name in &names {
            world.ends(name, "main", 0).await;
        }
        world.wait(60).await;
        assert!(names.iter().all(|name| world.image_changes(name) == 0));
        world.end_fault(broken);
        world.wait(70).await;
        assert_swapped_once(&world, &names);
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn t7_the_server_is_away_for_a_minute() {
    let (world, _life, names) = with_pods(20).await;
    world.next_watch_fault(Effect::CloseWatch(0));
    let away = world.fault(Effect::Drop, |rule| rule);
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(60).await;
    world.end_fault(away);
    world.start_kubelet(Kubelet::default());
    world.wait(30).await;
    for name in &names {
        world.assert_ended_by_one_patch(name);
    }
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t8_a_patch_without_an_answer_is_given_up_and_delays_nobody() {
    let (world, life, names) = with_pods(20).await;
    let hang = world.fault(Effect::Hang, |rule| rule.verb(Verb::Patch).name("p0"));
    world.start_kubelet(Kubelet::default());
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(3).await;
    assert!(
        names[1..]
            .iter()
            .all(|name| world.phase(name) == "Succeeded")
    );
    assert_eq!(world.patches("p0"), 1);
    world.wait(9).await;
    assert_eq!(
        world.patches("p0"),
        2,
        "the first was given up after ten seconds"
    );
    world.end_fault(hang);
    world.wait(20).await;
    assert_swapped_once(&world, &names);
    assert!(life.line.most_under_way() <= CONCURRENCY);
    world.assert_quiet().await;
}
