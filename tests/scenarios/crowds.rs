//! Many pods at once.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, RuleId, Verb};
use tokio::time::sleep;

use super::harness::{Life, World};
use super::node::{running, status, terminated};
use super::objects::{main_container, pod, sidecar};

const NAMESPACES: [&str; 4] = ["red", "green", "blue", "grey"];
/// Ten thousand in all; without optimisation it would take a minute of real time, so there it is
/// less than a tenth of that.
const PODS_EACH: usize = if cfg!(debug_assertions) { 200 } else { 2500 };
const CONCURRENCY: usize = 16;

pub async fn create(world: &World, namespace: &str, name: &str) {
    let mut pod = pod(name, "OnFailure");
    pod["metadata"]["namespace"] = namespace.into();
    world.create(&pod).await;
}

pub async fn main_ends(world: &World, namespace: &str, name: &str) {
    let statuses = json!([
        status(&main_container(), terminated(0, 0)),
        status(&sidecar("side"), running())
    ]);
    let place = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    world
        .set_status_at(
            &place,
            json!({"phase": "Running", "containerStatuses": statuses}),
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn t27_a_crowd_of_pods_finishes_within_a_second() {
    let world = World::new();
    for namespace in NAMESPACES {
        world.create_namespace(namespace).await;
        for nth in 0..PODS_EACH {
            create(&world, namespace, &format!("p{nth}")).await;
        }
    }
    create(&world, "default", "lone").await;
    let life = world.start_controller_as("swaplet", CONCURRENCY);
    world.wait(1).await;
    world.patch_fault(Effect::Delay(Duration::from_millis(100)));
    for nth in 0..PODS_EACH {
        for namespace in NAMESPACES {
            main_ends(&world, namespace, &format!("p{nth}")).await;
        }
    }
    // Between two rounds of answers.
    sleep(Duration::from_millis(1050)).await;
    assert!(world.count(Verb::Patch) < PODS_EACH, "no crowd any more");

    // The pod of another tenant does not wait for the crowd before it.
    let before = world.count(Verb::Patch);
    main_ends(&world, "default", "lone").await;
    let all = NAMESPACES.len() * PODS_EACH + 1;
    while world.count(Verb::Patch) < all {
        world.wait(5).await;
    }
    let patches = world
        .requests()
        .into_iter()
        .filter(|request| request.verb == Verb::Patch);
    let turn = patches
        .skip(before)
        .position(|patch| patch.name == "lone")
        .unwrap();
    assert!(
        turn <= NAMESPACES.len() + 1,
        "the lone pod came as number {turn}"
    );
    assert!(life.line.most_under_way() <= CONCURRENCY);

    world.wait(1).await;
    assert_eq!(world.server.peek_all("events").len(), 0);
    // Nobody plays the node: after a minute and a half each pod is told of.
    world.wait(120).await;
    assert_eq!(world.server.peek_all("events").len(), all);
    let swapped = |pod: &Value| pod["metadata"]["generation"] == 2;
    assert!(world.server.peek_all("pods").iter().all(|pod| swapped(pod)));
    assert_eq!(
        (world.count(Verb::Patch), world.count(Verb::Create)),
        (all, all)
    );
    world.assert_quiet().await;
}

fn swapped(world: &World, namespace: &str) -> usize {
    let pods = world.server.peek_all("pods");
    let is_swapped = |pod: &&Value| {
        pod["metadata"]["namespace"] == namespace && pod["metadata"]["generation"] == 2
    };
    pods.iter().map(|pod| &**pod).filter(is_swapped).count()
}

/// Pods of two tenants, whose main containers end while writes of the first one meet a fault.
async fn beside(fault: impl Into<Effect>) -> (World, RuleId, Life) {
    let world = World::new();
    for namespace in ["red", "green"] {
        world.create_namespace(namespace).await;
        for nth in 0..PODS_EACH {
            create(&world, namespace, &format!("p{nth}")).await;
        }
    }
    let life = world.start_controller_as("swaplet", CONCURRENCY);
    world.wait(1).await;
    let rule = world.fault(fault, |rule| {
        rule.verb(Verb::Patch).resource("pods").namespace("red")
    });
    for nth in 0..PODS_EACH {
        for namespace in ["red", "green"] {
            main_ends(&world, namespace, &format!("p{nth}")).await;
        }
    }
    (world, rule, life)
}

/// The API server passes on what a webhook answers.
#[tokio::test(start_paused = true)]
async fn a_pause_that_the_webhook_of_a_namespace_asks_for_holds_up_no_other() {
    let busy = Effect::reply(429).retry_after(30).message(
        "admission webhook \"policies.example.com\" denied the request: too many requests",
    );
    let (world, _rule, _life) = beside(busy).await;
    world.wait(5).await;
    assert_eq!(
        (swapped(&world, "red"), swapped(&world, "green")),
        (0, PODS_EACH)
    );
}

/// As behind a webhook for one namespace that does not answer.
#[tokio::test(start_paused = true)]
async fn a_namespace_whose_writes_hang_holds_up_no_other() {
    let (world, hangs, _life) = beside(Effect::Hang).await;
    // The first writes that hang have not failed yet.
    world.wait(5).await;
    assert_eq!(
        (swapped(&world, "red"), swapped(&world, "green")),
        (0, PODS_EACH)
    );

    // And nothing of that is left for pods that end later.
    world.wait(60).await;
    create(&world, "green", "late").await;
    world.wait(1).await;
    main_ends(&world, "green", "late").await;
    world.wait(1).await;
    assert_eq!(swapped(&world, "green"), PODS_EACH + 1);

    world.end_fault(hangs);
    world.wait(180).await;
    assert_eq!(swapped(&world, "red"), PODS_EACH);
}
