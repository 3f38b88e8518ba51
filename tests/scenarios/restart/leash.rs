//! `--restart` restarts nothing as long as the leash is not seen, unless that is asked for.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use swaplet_controller::frame::clock::TimeOfDay;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_testbed::apiserver::{Effect, Verb};

use super::world::{Restarts, app};
use crate::harness::{CONCURRENCY, Life, SWAPLET, World};
use crate::rights::{ALL, Missing};

const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn start(world: &Restarts) -> Life {
    let clock = world.server.clock();
    world.start(SWAPLET, CONCURRENCY, |settings| {
        let time_of_day = TimeOfDay(Arc::new(move || clock.now()));
        settings.restart = Some(RestartSettings {
            time_of_day,
            on_config: None,
            readiness_gates: false,
            park: None,
            leash: Some("mine".to_owned()),
        });
    })
}

/// Makes one of the bindings of a leash.
pub async fn bind(world: &World, name: &str, actions: Value) {
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": actions}});
    world
        .request(Method::POST, BINDINGS, "application/json", &object)
        .await;
}

/// Nothing is restarted, and `/readyz` says why.
#[track_caller]
fn refuses(world: &Restarts, life: &Life, words: &[&str]) {
    let ready = life.health.ready().unwrap();
    for word in words
        .iter()
        .chain(&["containers are not restarted: ", "--restart-without-leash"])
    {
        assert!(ready.contains(word), "{word}: {ready}");
    }
    assert_eq!(
        (world.restarts("app"), &world.get("r")["status"]),
        (0, &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn a2_nothing_is_restarted_until_both_bindings_are_seen() {
    let world = Restarts::with_pod("Always").await;
    world.request("r", &app()).await;
    let life = start(&world);
    world.wait(60).await;
    refuses(&world, &life, &["mine-pods", "deploy/leash-parked.yaml"]);
    bind(&world, "mine-pods", json!(["Deny", "Audit"])).await;
    world.wait(60).await;
    refuses(&world, &life, &["mine-parked"]);
    bind(&world, "mine-parked", json!(["Deny"])).await;
    world.wait(60).await;
    assert_eq!(
        (life.health.ready(), world.restarts("app")),
        (Ok("ok".to_owned()), 1)
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a2_a_binding_that_does_not_deny_is_none() {
    let world = Restarts::with_pod("Always").await;
    world.request("r", &app()).await;
    bind(&world, "mine-pods", json!(["Warn", "Audit"])).await;
    bind(&world, "mine-parked", json!(["Deny"])).await;
    let life = start(&world);
    world.wait(60).await;
    let ready = life.health.ready().unwrap();
    assert!(ready.contains("mine-pods does not deny"), "{ready}");
    assert_eq!(world.restarts("app"), 0);
}

#[tokio::test(start_paused = true)]
async fn a2_a_leash_that_may_not_be_looked_for_counts_as_absent() {
    let world = Restarts::with_pod("Always").await;
    world.request("r", &app()).await;
    bind(&world, "mine-pods", json!(["Deny"])).await;
    bind(&world, "mine-parked", json!(["Deny"])).await;
    let denied = Missing::new(Verb::Get, "validatingadmissionpolicybindings", ALL).begins(&world);
    let life = start(&world);
    world.wait(60).await;
    refuses(&world, &life, &["swaplet-restart-leash", "cannot get"]);
    world.end_fault(denied);
    let slow = world.fault(Effect::reply(503), |rule| {
        rule.resource("validatingadmissionpolicybindings")
    });
    world.wait(60).await;
    assert_eq!(world.restarts("app"), 0);
    world.end_fault(slow);
    world.wait(60).await;
    assert_eq!(world.restarts("app"), 1);
}
