//! Writes that are denied, and tokens that are refused.

use std::time::Duration;

use swaplet_core::terminate::memory::QUICK_DENIED_RETRIES;
use swaplet_testbed::apiserver::{Effect, Verb};
use tokio::time::Instant;

use super::{assert_swapped_once, with_pods};
use crate::harness::World;
use crate::node::Kubelet;
use crate::objects::pod;

#[tokio::test(start_paused = true)]
async fn t29_a_denied_swap_is_told_once_and_tried_rarely() {
    let words = "admission webhook \"images.example\" denied the request: image is not signed";
    for code in [403, 422] {
        let (world, life) = World::with_pod("OnFailure").await;
        let denied = world.patch_fault(Effect::reply(code).message(words));
        world.ends("p", "main", 0).await;
        world.wait(3600).await;
        let times = life.line.patched_at();
        let (quick, rare) = times.split_at(QUICK_DENIED_RETRIES as usize);
        assert!(
            rare.len() >= 5 && rare[0] - quick[0] < Duration::from_secs(5),
            "{times:?}"
        );
        assert!(
            rare.windows(2)
                .all(|pair| pair[1] - pair[0] >= Duration::from_secs(60)),
            "{times:?}"
        );
        let notes = world.notes("p");
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].0 == "WriteDenied" && notes[0].1.contains(words),
            "{notes:?}"
        );

        world.end_fault(denied);
        world.start_kubelet(Kubelet::default());
        world.wait(16 * 60).await;
        assert_eq!(
            (world.phase("p").as_str(), world.image_changes("p")),
            ("Succeeded", 1)
        );
        assert_eq!(world.events("p"), ["WriteDenied", "SidecarEnded"]);
        world.assert_quiet().await;
    }
}

/// The API server keeps Events for an hour, and commands know from them what is denied.
#[tokio::test(start_paused = true)]
async fn a_denial_that_goes_on_is_told_again_when_its_event_is_gone() {
    for code in [403, 503] {
        let (world, _life) = World::with_pod("OnFailure").await;
        world.patch_fault(Effect::reply(code).message("no image is signed"));
        world.ends("p", "main", 0).await;
        world.wait(3500).await;
        assert_eq!(world.events("p"), ["WriteDenied"]);
        for _ in 0..3 {
            world.wait(1200).await;
            world.delete_events().await;
        }
        world.wait(80 * 60).await;
        let told = world.events("p");
        assert!((1..=2).contains(&told.len()), "{code}: {told:?}");
        assert!(told.iter().all(|told| told == "WriteDenied"), "{told:?}");
    }
}

/// A webhook that is down concerns the images of pods, and not their phases.
#[tokio::test(start_paused = true)]
async fn a_swap_that_is_not_applied_for_a_minute_gives_way_to_the_phase_and_is_told_once() {
    let words = "the webhook took too long";
    for broken in [
        Effect::from(Effect::reply(503).message(words)),
        Effect::from(Effect::reply(429).message(words)),
        Effect::Drop,
    ] {
        let quotes = !matches!(broken, Effect::Drop);
        let world = World::new();
        world.run_pod(&pod("p", "Never")).await;
        world.fault(broken, |rule| {
            rule.verb(Verb::Patch).resource("pods").subresource("")
        });
        let _life = world.start_controller_that_may_finish();
        world.wait(1).await;
        world.ends("p", "main", 0).await;
        world.wait(55).await;
        assert_eq!(
            (world.phase("p").as_str(), world.notes("p").len()),
            ("Running", 0)
        );
        world.wait(60).await;
        assert_eq!(
            (world.phase("p").as_str(), world.image("p").as_str()),
            ("Succeeded", "side:1")
        );
        let notes = world.notes("p");
        assert_eq!(
            notes
                .iter()
                .map(|(reason, _)| &**reason)
                .collect::<Vec<_>>(),
            ["WriteDenied", "PhaseWritten"],
            "{notes:?}"
        );
        assert!(
            notes[0].1.starts_with("the API server has not done for")
                && notes[0].1.contains("to change the image of side: ")
                && (!quotes || notes[0].1.contains(words)),
            "{notes:?}"
        );
    }
}

