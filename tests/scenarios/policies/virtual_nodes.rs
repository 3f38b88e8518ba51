//! Policies on virtual nodes: one that replaces containers, and one on which only the phase ends a
//! pod.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::run::TimeOfDay;
use swaplet_testbed::virtual_node::{NodeOptions, OnUpdate, Profile, ProviderOptions, VirtualNode};

use super::{annotated, pod};
use crate::harness::{CONCURRENCY, SWAPLET, World};
use crate::objects::EXIT;

/// What ends by itself, and what does not.
const FLUSHES: &str = "run=12s";
const STAYS: &str = "run=forever";

/// A virtual node that says of itself what it is.
async fn world_with(on_update: OnUpdate, class: &str) -> World {
    let world = World::new();
    let provider = ProviderOptions {
        on_update,
        ..ProviderOptions::default()
    };
    let options = NodeOptions {
        labels: [("swaplet.io/node-class".to_owned(), class.to_owned())].into(),
        ..NodeOptions::new("vk", Profile::Virtual(provider))
    };
    let (client, clock) = (world.server.client_as("node"), world.server.clock());
    tokio::spawn(VirtualNode::new(client, clock, options).run());
    // The world would make an ordinary one.
    while world.server.peek("nodes", "", "vk").is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world
}

/// A main container that runs for 2 s, a collector and a proxy.
async fn create(world: &World, name: &str, collector: &str, annotations: Value) {
    let mut pod = annotated(pod(name, &["log", "proxy"]), annotations);
    for (nth, words) in ["run=2s", collector, STAYS].into_iter().enumerate() {
        pod["spec"]["containers"][nth]["args"] = json!([words, "term=0", "term-after=2s"]);
    }
    pod["spec"]["nodeName"] = "vk".into();
    pod["spec"]["restartPolicy"] = "OnFailure".into();
    world.create(&pod).await;
}

async fn create_all(world: &World) {
    let both = |more: Value| {
        let mut all = json!({"swaplet.io/sidecars": "log,proxy"});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        all
    };
    let order = "log=0,proxy=1";
    let ordered = json!({"swaplet.io/order": order});
    create(world, "ordered", STAYS, both(ordered)).await;
    let delayed = json!({"swaplet.io/delay": "30s"});
    create(world, "delayed", STAYS, both(delayed)).await;
    let waits = json!({"swaplet.io/order": order, "swaplet.io/wait-for-exit": "log=20s"});
    create(world, "flushes", FLUSHES, both(waits.clone())).await;
    create(world, "hangs", STAYS, both(waits)).await;
}

/// Which of the pods have ended, and how many patches each of them has got, in this order: ordered,
/// flushes, hangs, delayed.
fn seen(world: &World) -> [(bool, usize); 4] {
    ["ordered", "flushes", "hangs", "delayed"]
        .map(|name| (world.phase(name) == "Succeeded", world.patches(name)))
}

/// The main containers end 2 s after the start, and nothing is written while a sidecar has time left.
#[tokio::test(start_paused = true)]
async fn a_node_that_updates_ends_sidecars_in_order_and_in_time() {
    let world = world_with(OnUpdate::Replaces, "VirtualUpdates").await;
    let _life = world.start_controller_with_policies(0);
    create_all(&world).await;
    world.wait(5).await;
    assert_eq!(world.image_of("ordered", "log"), EXIT);
    assert_eq!(world.image_of("ordered", "proxy"), "proxy:1", "log stops");
    world.wait(15).await;
    let nothing = (false, 0);
    // The flush ended after 12 s, and the proxy at once.
    assert_eq!(seen(&world), [(true, 2), (true, 1), nothing, nothing]);
    world.wait(10).await;
    assert_eq!(seen(&world), [(true, 2), (true, 1), (true, 2), nothing]);
    world.wait(1).await;
    assert_eq!(seen(&world)[3], nothing);
    world.wait(7).await;
    assert_eq!(seen(&world)[3], (true, 1));
    world.assert_quiet().await;
}

/// Only the whole pod can be ended there.
#[tokio::test(start_paused = true)]
async fn an_inert_node_ends_the_pod_when_its_last_sidecar_is_due() {
    let world = world_with(OnUpdate::Nothing, "VirtualInert").await;
    let clock = world.server.clock();
    let _life = world.start(SWAPLET, CONCURRENCY, |settings| {
        settings.sidecar_policies = true;
        settings.time_of_day = TimeOfDay(Arc::new(move || clock.now()));
        settings.rules.allowed.finish = true;
    });
    create_all(&world).await;
    world.wait(20).await;
    let [ordered, flushes, hangs, delayed] = seen(&world);
    assert!(ordered.0 && flushes.0, "{ordered:?} {flushes:?}");
    assert_eq!([hangs, delayed], [(false, 0); 2]);
    world.wait(11).await;
    assert!(seen(&world)[2].0);
    assert_eq!(seen(&world)[3], (false, 0));
    world.wait(9).await;
    assert!(seen(&world).iter().all(|(ended, _)| *ended));
    for name in ["ordered", "flushes", "hangs", "delayed"] {
        assert_eq!(world.image_of(name, "proxy"), "proxy:1", "{name}");
    }
    // The Event of the end waits for what the node may still report.
    world.wait(60).await;
    for name in ["ordered", "flushes", "hangs", "delayed"] {
        let events = world.events(name);
        assert!(
            events.iter().any(|event| event.contains("SidecarEnded")),
            "{events:?}"
        );
    }
    world.assert_quiet().await;
}
