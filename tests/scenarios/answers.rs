//! Answers of the API server to writes: lost, late, busy, broken, forbidding.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_core::terminate::memory::denials::QUICK_DENIED_RETRIES;
use swaplet_testbed::apiserver::{Effect, Verb};
use tokio::time::{Instant, sleep};

use super::harness::{CONCURRENCY, Life, World};
use super::node::Kubelet;
use super::objects::{EXIT, pod, pod_of};

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

#[tokio::test(start_paused = true)]
async fn t3_reply_lost_after_the_patch_was_applied() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_patch_fault(Effect::ApplyThenDrop);
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t4_a_504_after_the_patch_was_applied_is_not_sent_again() {
    let (world, _life) = World::with_pod("Never").await;
    world.next_patch_fault(Effect::ApplyThenReply(Effect::reply(504)));
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
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
        assert!(
            names
                .iter()
                .all(|name| world.phase(name) == "Succeeded" && world.image_changes(name) == 1)
        );
        assert!(
            names
                .iter()
                .all(|name| world.events(name) == ["SidecarEnded"])
        );
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
    assert!(
        names
            .iter()
            .all(|name| world.phase(name) == "Succeeded" && world.patches(name) == 1)
    );
    assert!(
        names
            .iter()
            .all(|name| world.events(name) == ["SidecarEnded"])
    );
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
    assert!(
        names
            .iter()
            .all(|name| world.phase(name) == "Succeeded" && world.image_changes(name) == 1)
    );
    assert!(
        names
            .iter()
            .all(|name| world.events(name) == ["SidecarEnded"])
    );
    assert!(life.line.most_under_way() <= CONCURRENCY);
    world.assert_quiet().await;
}

const DOOMED: &str = "/api/v1/namespaces/doomed/pods/p";

/// A pod in a namespace of its own, whose main container has ended.
async fn run_doomed(world: &World) {
    world.create_namespace("doomed").await;
    let mut doomed = pod_of(
        "p",
        "OnFailure",
        vec![
            super::objects::main_container(),
            super::objects::sidecar("side"),
        ],
    );
    doomed["metadata"]["namespace"] = "doomed".into();
    world.create(&doomed).await;
    doomed_is(world, super::node::running()).await;
}

/// It runs, with its sidecar in this state.
async fn doomed_is(world: &World, side: Value) {
    let pod = world.find("doomed", "p").unwrap();
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let statuses = [
        super::node::status(&containers[0], super::node::terminated(0, 0)),
        super::node::status(&containers[1], side),
    ];
    let status = json!({"phase": "Running", "containerStatuses": statuses});
    world.set_status_at(DOOMED, status).await;
}

#[tokio::test(start_paused = true)]
async fn t23_events_in_a_terminating_namespace_are_tried_once() {
    let world = World::new();
    run_doomed(&world).await;
    world.fault(Effect::Delay(Duration::from_secs(5)), |rule| {
        rule.resource("events")
    });
    let life = world.start_controller();
    world.wait(1).await;
    let words = format!("Back-off pulling image \"{EXIT}\"");
    let pulls = json!({"waiting": {"reason": "ImagePullBackOff", "message": words}});
    doomed_is(&world, pulls).await;
    world.wait(1).await;
    world
        .try_request(
            Method::DELETE,
            "/api/v1/namespaces/doomed",
            "application/json",
            &json!({}),
        )
        .await
        .unwrap();
    world.wait(60).await;
    assert_eq!(
        (world.count(Verb::Patch), world.count(Verb::Create)),
        (1, 1)
    );
    assert_eq!(world.events("p"), [""; 0]);

    world
        .try_request(
            Method::DELETE,
            DOOMED,
            "application/json",
            &json!({"gracePeriodSeconds": 0}),
        )
        .await
        .unwrap();
    world.wait(5).await;
    assert!(
        world.find("doomed", "p").is_none()
            && world.server.peek("namespaces", "", "doomed").is_none()
    );
    assert_eq!(life.pods_kept(), 0);
    world.assert_quiet().await;
}

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
    assert!(
        names
            .iter()
            .all(|name| world.phase(name) == "Succeeded" && world.image_changes(name) == 1)
    );
    assert!(
        names
            .iter()
            .all(|name| world.events(name) == ["SidecarEnded"])
    );
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

#[tokio::test(start_paused = true)]
async fn t32_events_are_forbidden_and_pods_end_all_the_same() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.fault(Effect::reply(403), |rule| rule.resource("events"));
    world.start_kubelet(Kubelet::default());
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(
        (world.events("p").len(), world.count(Verb::Create)),
        (0, 1),
        "each Event is tried once"
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t32_events_without_an_answer_do_not_delay_pods() {
    let (world, _life, names) = with_pods(30).await;
    world.fault(Effect::Hang, |rule| rule.resource("events"));
    world.start_kubelet(Kubelet::default());
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(5).await;
    assert!(
        names
            .iter()
            .all(|name| world.phase(name) == "Succeeded" && world.patches(name) == 1)
    );
    world.wait(120).await;
    assert_eq!(world.count(Verb::Create), 30);
    world.assert_quiet().await;
}
