//! Sidecars that policies and annotations name: from the policy to the end, over several lives.

mod ends;
mod hidden;
mod unseen;
mod virtual_nodes;

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Recorded, Verb};

use super::harness::{CONCURRENCY, SWAPLET, World};
use super::node::Kubelet;
use super::objects::{EXIT, main_container, pod_of};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/swaplet.io/v1alpha1/sidecarpolicies";

pub(super) async fn install(world: &World) {
    for (kind, plural, scope) in [
        ("SidecarPolicy", "sidecarpolicies", "Cluster"),
        (
            "NamespacedSidecarPolicy",
            "namespacedsidecarpolicies",
            "Namespaced",
        ),
    ] {
        let version = json!({"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.swaplet.io")},
            "spec": {"group": "swaplet.io", "scope": scope, "names": {"kind": kind, "plural": plural}, "versions": [version]}});
        world.request(Method::POST, CRDS, JSON, &crd).await;
    }
}

pub(super) async fn apply(world: &World, name: &str, sidecars: Value) {
    let policy = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy", "metadata": {"name": name},
        "spec": {"ownerKinds": ["None"], "sidecars": sidecars}});
    world.request(Method::POST, POLICIES, JSON, &policy).await;
}

fn plain(name: &str) -> Value {
    json!({"name": name, "image": format!("{name}:1")})
}

pub(super) fn pod(name: &str, beside: &[&str]) -> Value {
    let mut containers = vec![main_container()];
    containers.extend(beside.iter().map(|name| plain(name)));
    pod_of(name, "Never", containers)
}

fn annotated(mut pod: Value, annotations: Value) -> Value {
    pod["metadata"]["annotations"] = annotations;
    pod
}

fn status(world: &World) -> Value {
    world
        .server
        .peek("sidecarpolicies.swaplet.io", "", "rules")
        .unwrap()["status"]
        .clone()
}

/// The pod is there before the policy: nobody had kept it.
#[tokio::test(start_paused = true)]
async fn a_policy_ends_sidecars_that_nobody_marked_and_its_status_says_so() {
    let world = World::new();
    install(&world).await;
    world.start_kubelet(Kubelet::default());
    let life = world.start_controller_with_policies(0);
    world.run_pod(&pod("p", &["istio-proxy"])).await;
    world.wait(60).await;
    assert_eq!(life.pods_kept(), 0);
    apply(
        &world,
        "rules",
        json!([{"preset": "istio"}, {"preset": "isto"}]),
    )
    .await;
    world.wait(30).await;
    assert_eq!(status(&world)["matched"], 1);
    assert_eq!(status(&world)["conditions"][0]["reason"], "PartlyAccepted");
    assert!(
        status(&world)["problems"][0]
            .as_str()
            .unwrap()
            .contains("\"isto\"")
    );
    world.ends("p", "main", 0).await;
    world.wait(30).await;
    assert_eq!(world.phase("p"), "Succeeded");
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    let ends = "swaplet_sidecar_ends_total{method=\"swap\",exit_code=";
    let counted = |code: &str| life.sample(&format!("{ends}\"{code}\"}}"));
    let all = ["0", "137", "143", "other", "unseen"].map(counted);
    assert_eq!(all.into_iter().flatten().sum::<f64>(), 1.0, "{all:?}");
    let pods = "swaplet_mains_end_to_pod_end_seconds_count{method=\"swap\",class=\"Kubelet\"}";
    assert_eq!(life.sample(pods), Some(1.0));
    assert_eq!(
        (&status(&world)["matched"], &status(&world)["ended"]),
        (&json!(0), &json!(1))
    );
    world.assert_quiet().await;
}

