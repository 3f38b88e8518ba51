//! Pods that are not ready before their containers are restarted: what others have written stays,
//! and nothing of ours is left.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Recorded, Verb};
use swaplet_testbed::virtual_node::Profile;

use super::world::{Restarts, pod};
use crate::harness::Life;
use crate::line::Patches;

/// The writes of such a restart: accept, Recreating, finalizer, entry, since when, write down,
/// swap, Recreating of the container, Completed, without the entry, without the finalizer, release.
const WRITES: usize = 12;
const OURS: &str = r#"{"userAgent":"ContainerRecreateRequest","key":"default/r"}"#;
const OTHER: &str = r#"{"userAgent":"Lifecycle","key":"another"}"#;

/// A pod with the readiness gate; `message` is who keeps it not ready.
async fn gated(message: &str) -> Restarts {
    let mut pod = pod("Always");
    pod["spec"]["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
    let world = Restarts::on(Profile::kubelet(), &pod).await;
    say(&world, message).await;
    world
}

/// Another user of the gate writes the message.
async fn say(world: &Restarts, message: &str) {
    let status = if message == "[]" { "True" } else { "False" };
    let body = json!({"status": {"conditions": [{"type": "KruisePodReady", "status": status, "message": message}]}});
    let path = "/api/v1/namespaces/default/pods/p/status";
    world
        .world
        .request(
            Method::PATCH,
            path,
            "application/strategic-merge-patch+json",
            &body,
        )
        .await;
}

/// Status and message of the gate.
fn gate(world: &Restarts) -> (String, String) {
    let pod = world.pod();
    let gate = pod["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "KruisePodReady")
        .unwrap();
    let text = |field: &str| gate[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

fn says(status: &str, entries: &[&str]) -> (String, String) {
    (status.to_owned(), format!("[{}]", entries.join(",")))
}

fn app() -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"unreadyGracePeriodSeconds": 5}})
}

