//! Policies that cannot be listed when the controller starts.

use http::Method;
use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Verb};

use super::{apply, install};
use crate::harness::World;
use crate::node::Kubelet;
use crate::objects::{main_container, pod_of, sidecar};

/// A pod whose collector is marked, and whose main container has ended.
async fn ended(world: &World) {
    world
        .run_pod(&pod_of(
            "p",
            "Never",
            vec![main_container(), sidecar("log")],
        ))
        .await;
    world.ends_now("p", "main", 0).await;
}

/// The delay is said by a policy alone, and the pod was read before it was known.
#[tokio::test(start_paused = true)]
async fn until_they_are_listed_no_sidecar_is_ended() {
    for resource in ["sidecarpolicies", "namespacedsidecarpolicies"] {
        let world = World::new();
        install(&world).await;
        let rules = json!([{"name": "log", "delaySeconds": 120}]);
        apply(&world, "rules", rules).await;
        world.start_kubelet(Kubelet::default());
        ended(&world).await;
        let fault = world.fault(Effect::reply(503), |rule| {
            rule.verb(Verb::List).resource(resource)
        });
        let life = world.start_controller_with_policies(0);
        world.wait(30).await;
        assert_eq!(world.patches("p"), 0, "{resource}");
        assert_eq!(
            life.sample("swaplet_pods{reason=\"PoliciesUnseen\"}"),
            Some(1.0)
        );
        world.end_fault(fault);
        world.wait(85).await;
        assert_eq!(world.patches("p"), 0, "{resource}: by the policy");
        assert_eq!(life.health.ready(), Ok("ok".to_owned()));
        world.wait(10).await;
        assert_eq!(world.phase("p"), "Succeeded", "{resource}");
    }
}

/// A policy that asks for labels of namespaces is not known before these are.
#[tokio::test(start_paused = true)]
async fn until_the_labels_of_namespaces_are_listed_no_sidecar_is_ended() {
    let world = World::new();
    install(&world).await;
    let policy = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy", "metadata": {"name": "rules"},
        "spec": {"ownerKinds": ["None"], "namespaceSelector": {}, "sidecars": [{"name": "log", "delaySeconds": 120}]}});
    world
        .request(Method::POST, super::POLICIES, super::JSON, &policy)
        .await;
    world.start_kubelet(Kubelet::default());
    ended(&world).await;
    let fault = world.fault(Effect::reply(503), |rule| {
        rule.verb(Verb::List).resource("namespaces")
    });
    let _life = world.start_controller_with_policies(0);
    world.wait(30).await;
    world.end_fault(fault);
    world.wait(85).await;
    assert_eq!(world.patches("p"), 0);
    world.wait(10).await;
    assert_eq!(world.phase("p"), "Succeeded");
}

/// An installation without the right to see policies must not leave Jobs hanging for ever.
#[tokio::test(start_paused = true)]
async fn where_they_can_never_be_listed_marked_sidecars_end_after_a_minute_and_it_is_said() {
    for effect in [Effect::from(Effect::reply(403)), Effect::Hang] {
        let world = World::new();
        install(&world).await;
        let rules = json!([{"name": "log", "delaySeconds": 3600}]);
        apply(&world, "rules", rules).await;
        world.start_kubelet(Kubelet::default());
        ended(&world).await;
        world.fault(effect.clone(), |rule| {
            rule.verb(Verb::List).resource("sidecarpolicies")
        });
        let life = world.start_controller_with_policies(0);
        world.wait(55).await;
        assert_eq!(world.patches("p"), 0, "{effect:?}");
        world.wait(15).await;
        assert_eq!(world.phase("p"), "Succeeded", "{effect:?}");
        match life.health.ready() {
            Ok(ready) => assert!(
                ready.contains("SidecarPolicies cannot be watched"),
                "{ready}"
            ),
            Err(stale) => assert!(
                stale.contains("no response on the watch of sidecarpolicies"),
                "{stale}"
            ),
        }
    }
}