/// Who has written one that comes to nothing sees why.
#[tokio::test(start_paused = true)]
async fn a_policy_that_another_outranks_says_so_in_its_status() {
    let world = World::new();
    install(&world).await;
    apply(&world, "rules", json!([{"name": "log"}])).await;
    apply(&world, "first", json!([{"name": "*og"}])).await;
    let _life = world.start_controller_with_policies(0);
    world.run_pod(&pod("p", &["log"])).await;
    world.wait(15).await;
    let outranked = json!([{"reason": "Outranked", "count": 1}]);
    assert_eq!(
        (&status(&world)["matched"], &status(&world)["refused"]),
        (&json!(0), &outranked)
    );
    let first = world
        .server
        .peek("sidecarpolicies.swaplet.io", "", "first")
        .unwrap();
    assert_eq!(
        (&first["status"]["matched"], &first["status"]["refused"]),
        (&json!(1), &json!([]))
    );
}

/// As of another installation, which works in other namespaces and counts their pods.
#[tokio::test(start_paused = true)]
async fn a_status_that_somebody_else_writes_each_time_is_written_once_a_minute() {
    let world = World::new();
    install(&world).await;
    apply(&world, "rules", json!([{"name": "log"}])).await;
    world.run_pod(&pod("p", &["log"])).await;
    let _life = world.start_controller_with_policies(0);
    world.wait(60).await;
    let (path, none) = (
        format!("{POLICIES}/rules/status"),
        json!({"status": {"matched": 0}}),
    );
    let mut written = 0;
    for _ in 0..600 {
        if status(&world)["matched"] == 1 {
            written += 1;
            world.request(Method::PATCH, &path, MERGE, &none).await;
        }
        world.wait(1).await;
    }
    assert!((5..=11).contains(&written), "{written} in ten minutes");
    // What is new is told at once.
    world.run_pod(&pod("q", &["log"])).await;
    world.wait(11).await;
    assert_eq!(status(&world)["matched"], 2);
}

/// And once a minute is enough for whoever may not write it.
#[tokio::test(start_paused = true)]
async fn u143_a_status_that_is_denied_is_written_once_a_minute() {
    for code in [403, 503] {
        let world = World::new();
        install(&world).await;
        apply(&world, "rules", json!([{"name": "log"}])).await;
        world.run_pod(&pod("p", &["log"])).await;
        let denied = world.fault(Effect::reply(code), |rule| {
            rule.verb(Verb::Patch).resource("sidecarpolicies")
        });
        let _life = world.start_controller_with_policies(0);
        world.wait(600).await;
        let tries = world.server.faults().hits(denied);
        assert!((5..=11).contains(&tries), "{code}: {tries} in ten minutes");
        world.end_fault(denied);
        world.wait(71).await;
        assert_eq!(status(&world)["matched"], 1);
    }
}

