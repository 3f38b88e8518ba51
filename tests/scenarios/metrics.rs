//! What `/metrics` says of what happens.

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::harness::{Life, World};
use super::node::Kubelet;
use super::objects::{PARK, pod_of, sidecar};

const SWAP: &str = r#"{method="swap",class="Kubelet"}"#;

impl Life {
    fn pods_for(&self, reason: &str) -> f64 {
        self.sample(&format!(r#"swaplet_pods{{reason="{reason}"}}"#))
            .unwrap_or_default()
    }

    fn oldest(&self) -> f64 {
        self.sample("swaplet_mains_done_oldest_seconds").unwrap()
    }

    fn watch_age(&self, resource: &str) -> Option<f64> {
        self.sample(&format!(
            r#"swaplet_watch_age_seconds{{resource="{resource}"}}"#
        ))
    }
}

/// Such a pod works, and no alert says that it is stuck.
#[tokio::test(start_paused = true)]
async fn u93_a_pod_of_sidecars_alone_waits_for_nobody() {
    let world = World::new();
    world
        .run_pod(&pod_of("p", "OnFailure", vec![sidecar("a"), sidecar("b")]))
        .await;
    let life = world.start_controller();
    world.wait(1200).await;
    assert_eq!((life.pods_for("OnlySidecars"), life.oldest()), (1.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_followed_from_its_mains_to_its_end() {
    let (world, life) = World::with_pod("OnFailure").await;
    assert_eq!((life.pods_for("MainsRunning"), life.oldest()), (1.0, 0.0));
    let busy = world.patch_fault(Effect::Hang);
    world.ends("p", "main", 0).await;
    world.wait(4).await;
    assert_eq!(life.sample("swaplet_writes_in_flight"), Some(1.0));
    assert_eq!((life.pods_for("MainsRunning"), life.pods_kept()), (0.0, 1));
    assert!((3.0..=4.0).contains(&life.oldest()), "{}", life.oldest());

    world.end_fault(busy);
    world.wait(60).await;
    assert_eq!(life.sample("swaplet_writes_in_flight"), Some(0.0));
    assert_eq!(
        life.sample(r#"swaplet_writes_total{resource="pods",outcome="failed"}"#),
        Some(1.0)
    );
    assert_eq!(
        life.sample(r#"swaplet_writes_total{resource="pods",outcome="applied"}"#),
        Some(1.0)
    );
    assert_eq!(
        life.sample(r#"swaplet_write_duration_seconds_count{resource="pods"}"#),
        Some(2.0)
    );
    assert_eq!(
        life.sample(&format!("swaplet_mains_done_to_write_seconds_count{SWAP}")),
        Some(1.0)
    );
    let waited = life
        .sample(&format!("swaplet_mains_done_to_write_seconds_sum{SWAP}"))
        .unwrap();
    assert!(
        (10.0..12.0).contains(&waited),
        "a write of 10 s without an answer, and a short pause: {waited}"
    );
    assert_eq!(
        life.pods_for("SwapPending") + life.pods_for("SwapWithoutEffect"),
        1.0
    );

    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(
        life.sample(&format!("swaplet_write_to_end_seconds_count{SWAP}")),
        Some(1.0)
    );
    let ended = life
        .sample(&format!("swaplet_write_to_end_seconds_sum{SWAP}"))
        .unwrap();
    assert!((45.0..60.0).contains(&ended), "{ended}");
    assert_eq!((life.pods_kept(), life.oldest()), (0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_left_to_somebody_else_does_not_count_as_waiting() {
    let (world, life) = World::with_pod("OnFailure").await;
    world.patch_fault(Effect::reply(403).message("pods \"p\" is forbidden"));
    world.ends("p", "main", 0).await;
    world.wait(100).await;
    assert!(life.oldest() > 90.0, "{}", life.oldest());
    world.ends("p", "side", 0).await;
    world.wait(1).await;
    assert_eq!(
        (life.pods_kept() <= 1, life.oldest()),
        (true, 0.0),
        "its sidecar has ended by itself"
    );
}

/// Any user may ask for a delay: no alert of the whole installation says that the pod is stuck.
#[tokio::test(start_paused = true)]
async fn u247_a_pod_that_waits_as_its_owner_asked_is_not_stuck() {
    let (world, life) = World::with_pod("OnFailure").await;
    let delay = json!({"metadata": {"annotations": {"swaplet.io/delay": "1h"}}});
    world.edit("p", &delay).await;
    world.patch_fault(Effect::reply(403).message("pods \"p\" is forbidden"));
    world.ends("p", "main", 0).await;
    world.wait(1200).await;
    assert_eq!((life.pods_for("SidecarDelayed"), life.oldest()), (1.0, 0.0));
    world.wait(3600).await;
    assert!(life.oldest() > 3600.0, "{}", life.oldest());
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_watch_stays_under_a_minute_and_grows_when_the_api_server_is_gone() {
    let (world, life) = World::with_pod("OnFailure").await;
    for _ in 0..600 {
        world.wait(1).await;
        for resource in ["pods", "jobs", "nodes"] {
            let age = life.watch_age(resource).unwrap();
            assert!(age < 60.0, "{resource}: {age}");
        }
    }
    let gone = world.fault(Effect::Hang, |rule| rule.verb(Verb::Watch).resource("pods"));
    let lists = world.fault(Effect::Hang, |rule| rule.verb(Verb::List).resource("pods"));
    world.wait(300).await;
    assert!(life.watch_age("pods").unwrap() > 250.0 && life.watch_age("jobs").unwrap() < 60.0);
    assert!(
        life.sample(r#"swaplet_watch_troubles_total{resource="pods"}"#)
            .unwrap()
            >= 3.0
    );
    world.end_fault(gone);
    world.end_fault(lists);
    world.wait(60).await;
    assert!(life.watch_age("pods").unwrap() < 60.0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_forbidden_has_no_age() {
    let world = World::new();
    world.fault(Effect::reply(403).message("nodes is forbidden"), |rule| {
        rule.resource("nodes")
    });
    let life = world.start_controller();
    world.wait(300).await;
    assert_eq!(
        (life.watch_age("nodes"), life.watch_age("pods").is_some()),
        (None, true)
    );
}

type Start = fn(&World) -> Life;

/// What runs, and one resource that it watches besides pods, Jobs and nodes.
fn others() -> [(Start, &'static str); 4] {
    [
        (
            World::start_restarting_controller,
            "containerrecreaterequests",
        ),
        (
            World::start_controller_on_config,
            "containerrecreaterequests",
        ),
        (
            |world| world.start_warming_controller(PARK, "default"),
            "imagepulljobs",
        ),
        (World::start_predownloading_controller, "deployments"),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_watch_beside_that_of_pods_that_dies_silently_makes_the_process_unready_until_it_lives_again()
 {
    for (start, resource) in others() {
        let world = World::new();
        world.create_namespace("state").await;
        let life = start(&world);
        for _ in 0..200 {
            world.wait(1).await;
            assert!(
                life.watch_age(resource).is_none_or(|age| age < 60.0),
                "{resource}: {:?}",
                life.watch_age(resource)
            );
        }
        assert!(
            life.watch_age(resource).is_some() && life.health.ready().is_ok(),
            "{resource}: {:?}",
            life.health.ready()
        );
        let faults = [Verb::Watch, Verb::List]
            .map(|verb| world.fault(Effect::Hang, |rule| rule.verb(verb).resource(resource)));
        world.wait(120).await;
        assert!(
            life.watch_age(resource).unwrap() > 60.0 && life.watch_age("pods").unwrap() < 60.0,
            "{resource}"
        );
        let why = life.health.ready().unwrap_err();
        assert!(
            why.starts_with(&format!("no response on the watch of {resource} for ")),
            "{why}"
        );
        faults.into_iter().for_each(|fault| world.end_fault(fault));
        world.wait(60).await;
        assert!(
            life.health.ready().is_ok(),
            "{resource}: {:?}",
            life.health.ready()
        );
        life.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_requests_that_dies_silently_hides_a_request_for_a_minute_at_most() {
    const REQUESTS: &str = "containerrecreaterequests";
    let world = World::new();
    let dead = world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Watch).resource(REQUESTS)
    });
    let _life = world.start_restarting_controller();
    world.wait(5).await;
    let spec = json!({"podName": "nobody", "containers": [{"name": "app"}]});
    let request = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": {"name": "r"}, "spec": spec});
    world
        .request(
            Method::POST,
            &format!("/apis/apps.kruise.io/v1alpha1/namespaces/default/{REQUESTS}"),
            "application/json",
            &request,
        )
        .await;
    let phase = || {
        world
            .server
            .peek(&format!("{REQUESTS}.apps.kruise.io"), "default", "r")
            .unwrap()["status"]["phase"]
            .clone()
    };
    world.wait(15).await;
    assert_eq!(phase(), Value::Null, "the watch is dead");
    world.end_fault(dead);
    world.wait(40).await;
    assert_eq!(phase(), "Completed");
}
