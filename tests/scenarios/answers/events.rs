//! Events that cannot be written.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::with_pods;
use crate::harness::World;
use crate::node::Kubelet;
use crate::objects::{EXIT, pod_of};

const DOOMED: &str = "/api/v1/namespaces/doomed/pods/p";

/// A pod in a namespace of its own, whose main container has ended.
async fn run_doomed(world: &World) {
    world.create_namespace("doomed").await;
    let mut doomed = pod_of(
        "p",
        "OnFailure",
        vec![
            crate::objects::main_container(),
            crate::objects::sidecar("side"),
        ],
    );
    doomed["metadata"]["namespace"] = "doomed".into();
    world.create(&doomed).await;
    doomed_is(world, crate::node::running()).await;
}

/// It runs, with its sidecar in this state.
async fn doomed_is(world: &World, side: Value) {
    let pod = world.find("doomed", "p").unwrap();
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let statuses = [
        crate::node::status(&containers[0], crate::node::terminated(0, 0)),
        crate::node::status(&containers[1], side),
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
    // Those of a namespace that gets no answers are sent one after the other.
    world.wait(300).await;
    assert_eq!(world.count(Verb::Create), 30);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn u37_events_of_a_namespace_that_hang_delay_none_of_another() {
    let (world, _life, names) = with_pods(30).await;
    run_doomed(&world).await;
    world.fault(Effect::Hang, |rule| {
        rule.resource("events").namespace("default")
    });
    world.start_kubelet(Kubelet::default());
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(2).await;
    let words = format!("Back-off pulling image \"{EXIT}\"");
    let pulls = json!({"waiting": {"reason": "ImagePullBackOff", "message": words}});
    doomed_is(&world, pulls).await;
    world.wait(2).await;
    let events = world.server.peek_all("events");
    let mut namespaces = events.iter().map(|event| &event["metadata"]["namespace"]);
    assert!(namespaces.any(|namespace| namespace == "doomed"));
}

/// A webhook that refuses one Event has answered: the others of the namespace are sent as before.
#[tokio::test(start_paused = true)]
async fn events_that_are_refused_hold_up_no_others_of_their_namespace() {
    let (world, _life, names) = with_pods(30).await;
    world.fault(Effect::reply(422), |rule| rule.resource("events").times(1));
    world.fault(Effect::Delay(Duration::from_secs(5)), |rule| {
        rule.resource("events")
    });
    world.start_kubelet(Kubelet::default());
    world.ends(&names[0], "main", 0).await;
    world.wait(10).await;
    assert_eq!((world.count(Verb::Create), world.events("p").len()), (1, 0));
    for name in &names[1..] {
        world.ends(name, "main", 0).await;
    }
    // Seven at once, which take 5 s.
    world.wait(20).await;
    let sent = world.server.peek_all("events").len();
    assert!(sent >= 14, "{sent}");
}
