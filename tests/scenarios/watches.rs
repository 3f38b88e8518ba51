//! Watches and lists that lie, lag, break or fall silent.

use std::time::Duration;

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Verb};
use tokio::time::Instant;

use super::harness::{Life, World};
use super::node::Kubelet;
use super::objects::{EXIT, pod};

/// What is told of a swap whose pod has not ended.
const SWAPPED: [&str; 0] = [];

/// The pod ends as always, with so many lists in all.
async fn all_is_well(world: &World, lists: usize) {
    assert_eq!(
        (world.image("p").as_str(), world.patches("p"), world.lists()),
        (EXIT, 1, lists)
    );
    assert_eq!(world.events("p"), SWAPPED);
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(world.phase("p"), "Succeeded");
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

/// The largest number of watches that were asked for within a second.
fn most_watches_in_a_second(life: &Life) -> usize {
    let times = life.line.watches();
    let within = |start: Instant| {
        times
            .iter()
            .filter(|at| (start..start + Duration::from_secs(1)).contains(at))
            .count()
    };
    times
        .iter()
        .map(|start| within(*start))
        .max()
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn t10_a_patch_for_a_deleted_pod_does_not_meet_the_next_one_of_that_name() {
    let (world, _life) = World::with_pod("OnFailure").await;
    let lost = world.patch_fault(Effect::Drop);
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    let old = world.next_watch_fault(Effect::HoldWatch);
    world.remove("p").await;
    world.run_pod(&pod("p", "OnFailure")).await;
    world.end_fault(lost);
    let before = world.patches("p");
    world.wait(30).await;
    assert!(
        world.patches("p") > before,
        "nothing was sent from the old view"
    );
    assert_eq!(
        (world.image("p").as_str(), world.image_changes("p")),
        ("side:1", 0)
    );

    world.end_fault(old);
    world.wait(60).await;
    let stale = world.patches("p");
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    assert_eq!(
        (world.image("p").as_str(), world.patches("p")),
        (EXIT, stale + 1)
    );
    assert_eq!(world.events("p"), SWAPPED);
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t11_a_missed_event_is_made_up_for_by_a_later_one() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_watch_fault(Effect::SkipEvents(0, 1));
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(world.patches("p"), 0);
    world
        .edit("p", &json!({"metadata": {"labels": {"any": "thing"}}}))
        .await;
    world.wait(1).await;
    all_is_well(&world, 1).await;
}

#[tokio::test(start_paused = true)]
async fn t11_a_missed_event_is_made_up_for_by_a_list() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_watch_fault(Effect::SkipEvents(0, 1));
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    world.next_watch_fault(Effect::ExpireWatch(0));
    world.wait(5).await;
    all_is_well(&world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn t12_the_version_expires_within_the_stream() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_watch_fault(Effect::ExpireWatch(0));
    world.wait(5).await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    all_is_well(&world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn t12_the_version_has_expired_when_the_watch_begins() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_watch_fault(Effect::CloseWatch(0));
    world.next_watch_fault(Effect::reply(410));
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    all_is_well(&world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn t12_every_watch_expires_at_once_for_a_while() {
    for effect in [Effect::ExpireWatch(0), Effect::reply(410).into()] {
        let (world, life) = World::with_pod("OnFailure").await;
        let expired = world.fault(effect, |rule| rule.verb(Verb::Watch).resource("pods"));
        world.wait(120).await;
        let lists = world.lists();
        assert!(lists <= 20, "{lists} lists in two minutes");
        assert!(most_watches_in_a_second(&life) <= 5);
        world.end_fault(expired);
        world.wait(20).await;
        let lists = world.lists();
        world.ends("p", "main", 0).await;
        world.wait(1).await;
        all_is_well(&world, lists).await;
    }
}

/// Each may have held back what happened: a list finds it, twice a minute.
#[tokio::test(start_paused = true)]
async fn t12_a_thousand_watches_that_end_at_once() {
    let (world, life) = World::with_pod("OnFailure").await;
    let began = Instant::now();
    world.fault(Effect::CloseWatch(0), |rule| {
        rule.verb(Verb::Watch).resource("pods").times(1000)
    });
    while life.line.watches().len() < 980 {
        world.wait(60).await;
    }
    world.ends("p", "main", 0).await;
    world.wait(45).await;
    assert_eq!((world.image("p").as_str(), world.patches("p")), (EXIT, 1));
    world.start_kubelet(Kubelet::default());
    world.wait(60).await;
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    assert!(life.line.watches().len() < 1000);
    let half_minutes = usize::try_from(began.elapsed().as_secs() / 30).unwrap();
    let lists = world.lists();
    assert!(
        (half_minutes - 30..=half_minutes + 1).contains(&lists),
        "{lists} lists in {half_minutes} half minutes"
    );
    assert!(most_watches_in_a_second(&life) <= 5);
    world.wait(600).await;
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t12_a_line_that_is_no_json_loses_only_itself() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_watch_fault(Effect::Garbage(0));
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    all_is_well(&world, 1).await;
}

#[tokio::test(start_paused = true)]
async fn t13_a_watch_that_falls_silent_hides_events_for_less_than_a_minute() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_watch_fault(Effect::HoldWatch);
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    all_is_well(&world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn t13_lists_and_watches_without_an_answer_are_given_up() {
    let world = World::new();
    world.run_pod(&pod("p", "OnFailure")).await;
    world.ends("p", "main", 0).await;
    world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::List).resource("pods").times(1)
    });
    world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Watch).resource("pods").times(1)
    });
    let _life = world.start_controller();
    world.wait(70).await;
    all_is_well(&world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn t14_a_version_that_the_server_keeps_refusing_is_given_up_for_a_list() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_watch_fault(Effect::CloseWatch(0));
    let restored = world.fault(
        Effect::reply(504).message("Too large resource version"),
        |rule| rule.verb(Verb::Watch).resource("pods"),
    );
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    assert_eq!((world.image("p").as_str(), world.patches("p")), (EXIT, 1));
    world.end_fault(restored);
    world.wait(40).await;
    all_is_well(&world, world.lists()).await;
}

/// What a real API server does: the watch from a version that it has not reached is open, and
/// silent until it is.
#[tokio::test(start_paused = true)]
async fn f5_a_restore_of_etcd_is_noticed_by_one_cheap_list() {
    let (world, life) = World::with_pod("OnFailure").await;
    let restored = world.server.revision();
    for name in ["q", "r", "s"] {
        world.run_pod(&pod(name, "OnFailure")).await;
    }
    world.wait(48).await;
    assert_eq!((life.pods_kept(), world.lists()), (4, 1));
    world.server.restore(restored);
    world.next_watch_fault(Effect::CloseWatch(0));
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    assert_eq!((life.pods_kept(), world.lists()), (1, 2));
    all_is_well(&world, 2).await;
}

/// Where it has not gone back.
#[tokio::test(start_paused = true)]
async fn f5_a_watch_that_is_silent_because_nothing_happens_goes_on() {
    let (world, life) = World::with_pod("OnFailure").await;
    let asked = || {
        life.line
            .sent()
            .iter()
            .filter(|sent| sent.uri.contains("/pods?") && sent.uri.contains("limit=1"))
            .count()
    };
    world.wait(45 * 10).await;
    assert!((9..=10).contains(&asked()), "{}", asked());
    assert_eq!(world.lists(), 1);
    // An answer that does not come holds up nothing.
    let hangs = world.fault(Effect::Hang, |rule| rule.verb(Verb::List).resource("pods"));
    world.wait(45 * 2).await;
    world.ends("p", "main", 0).await;
    world.wait(6).await;
    world.end_fault(hangs);
    all_is_well(&world, 1).await;
}

#[tokio::test(start_paused = true)]
async fn k9_pods_that_vanish_while_nobody_watches_are_forgotten() {
    let world = World::new();
    let life = world.start_controller();
    for round in 0..50 {
        world.run_pod(&pod(&format!("p{round}"), "OnFailure")).await;
        world.wait(1).await;
        assert_eq!(life.pods_kept(), 1);
        let held = world.next_watch_fault(Effect::HoldWatch);
        world.remove(&format!("p{round}")).await;
        world.server.compact();
        world.end_fault(held);
        world.wait(20).await;
    }
    assert_eq!(life.pods_kept(), 0);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn k11_a_list_that_goes_back_in_time_causes_no_second_swap() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.ends("p", "main", 0).await;
    let before = world.server.revision();
    world.wait(1).await;
    world.fault(Effect::ReplayList(before), |rule| {
        rule.verb(Verb::List).resource("pods").times(1)
    });
    world.next_watch_fault(Effect::ExpireWatch(0));
    world.wait(60).await;
    assert_eq!(
        (world.image("p").as_str(), world.image_changes("p")),
        (EXIT, 1)
    );
    assert!(world.patches("p") <= 2, "{} patches", world.patches("p"));
    assert_eq!(world.events("p"), SWAPPED);
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}
