//! The CRD of requests: what it refuses, and that it alone changes nothing.

use serde_json::{Value, json};

use super::{Restarts, app};
use crate::controller::Controller;
use crate::pods::{EXITS_143, job, main_ok, sidecar, spec};

impl Restarts {
    async fn assert_change_refused(&self, name: &str, change: &Value, word: &str) {
        let refused = self
            .requests
            .patch(name, &Default::default(), &kube::api::Patch::Merge(change))
            .await;
        assert!(
            refused
                .expect_err("it is refused")
                .to_string()
                .contains(word),
            "{change}"
        );
    }
}

/// Requests that are refused, and a word of the reason.
fn refused() -> Vec<(Value, &'static str)> {
    let containers = json!([{"name": "app"}]);
    vec![
        (
            json!({"podName": "", "containers": containers}),
            "spec.podName",
        ),
        (json!({"podName": "p", "containers": []}), "spec.containers"),
        (
            json!({"podName": "p", "containers": [{"name": "app"}, {"name": "app"}]}),
            "Duplicate value",
        ),
        (
            json!({"podName": "p", "containers": [{"name": "app", "statusContext": {"containerID": "x", "restartCount": 0}}]}),
            "read-only",
        ),
        (
            json!({"podName": "p", "containers": containers, "activeDeadlineSeconds": 2}),
            "activeDeadlineSeconds",
        ),
        (
            json!({"podName": "p", "containers": containers, "strategy": {"failurePolicy": "Maybe"}}),
            "failurePolicy",
        ),
        (
            json!({"podName": "p", "containers": containers, "strategy": {"terminationGracePeriodSeconds": -1}}),
            "terminationGracePeriodSeconds",
        ),
        (
            json!({"podName": "p", "containers": containers, "strategy": {"unreadyGracePeriodSeconds": -1}}),
            "unreadyGracePeriodSeconds",
        ),
        // D3, D5: what would be a selector of its own making, and what no client can read that has
        // int32 there.
        (
            json!({"podName": "a,b", "containers": containers}),
            "spec.podName",
        ),
        (
            json!({"podName": "p", "containers": containers, "ttlSecondsAfterFinished": 99_999_999_999_i64}),
            "ttlSecondsAfterFinished",
        ),
        (
            json!({"podName": "p", "containers": containers, "strategy": {"minStartedSeconds": 2_147_483_648_i64}}),
            "minStartedSeconds",
        ),
    ]
}

/// What OpenKruise's webhook refuses is refused by the schema.
#[tokio::test]
async fn the_crd_refuses_what_openkruises_webhook_refuses() {
    let restart = Restarts::new("restart-crd").await;
    for (spec, word) in refused() {
        let refused = restart
            .try_request("bad", &spec)
            .await
            .expect_err("it is refused")
            .to_string();
        assert!(refused.contains(word), "{refused}");
    }
    let both = |names: [&str; 2]| json!({"podName": "p", "containers": names.map(|name| json!({"name": name}))});
    restart.request("good", &app()).await;
    restart.request("ordered", &both(["app", "log"])).await;
    // B5, B6: the order in which they are restarted stays, and a hook is filled in with its context
    // only.
    let hook = json!({"spec": {"containers": [{"name": "app", "preStop": {"exec": {"command": ["x"]}}}, {"name": "log"}]}});
    for (change, word) in [
        (json!({"spec": both(["log", "app"])}), "immutable"),
        (hook, "read-only"),
    ] {
        restart
            .assert_change_refused("ordered", &change, word)
            .await;
    }
    let stored = restart.requests.get("good").await.unwrap();
    assert_eq!(
        stored.data["spec"]["strategy"],
        json!({"failurePolicy": "Fail"})
    );
    for change in [
        json!({"spec": {"podName": "other"}}),
        json!({"spec": {"containers": [{"name": "log"}]}}),
        json!({"spec": {"ttlSecondsAfterFinished": 3}}),
        json!({"spec": {"strategy": {"forceRecreate": true}}}),
        json!({"spec": {"strategy": {"failurePolicy": "Ignore"}}}),
    ] {
        restart
            .assert_change_refused("good", &change, "immutable")
            .await;
    }
    restart.world.done().await;
}

/// The CRD of requests is there, OpenKruise is not, and the account may not look for it.
#[tokio::test]
async fn the_crd_alone_keeps_nobody_from_ending_sidecars() {
    let world = Restarts::new("restart-crd-alone").await.world;
    let _controller = Controller::start_beside_openkruise(&world, &["--restart"]).await;
    world
        .create_job(job(
            "job",
            spec(
                "OnFailure",
                vec![main_ok(&world), sidecar(&world, "log", EXITS_143)],
            ),
        ))
        .await;
    world.job_ends("job", "Complete").await;
    world.done().await;
}