#[tokio::test(start_paused = true)]
async fn crr_e3c_unready_before_and_until_it_is_over() {
    let world = gated("[]").await;
    let _life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(4).await;
    assert_eq!(
        (gate(&world), world.image_changes("p")),
        (says("False", &[OURS]), 0)
    );
    // Others come and go meanwhile, as OpenKruise does it.
    say(&world, &format!("[{OURS},{OTHER}]")).await;
    world.wait(16).await;
    let request = world.get("r");
    assert_eq!(
        (
            &request["status"]["phase"],
            &request["metadata"]["finalizers"]
        ),
        (&json!("Completed"), &json!(null))
    );
    assert_eq!(
        (gate(&world), world.restarts("app")),
        (says("False", &[OTHER]), 1)
    );
    let since =
        world.time(&request["metadata"]["annotations"]["crr.apps.kruise.io/unready-acquired"]);
    assert!(
        world
            .started("app", &world.pod())
            .duration_since(since)
            .as_secs()
            >= 5
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn killed_around_each_write() {
    for arrives in [false, true] {
        for passing in 0..WRITES {
            let world = gated(&format!("[{OTHER}]")).await;
            let (_, _next) = world
                .two_lives(
                    if arrives {
                        Patches::PassBeforeOneArrives(passing)
                    } else {
                        Patches::PassBeforeAllStay(passing)
                    },
                    &app(),
                    [12, 30],
                )
                .await;
            let when = format!("{passing} writes were answered, {arrives}");
            let request = world.get("r");
            assert_eq!(
                request["status"]["containerRecreateStates"][0]["phase"], "Succeeded",
                "{when}"
            );
            assert_eq!(
                (gate(&world), world.restarts("app")),
                (says("False", &[OTHER]), 1),
                "{when}"
            );
            assert!(request["metadata"]["finalizers"].is_null(), "{when}");
        }
    }
}

/// The finalizer holds the request until a controller is there again.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_deleted_while_no_controller_runs() {
    let world = gated("[]").await;
    let life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(3).await;
    life.kill();
    world.delete_request("r").await;
    world.wait(600).await;
    assert_eq!(
        (gate(&world), world.find("r").is_some()),
        (says("False", &[OURS]), true)
    );
    let _next = world.start_controller();
    world.wait(10).await;
    assert_eq!(
        (gate(&world), world.find("r").is_some()),
        (says("True", &[]), false)
    );
    assert_eq!((world.restarts("app"), world.image_changes("p")), (0, 0));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_meanwhile_holds_no_request_up() {
    let world = gated("[]").await;
    let _life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(3).await;
    world.remove("p").await;
    world.wait(3).await;
    let request = world.get("r");
    assert_eq!(
        (
            &request["status"]["message"],
            &request["metadata"]["finalizers"]
        ),
        (&json!("pod has gone"), &json!(null))
    );
    world.assert_quiet().await;
}

/// A new pod with the gate, and with the label for which a controller looks.
fn labelled(name: &str) -> Value {
    let mut pod = pod("Always");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["labels"] = json!({"swaplet.io/readiness-gate": "true"});
    pod["spec"]["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
    pod
}

fn opening(world: &Restarts) -> Life {
    world.start_restarting(0, |settings| {
        settings.restart.as_mut().unwrap().readiness_gates = true;
    })
}

/// The status of the gate; empty where nobody has said anything.
fn opened(world: &Restarts, pod: &str) -> String {
    let pod = world.world.get(pod);
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let gate = conditions.find(|one| one["type"] == "KruisePodReady");
    gate.map(|gate| gate["status"].as_str().unwrap().to_owned())
        .unwrap_or_default()
}

/// How many lists of pods were asked for, and patches of their status.
fn asked(world: &Restarts) -> (usize, usize) {
    let requests = world.requests();
    let count = |verb: Verb, subresource: &str| {
        let is_it = |request: &&Recorded| {
            request.verb == verb && request.resource == "pods" && request.subresource == subresource
        };
        requests.iter().filter(is_it).count()
    };
    (count(Verb::List, ""), count(Verb::Patch, "status"))
}

#[tokio::test(start_paused = true)]
async fn new_pods_with_the_label_are_given_the_first_true() {
    let world = Restarts::on(Profile::kubelet(), &labelled("p")).await;
    let mut ungated = labelled("ungated");
    ungated["spec"]["readinessGates"].take();
    let mut unlabelled = labelled("unlabelled");
    unlabelled["metadata"]["labels"].take();
    for pod in [&ungated, &unlabelled] {
        world.create(pod).await;
    }
    let _life = opening(&world);
    world.wait(5).await;
    assert_eq!(opened(&world, "p"), "True");
    world.create(&labelled("later")).await;
    world.wait(5).await;
    assert_eq!(opened(&world, "later"), "True");
    for pod in ["ungated", "unlabelled"] {
        assert_eq!(opened(&world, pod), "", "{pod}");
    }
    // What somebody says later is theirs.
    say(&world, &format!("[{OTHER}]")).await;
    world.wait(30).await;
    assert_eq!(gate(&world), says("False", &[OTHER]));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_true_is_written_whatever_becomes_of_the_write_before() {
    for effect in [
        Effect::ApplyThenDrop,
        Effect::Drop,
        Effect::reply(500).into(),
        Effect::reply(403).into(),
    ] {
        let world = Restarts::on(Profile::kubelet(), &labelled("p")).await;
        let fault = world.fault(effect.clone(), |rule| {
            rule.verb(Verb::Patch)
                .resource("pods")
                .subresource("status")
        });
        let life = opening(&world);
        world.wait(20).await;
        world.end_fault(fault);
        life.kill();
        let _next = opening(&world);
        world.wait(30).await;
        assert_eq!(opened(&world, "p"), "True", "{effect:?}");
        world.assert_quiet().await;
    }
}

/// What was seen of the pod while the write was under way is all that anybody says of it.
#[tokio::test(start_paused = true)]
async fn u127_a_pod_that_changes_during_a_write_is_written_again_whatever_failed_before() {
    let world = Restarts::on(Profile::kubelet(), &labelled("p")).await;
    let fault = |effect: Effect| {
        world.fault(effect, |rule| {
            rule.verb(Verb::Patch)
                .resource("pods")
                .subresource("status")
        })
    };
    let fails = fault(Effect::reply(500).into());
    let _life = opening(&world);
    while asked(&world).1 < 6 {
        world.wait(1).await;
    }
    world.end_fault(fails);
    let is_slow = fault(Effect::Delay(Duration::from_secs(5)));
    while asked(&world).1 < 7 {
        world.wait(1).await;
    }
    let body = json!({"metadata": {"annotations": {"a": "b"}}});
    let (path, kind) = (
        "/api/v1/namespaces/default/pods/p",
        "application/merge-patch+json",
    );
    world.world.request(Method::PATCH, path, kind, &body).await;
    world.wait(5).await;
    assert_eq!(opened(&world, "p"), "", "it was for the version before");
    world.end_fault(is_slow);
    world.wait(90).await;
    assert_eq!(opened(&world, "p"), "True");
    world.assert_quiet().await;
}

/// As where a webhook of the namespace does not answer.
#[tokio::test(start_paused = true)]
async fn a_namespace_whose_writes_hang_keeps_no_pods_of_others_from_being_ready() {
    let world = Restarts::on(Profile::kubelet(), &labelled("p")).await;
    world.create_namespace("slow").await;
    let fault = world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Patch)
            .resource("pods")
            .subresource("status")
            .namespace("slow")
    });
    for nth in 0..20 {
        let mut pod = labelled(&format!("slow-{nth}"));
        pod["metadata"]["namespace"] = json!("slow");
        world.create(&pod).await;
    }
    let _life = opening(&world);
    // The first of its writes take all the room there is, once.
    world.wait(15).await;
    assert_eq!(opened(&world, "p"), "True");
    let before = asked(&world).1;
    for nth in 0..10 {
        let name = format!("later-{nth}");
        world.create(&labelled(&name)).await;
        world.wait(2).await;
        assert_eq!(opened(&world, &name), "True", "{name}");
    }
    let patches = asked(&world).1 - before;
    assert!(patches <= 20, "{patches} writes");

    world.end_fault(fault);
    world.wait(60).await;
    let pods = world.server.peek_all("pods");
    let is_open = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one["type"] == "KruisePodReady" && one["status"] == "True")
    };
    assert_eq!(pods.iter().filter(|pod| is_open(pod)).count(), 31);
    world.assert_quiet().await;
}

/// Who has not asked for it pays nothing: no watch, and no write.
#[tokio::test(start_paused = true)]
async fn without_the_flag_no_pods_are_watched_for_it() {
    let world = Restarts::on(Profile::kubelet(), &labelled("p")).await;
    let life = world.start_controller();
    world.wait(60).await;
    let (lists, patches) = asked(&world);
    assert_eq!((opened(&world, "p"), patches), (String::new(), 0));
    life.kill();
    let _next = opening(&world);
    world.wait(60).await;
    assert_eq!(asked(&world), (2 * lists + 1, 1));
    assert_eq!(opened(&world, "p"), "True");
}