/// As where an API server lists old states of pods.
#[tokio::test(start_paused = true)]
async fn u196_a_swap_that_meets_another_pod_for_a_minute_gives_way_to_the_phase() {
    let world = World::new();
    world.run_pod(&pod("p", "Never")).await;
    world.fault(Effect::reply(409), |rule| {
        rule.verb(Verb::Patch).resource("pods").subresource("")
    });
    let _life = world.start_controller_that_may_finish();
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(120).await;
    let notes = world.notes("p");
    let told: Vec<_> = notes.iter().map(|(reason, _)| &**reason).collect();
    assert_eq!(told, ["WriteDenied", "PhaseWritten"], "{notes:?}");
    assert_eq!(
        (world.phase("p").as_str(), world.image("p").as_str()),
        ("Succeeded", "side:1")
    );
}

/// Whatever is refused, and for however long: no more than one write a minute.
#[tokio::test(start_paused = true)]
async fn writes_that_are_not_applied_without_end_are_told_once_and_rare() {
    let world = World::new();
    world.run_pod(&pod("p", "OnFailure")).await;
    let broken = world.patch_fault(Effect::reply(503).message("overloaded"));
    let life = world.start_controller_that_may_finish();
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(1800).await;
    let times = life.line.patched_at();
    let later: Vec<_> = times
        .iter()
        .filter(|at| **at - times[0] > Duration::from_secs(120))
        .collect();
    assert!((20..=30).contains(&later.len()), "{times:?}");
    assert!(
        later
            .windows(2)
            .all(|pair| *pair[1] - *pair[0] >= Duration::from_secs(59)),
        "{later:?}"
    );
    assert_eq!(world.events("p"), ["WriteDenied"]);
    world.end_fault(broken);
    world.start_kubelet(Kubelet::default());
    world.wait(90).await;
    assert_eq!(world.phase("p"), "Succeeded");
}

/// A webhook that was not reached, or roles that an API server does not know yet.
#[tokio::test(start_paused = true)]
async fn storm_a_lone_denial_costs_seconds_and_is_not_told() {
    for (code, times) in [(403, 1), (422, 2), (403, QUICK_DENIED_RETRIES as usize)] {
        let (world, _life) = World::with_pod("OnFailure").await;
        let denied = Effect::reply(code)
            .message("admission webhook \"images.example\" denied the request: no answer");
        world.fault(denied, |rule| {
            rule.verb(Verb::Patch).resource("pods").times(times)
        });
        world.start_kubelet(Kubelet::default());
        world.ends("p", "main", 0).await;
        world.wait(8).await;
        assert_eq!(
            (world.patches("p"), world.phase("p").as_str()),
            (times + 1, "Succeeded")
        );
        assert_eq!(world.events("p"), ["SidecarEnded"]);
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn t31_a_token_that_is_refused_for_a_while() {
    let (world, life, names) = with_pods(5).await;
    world.next_watch_fault(Effect::CloseWatch(0));
    let refused = world.fault(Effect::reply(401), |rule| rule);
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    let start = Instant::now();
    world.wait(45).await;
    for resource in ["pods", "jobs"] {
        let asked = life
            .line
            .sent()
            .iter()
            .filter(|sent| sent.at >= start && sent.uri.contains(resource))
            .count();
        assert!(asked <= 20, "{asked} requests for {resource} in 45 s");
    }
    world.end_fault(refused);
    world.start_kubelet(Kubelet::default());
    world.wait(60).await;
    assert_swapped_once(&world, &names);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t31_a_token_that_is_refused_for_writes_only() {
    let (world, _life) = World::with_pod("OnFailure").await;
    let refused = world.patch_fault(Effect::reply(401));
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(20).await;
    world.end_fault(refused);
    world.wait(60).await;
    assert_eq!(
        (world.phase("p").as_str(), world.image_changes("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}