/// Each counts the pods of its own namespaces.
#[tokio::test(start_paused = true)]
async fn of_two_installations_one_writes_the_status_of_a_policy_of_the_cluster() {
    let world = World::new();
    install(&world).await;
    world.create_namespace("other").await;
    apply(&world, "rules", json!([{"name": "log"}])).await;
    world.run_pod(&pod("p", &["log"])).await;
    let start = |own: &'static str, namespace: &'static str| {
        world.start(SWAPLET, CONCURRENCY, |settings| {
            settings.sidecar_policies = true;
            settings.state_namespace = Some(own.to_owned());
            settings.namespaces = [namespace].into_iter().collect();
        })
    };
    let told = || {
        let status = status(&world);
        let of = |field: &str| status[field].clone();
        (of("installation"), of("matched"), of("observedGeneration"))
    };
    let _second = start("b", "other");
    world.wait(30).await;
    assert_eq!(told(), (json!("b"), json!(0), json!(1)));
    let first = start("a", "default");
    world.wait(70).await;
    assert_eq!(told(), (json!("a"), json!(1), json!(1)));
    let writes = || {
        let is_write = |request: &&Recorded| {
            request.verb == Verb::Patch && request.resource == "sidecarpolicies"
        };
        world.requests().iter().filter(is_write).count()
    };
    let before = writes();
    world.wait(600).await;
    assert_eq!(writes(), before);

    first.kill();
    let changed = json!({"spec": {"sidecars": [{"name": "log"}, {"name": "proxy"}]}});
    let path = format!("{POLICIES}/rules");
    world.request(Method::PATCH, &path, MERGE, &changed).await;
    world.wait(590).await;
    assert_eq!(told(), (json!("a"), json!(1), json!(1)));
    world.wait(30).await;
    assert_eq!(told(), (json!("b"), json!(0), json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_gone_ends_nothing() {
    let world = World::new();
    install(&world).await;
    apply(
        &world,
        "rules",
        json!([{"name": "log", "delaySeconds": 60}]),
    )
    .await;
    let _life = world.start_controller_with_policies(0);
    world.run_pod(&pod("p", &["log"])).await;
    world.wait(5).await;
    world.ends("p", "main", 0).await;
    world.wait(50).await;
    world
        .request(
            Method::DELETE,
            &format!("{POLICIES}/rules"),
            JSON,
            &json!({}),
        )
        .await;
    world.wait(600).await;
    assert_eq!(world.patches("p"), 0);
}

/// Each step has one patch, and the next one waits for the end of the one before.
#[tokio::test(start_paused = true)]
async fn an_uploader_ends_before_the_proxy_through_which_it_uploads() {
    let world = World::new();
    install(&world).await;
    let rules = json!([{"name": "proxy", "order": 1}, {"name": "uploader"}, {"name": "log"}]);
    apply(&world, "rules", rules).await;
    let life = world.start_controller_with_policies(0);
    world
        .run_pod(&pod("p", &["proxy", "uploader", "log"]))
        .await;
    world.wait(5).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    let images = ["proxy", "uploader", "log"].map(|name| world.image_of("p", name));
    assert_eq!(images, ["proxy:1", EXIT, EXIT]);
    life.kill();
    let _next = world.start_controller_with_policies(0);
    world.wait(20).await;
    assert_eq!(world.image_of("p", "proxy"), "proxy:1");
    world.start_kubelet(Kubelet::default());
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 2)
    );
}

/// The next life knows only what the node reports.
#[tokio::test(start_paused = true)]
async fn a_delay_is_kept_to_over_the_end_of_a_life() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    let life = world.start_controller_with_policies(0);
    let annotations = json!({"swaplet.io/sidecars": "log", "swaplet.io/delay": "60s"});
    world
        .run_pod(&annotated(pod("p", &["log"]), annotations))
        .await;
    world.wait(5).await;
    world.ends_now("p", "main", 0).await;
    world.wait(40).await;
    life.kill();
    let _next = world.start_controller_with_policies(0);
    world.wait(19).await;
    assert_eq!(world.patches("p"), 0, "59 s after the end");
    tokio::time::sleep(Duration::from_millis(3000)).await;
    assert_eq!(world.patches("p"), 1, "62 s after the end");
    world.wait(5).await;
    assert_eq!(world.phase("p"), "Succeeded");
}

/// A flush that ends in time is not cut short, and one that hangs is ended.
#[tokio::test(start_paused = true)]
async fn a_sidecar_may_end_by_itself_until_its_deadline() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    let _life = world.start_controller_with_policies(0);
    let annotations = json!({"swaplet.io/sidecars": "log", "swaplet.io/wait-for-exit": "log=30s"});
    for name in ["p", "hung"] {
        world
            .run_pod(&annotated(pod(name, &["log"]), annotations.clone()))
            .await;
    }
    world.wait(5).await;
    for name in ["p", "hung"] {
        world.ends_now(name, "main", 0).await;
    }
    world.wait(10).await;
    world.ends("p", "log", 0).await;
    world.wait(10).await;
    assert_eq!(
        (
            world.phase("p").as_str(),
            world.patches("p"),
            world.patches("hung")
        ),
        ("Succeeded", 0, 0)
    );
    world.wait(20).await;
    assert_eq!(
        (world.phase("hung").as_str(), world.patches("hung")),
        ("Succeeded", 1)
    );
}
