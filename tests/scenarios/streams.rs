//! Lists that the API server streams.

use std::time::Duration;

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Verb};

use super::harness::{Life, World};
use super::node::Kubelet;
use super::objects::pod;

const PODS: usize = 8;

fn names() -> Vec<String> {
    (0..PODS).map(|nth| format!("p{nth}")).collect()
}

/// Pods whose main containers have ended before the controller starts; `fault` befalls its watches
/// of pods.
async fn behind(world: &World, fault: Option<Effect>) -> Life {
    for name in names() {
        world.run_pod(&pod(&name, "OnFailure")).await;
        world.ends(&name, "main", 0).await;
    }
    if let Some(fault) = fault {
        world.next_watch_fault(fault);
    }
    let life = world.start_controller();
    world.start_kubelet(Kubelet::default());
    world.wait(20).await;
    life
}

fn assert_ended(world: &World) {
    for name in names() {
        assert_eq!(
            (world.phase(&name).as_str(), world.patches(&name)),
            ("Succeeded", 1),
            "{name}"
        );
    }
}

/// How often the controller asked for all pods as a stream: a watch from no version.
fn streams(world: &World) -> usize {
    world
        .requests()
        .iter()
        .filter(|request| {
            request.verb == Verb::Watch
                && request.resource == "pods"
                && request.resource_version.is_empty()
        })
        .count()
}

