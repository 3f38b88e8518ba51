//! What cannot be done is said before anything is made.

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Rule, Verb};

use crate::restart::world::World;

#[tokio::test]
async fn what_is_wrong_is_named_with_what_to_do() {
    let world = World::new().await;
    world.pod("web-0").await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "labels": {"app": "new"}},
        "spec": {"nodeName": "n", "containers": [{"name": "app", "image": "a:1"}]}}))
        .await;
    for (arguments, words) in [
        (
            &["web-0"][..],
            "pod web-0 has several containers: choose with -c from app, log",
        ),
        (
            &["web-0", "-c", "ap"],
            "pod web-0 has no container ap; it has app, log",
        ),
        (
            &["web-0", "-c", "setup"],
            "setup is an init container; only containers and native sidecars",
        ),
        (&["web-0", "-c", "app,app"], "-c names app twice"),
        (&["web-0", "-c", "app,"], "-c has an empty name"),
        (&["web-1", "-c", "app"], "there is no pod web-1"),
        (&["new"], "pod new: app has not been started yet"),
        (&["-l", "app=new"], "pod new: app has not been started yet"),
        (&["-l", "app=none"], "there is no pod to restart"),
        (
            &["deploy/web", "-c", "app"],
            "there is no Deployment web in namespace default",
        ),
        (&["job/web"], "containers of a job cannot be restarted"),
        (&[], "say what to restart"),
        (&["web-0", "--max-unavailable", "0"], "write at least 1"),
        (&["web-0", "--timeout", "2"], "3.."),
        (
            &[
                "web-0",
                "-c",
                "app",
                "--direct",
                "--unready-grace-period",
                "5",
            ],
            "--unready-grace-period needs ContainerRecreateRequests",
        ),
    ] {
        let ran = world.restart(arguments).await;
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (Some(2), ""),
            "{arguments:?}: {ran:?}"
        );
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.err);
    }
    assert_eq!(world.requests().len(), 0);
}

#[tokio::test]
async fn what_the_user_may_not_see_is_said() {
    for (resource, words) in [
        ("pods", "cannot get pod web-0"),
        (
            "poddisruptionbudgets",
            "--ignore-disruption-budgets continues without them",
        ),
        (
            "containerrecreaterequests",
            "pod web-0 would not be restarted",
        ),
    ] {
        let world = World::new().await;
        world.pod("web-0").await;
        let forbidden = Effect::reply(403).message("you may not");
        world
            .server
            .faults()
            .add(Rule::new(forbidden).resource(resource));
        let ran = world.restart(&["web-0", "-c", "app", "--dry-run"]).await;
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.err.contains(words) && ran.err.contains("you may not"),
            "{resource}: {}",
            ran.err
        );
        if resource != "containerrecreaterequests" {
            let ran = world.restart(&["web-0", "-c", "app"]).await;
            assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        }
    }
}

/// As for the role `edit` of Kubernetes, and for `view`.
#[tokio::test]
async fn u178_who_may_not_ask_for_a_restart_is_told_before_anything_is_done() {
    type Webhook = fn(&str, &mut Value);
    let none = "(docs/rights.md)\n";
    for (webhook, advice) in [
        (may_patch_pods as Webhook, ", or pass --direct"),
        (may_nothing as Webhook, none),
    ] {
        let world = World::new().await;
        world.pod("web-0").await;
        world.server.set_webhook(webhook);
        for (more, advice) in [
            (&[][..], advice),
            (&["--dry-run"], advice),
            // With --direct these are refused.
            (&["--wait=false"], none),
            (&["--unready-grace-period", "5"], none),
        ] {
            let arguments = [&["web-0", "-c", "app"][..], more].concat();
            let ran = world.restart(&arguments).await;
            assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{ran:?}");
            assert!(
                ran.err.contains("create ContainerRecreateRequests") && ran.err.contains(advice),
                "{}",
                ran.err
            );
        }
        assert_eq!(world.requests().len(), 0);
    }
}

fn may_patch_pods(resource: &str, object: &mut Value) {
    if resource == "selfsubjectaccessreviews" {
        let asked = &object["spec"]["resourceAttributes"]["resource"];
        object["status"] = json!({"allowed": asked == "pods"});
    }
}

fn may_nothing(resource: &str, object: &mut Value) {
    if resource == "selfsubjectaccessreviews" {
        object["status"] = json!({"allowed": false});
    }
}

/// As OpenKruise's webhook does, for one.
#[tokio::test]
async fn a_request_that_is_refused_is_a_failure_of_its_pod() {
    let world = World::new().await;
    world.deployment(2, &["web-a", "web-b"]).await;
    let refused = Effect::reply(400).message("no containerID in app \u{1b}[31mcontainerStatus");
    world.server.faults().add(
        Rule::new(refused)
            .verb(Verb::Create)
            .resource("containerrecreaterequests"),
    );
    let ran = world
        .restart(&["deploy/web", "-c", "app", "--max-unavailable", "2"])
        .await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.err
            .contains("pod/web-a: failed: no containerID in app ?[31mcontainerStatus"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("pods: 1 Failed, 1 NotStarted"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn without_waiting_all_pods_have_to_have_their_turn_now() {
    let world = World::new().await;
    world.deployment(2, &["web-a", "web-b"]).await;
    let ran = world
        .restart(&["deploy/web", "-c", "app", "--wait=false"])
        .await;
    assert_eq!((ran.code, world.requests().len()), (Some(2), 0), "{ran:?}");
    assert!(
        ran.err
            .contains("pod web-b would have to wait for its turn"),
        "{}",
        ran.err
    );
    let ran = world
        .restart(&[
            "deploy/web",
            "-c",
            "app",
            "--wait=false",
            "--max-unavailable",
            "2",
        ])
        .await;
    assert_eq!((ran.code, world.requests().len()), (Some(0), 2), "{ran:?}");
    assert!(
        ran.out.contains("web-a   app         Requested"),
        "{}",
        ran.out
    );
}
