//! Namespaces whose policies, or whose labels, cannot be seen.

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::{JSON, POLICIES, install, pod};
use crate::harness::{Life, World};
use crate::node::Kubelet;

const PLURAL: &str = "namespacedsidecarpolicies";
const HERE: &str = "/apis/swaplet.io/v1alpha1/namespaces/default/namespacedsidecarpolicies";

/// A policy of the namespace `default`, where also all pods are.
async fn policy_of_namespace(world: &World, name: &str, sidecars: Value) {
    let policy = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "NamespacedSidecarPolicy", "metadata": {"name": name},
        "spec": {"ownerKinds": ["None"], "sidecars": sidecars}});
    world.request(Method::POST, HERE, JSON, &policy).await;
}

/// Works in `default`, and in a namespace of which everything is seen.
fn start(world: &World) -> Life {
    world.start("swaplet", 4, |settings| {
        settings.sidecar_policies = true;
        settings.namespaces = ["default", "other"].into_iter().collect();
    })
}

async fn ended(world: &World, name: &str, beside: &str) {
    world.run_pod(&pod(name, &[beside])).await;
    world.ends_now(name, "main", 0).await;
}

fn remarks(life: &Life) -> String {
    life.health.ready().unwrap_or_else(|stale| stale)
}

/// Also a policy that was seen before ends nothing while it is not; one of the cluster goes on.
#[tokio::test(start_paused = true)]
async fn a_policy_of_a_namespace_that_is_hidden_ends_nothing_there_until_it_is_seen() {
    let world = World::new();
    install(&world).await;
    world.create_namespace("other").await;
    policy_of_namespace(&world, "team", json!([{"name": "log"}])).await;
    super::apply(&world, "rules", json!([{"preset": "istio"}])).await;
    world.start_kubelet(Kubelet::default());
    let hide = || {
        world.fault(Effect::reply(403), |rule| {
            rule.verb(Verb::List).resource(PLURAL).namespace("default")
        })
    };
    let hidden = hide();
    let life = start(&world);
    ended(&world, "p", "log").await;
    ended(&world, "q", "istio-proxy").await;
    world.wait(600).await;
    assert_eq!(world.patches("p"), 0);
    assert_eq!(world.phase("q"), "Succeeded");
    let told = remarks(&life);
    assert!(
        told.contains("NamespacedSidecarPolicies of a namespace"),
        "{told}"
    );
    world.end_fault(hidden);
    world.wait(240).await;
    assert_eq!(world.phase("p"), "Succeeded");
    assert_eq!(remarks(&life), "ok");

    // Its next watch has to begin with a list.
    let hidden = hide();
    let expired = world.fault(Effect::ExpireWatch(0), |rule| {
        rule.verb(Verb::Watch).resource(PLURAL).namespace("default")
    });
    world.wait(600).await;
    ended(&world, "later", "log").await;
    world.wait(600).await;
    assert_eq!(world.patches("later"), 0);
    world.end_fault(hidden);
    world.end_fault(expired);
    world.wait(240).await;
    assert_eq!(world.phase("later"), "Succeeded");
}

/// The labels that a policy of the cluster asks for are seen of no namespace.
#[tokio::test(start_paused = true)]
async fn a_policy_that_asks_for_labels_of_namespaces_ends_nothing_while_these_are_not_seen() {
    let world = World::new();
    install(&world).await;
    let policy = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy", "metadata": {"name": "rules"},
        "spec": {"ownerKinds": ["None"], "namespaceSelector": {"matchExpressions": [{"key": "closed", "operator": "DoesNotExist"}]},
            "sidecars": [{"name": "log"}]}});
    world.request(Method::POST, POLICIES, JSON, &policy).await;
    world.start_kubelet(Kubelet::default());
    let forbidden = world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::List).resource("namespaces")
    });
    let life = world.start_controller_with_policies(0);
    ended(&world, "p", "log").await;
    world.wait(600).await;
    assert_eq!(world.patches("p"), 0);
    let told = remarks(&life);
    assert!(told.contains("labels of namespaces"), "{told}");
    world.end_fault(forbidden);
    world.wait(60).await;
    assert_eq!(world.phase("p"), "Succeeded");
}

/// A right to see policies is not one to ask which kinds there are.
#[tokio::test(start_paused = true)]
async fn u33_policies_count_where_nobody_may_ask_for_their_kinds() {
    let world = World::new();
    install(&world).await;
    super::apply(&world, "rules", json!([{"name": "log"}])).await;
    world.start_kubelet(Kubelet::default());
    world.fault(Effect::reply(403), |rule| rule.outside("/apis/swaplet.io"));
    let _life = world.start_controller_with_policies(0);
    ended(&world, "p", "log").await;
    world.wait(30).await;
    assert_eq!(world.phase("p"), "Succeeded");
    // A watch that fails is a reason to ask.
    world.fault(Effect::reply(500), |rule| {
        rule.verb(Verb::Watch).resource("sidecarpolicies").times(2)
    });
    world.wait(120).await;
    ended(&world, "q", "log").await;
    world.wait(30).await;
    assert_eq!(world.phase("q"), "Succeeded");
}