#[tokio::test(start_paused = true)]
async fn all_pods_come_by_one_stream_and_none_by_a_list() {
    let world = World::that_streams_lists();
    let _life = behind(&world, None).await;
    assert_ended(&world);
    assert_eq!((streams(&world), world.lists()), (1, 0));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_streams_no_lists_is_asked_once_and_lists() {
    let world = World::new();
    let _life = behind(&world, None).await;
    assert_ended(&world);
    assert_eq!((streams(&world), world.lists()), (1, 1));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_is_followed_by_a_list() {
    for fault in [
        Effect::CloseWatch(3),
        Effect::Garbage(3),
        Effect::ExpireWatch(3),
        Effect::HoldWatch,
    ] {
        let world = World::that_streams_lists();
        let is_held = fault == Effect::HoldWatch;
        let _life = behind(&world, Some(fault.clone())).await;
        // A server that goes silent is given up after 30 s.
        world.wait(if is_held { 40 } else { 1 }).await;
        assert_ended(&world);
        assert_eq!((streams(&world), world.lists()), (1, 1), "{fault:?}");
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_no_end_of_the_list_is_given_up_while_it_goes_on_to_send_changes() {
    let world = World::that_streams_lists();
    world.server.ignore_streamed_lists();
    world.run_pod(&pod("busy", "OnFailure")).await;
    let _life = behind(&world, None).await;
    for nth in 0..10 {
        let change = json!({"metadata": {"annotations": {"example.com/beat": nth.to_string()}}});
        world.edit("busy", &change).await;
        world.wait(5).await;
    }
    assert_ended(&world);
    assert_eq!((streams(&world), world.lists()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_went_while_a_watch_was_silent_is_forgotten() {
    let world = World::that_streams_lists();
    for name in names() {
        world.run_pod(&pod(&name, "OnFailure")).await;
    }
    let life = world.start_controller();
    world.wait(1).await;
    assert_eq!(life.pods_kept(), 8);
    world.next_watch_fault(Effect::HoldWatch);
    world.remove("p0").await;
    world.server.compact();
    world.wait(120).await;
    assert_eq!((streams(&world), world.lists()), (1, 1));
    assert_eq!(life.pods_kept(), 7);
    world.assert_quiet().await;
}

/// A proxy before the API server that passes lists and holds back, or refuses, whatever watches: from
/// the start, or later.
#[tokio::test(start_paused = true)]
async fn where_no_watch_is_served_lists_in_pages_take_its_place() {
    for fault in [
        Effect::from(Effect::reply(504)),
        Effect::from(Effect::reply(503)),
        Effect::Drop,
        Effect::Hang,
        Effect::HoldWatch,
    ] {
        for is_later in [false, true] {
            let world = World::that_streams_lists();
            for name in names() {
                world.run_pod(&pod(&name, "OnFailure")).await;
            }
            let refuse = || world.fault(fault.clone(), |rule| rule.verb(Verb::Watch));
            let rule = (!is_later).then(refuse);
            let _life = world.start_controller();
            world.start_kubelet(Kubelet::default());
            world.wait(5).await;
            let rule = rule.unwrap_or_else(refuse);
            for name in names() {
                world.ends(&name, "main", 0).await;
            }
            world.wait(180).await;
            assert_ended(&world);
            let lists = world.lists();
            assert!(
                (2..=8).contains(&lists),
                "{fault:?}, {is_later}: {lists} lists"
            );

            world.end_fault(rule);
            world.wait(120).await;
            let lists = world.lists();
            world.wait(300).await;
            assert_eq!(
                world.lists(),
                lists,
                "{fault:?}: what is watched is not listed"
            );
        }
    }
}

/// Something changes the pod between any two lists, so the phase is never for the version that is there.
#[tokio::test(start_paused = true)]
async fn u196_a_pod_that_changes_between_two_lists_is_ended_by_its_phase() {
    let world = World::that_streams_lists();
    world.run_pod(&pod("busy", "OnFailure")).await;
    world.fault(Effect::HoldWatch, |rule| rule.verb(Verb::Watch));
    let _life = world.start_finishing_controller();
    world.wait(5).await;
    world.ends("busy", "main", 0).await;
    for nth in 0..80 {
        let change = json!({"metadata": {"annotations": {"example.com/beat": nth.to_string()}}});
        world.edit("busy", &change).await;
        world.wait(5).await;
    }
    assert_eq!(
        world.phase("busy"),
        "Succeeded",
        "{:?}",
        world.notes("busy")
    );
    assert!(world.patches("busy") < 20, "{}", world.patches("busy"));
}

/// A proxy before the API server that takes watches, holds back what they bring, and ends them: at
/// once, or long before the API server would.
#[tokio::test(start_paused = true)]
async fn u133_where_watches_end_and_bring_nothing_lists_in_pages_take_their_place() {
    for seconds in [0, 3, 20, 35] {
        let world = World::that_streams_lists();
        for name in names() {
            world.run_pod(&pod(&name, "OnFailure")).await;
        }
        let life = world.start_controller();
        world.start_kubelet(Kubelet::default());
        world.wait(5).await;
        let cut = Effect::CutWatch(Duration::from_secs(seconds));
        let rule = world.fault(cut, |rule| rule.verb(Verb::Watch));
        let all = names();
        let (first, later) = all.split_at(PODS / 2);
        for name in first {
            world.ends(name, "main", 0).await;
        }
        world.wait(120).await;
        for name in first {
            assert_eq!(world.phase(name), "Succeeded", "{seconds} s: {name}");
        }
        for name in later {
            world.ends(name, "main", 0).await;
        }
        world.wait(60).await;
        assert_ended(&world);
        assert_eq!(life.health.ready(), Ok("ok".to_owned()));

        let lists = world.lists();
        world.wait(300).await;
        let lists = world.lists() - lists;
        assert!((8..=11).contains(&lists), "{seconds} s: {lists} lists");

        world.end_fault(rule);
        world.wait(120).await;
        let lists = world.lists();
        world.wait(300).await;
        assert_eq!(
            world.lists(),
            lists,
            "{seconds} s: what is watched is not listed"
        );
    }
}

/// An API server that ends watches early says nothing of what they miss where they bring something.
#[tokio::test(start_paused = true)]
async fn u133_watches_that_end_early_and_bring_something_are_not_replaced_by_lists() {
    let world = World::that_streams_lists();
    world.run_pod(&pod("busy", "OnFailure")).await;
    let _life = behind(&world, None).await;
    world.fault(Effect::CloseWatch(1), |rule| {
        rule.verb(Verb::Watch).resource("pods")
    });
    for nth in 0..40 {
        let change = json!({"metadata": {"annotations": {"example.com/beat": nth.to_string()}}});
        world.edit("busy", &change).await;
        world.wait(5).await;
    }
    assert_eq!((streams(&world), world.lists()), (1, 0));
}
