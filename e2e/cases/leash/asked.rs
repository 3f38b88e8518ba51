//! Nobody gets done by swaplet what the API server would not let them do themselves.

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Leashed, pods};
use crate::crds::{pull_jobs_are_served, requests_are_served};
use crate::restart_forged::tenant;
use crate::world::{World, eventually};

const GROUP: &str = "apps.kruise.io";

struct Asked(Api<DynamicObject>, ApiResource);

impl Asked {
    fn of(client: &Client, world: &World, kind: &str) -> Self {
        let resource = ApiResource {
            group: GROUP.to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: format!("{GROUP}/v1alpha1"),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        Self(
            Api::namespaced_with(client.clone(), &world.namespace, &resource),
            resource,
        )
    }

    async fn create(&self, name: &str, spec: &Value) -> Result<(), String> {
        let Self(api, resource) = self;
        let object = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec});
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<(), String> {
        self.0
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// RBAC is told to each part of the API server in its own time.
async fn comes_true(what: &str, answer: impl AsyncFn() -> Result<(), String>) {
    eventually(what, || async { answer().await.ok() }).await;
}

fn of_pod(name: &str) -> Value {
    json!({"podName": name, "containers": [{"name": "main"}]})
}

/// B7: since when the pod is not ready is changed by nobody.
async fn the_time_does_not_change(owner: &Asked) {
    let since = |time: &str| json!({"metadata": {"annotations": {"crr.apps.kruise.io/unready-acquired": time}}});
    owner
        .patch("a", since("2026-01-01T00:00:00Z"))
        .await
        .unwrap();
    for moved in [
        since("2025-01-01T00:00:00Z"),
        json!({"metadata": {"annotations": null}}),
    ] {
        let words = owner.patch("a", moved).await.expect_err("it is denied");
        assert!(
            words.contains("unready-acquired of a request does not change"),
            "{words}"
        );
    }
}

fn denied_to_restart(answer: Result<(), String>, pod: &str, prefix: &str) {
    let words = answer.expect_err("it is denied");
    let expected =
        format!("a request to restart containers is for those who may patch the pod {pod}; ");
    assert!(
        words.contains(&expected) && words.contains(&format!("{prefix}requests'")),
        "{words}"
    );
}

async fn pods_are_there(leashed: &Leashed) {
    for name in ["mine", "theirs"] {
        leashed
            .world
            .create_pod(pods::pod(
                leashed,
                name,
                "Always",
                json!([pods::main(leashed)]),
            ))
            .await;
    }
}

#[tokio::test]
async fn to_restart_containers_is_for_those_who_may_patch_the_pod() {
    requests_are_served().await;
    let leashed = Leashed::new("leash-asked").await;
    let world = &leashed.world;
    pods_are_there(&leashed).await;
    let requests = json!({"apiGroups": ["apps.kruise.io"], "resources": ["containerrecreaterequests"], "verbs": ["create", "patch"]});
    let own = json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["mine"], "verbs": ["patch"]});
    let stranger = Asked::of(
        &tenant(world, "stranger", json!([requests])).await,
        world,
        "ContainerRecreateRequest",
    );
    let owner = Asked::of(
        &tenant(world, "owner", json!([requests, own])).await,
        world,
        "ContainerRecreateRequest",
    );
    let denied = |answer, pod: &str| denied_to_restart(answer, pod, &leashed.prefix);

    comes_true("the owner to ask", async || {
        owner.create("a", &of_pod("mine")).await
    })
    .await;
    eventually("the stranger to be denied by the leash", || async {
        stranger
            .create("b", &of_pod("mine"))
            .await
            .err()
            .filter(|words| words.contains("may patch the pod"))
    })
    .await;
    denied(stranger.create("b", &of_pod("mine")).await, "mine");
    denied(owner.create("b", &of_pod("theirs")).await, "theirs");
    denied(owner.create("b", &of_pod("missing")).await, "missing");
    let elsewhere = owner
        .patch("a", json!({"spec": {"podName": "theirs"}}))
        .await
        .expect_err("it is refused");
    assert!(elsewhere.contains("immutable"), "{elsewhere}");
    for patch in [
        json!({"spec": {"strategy": {"terminationGracePeriodSeconds": 1}}}),
        json!({"metadata": {"annotations": {"swaplet.io/restart-journal": "{}"}}}),
    ] {
        denied(stranger.patch("a", patch).await, "mine");
    }
    stranger
        .patch("a", json!({"metadata": {"labels": {"team": "x"}}}))
        .await
        .unwrap();

    // B6: what is filled in is not for others either.
    let filled = json!({"containers": [{"name": "main", "statusContext": {"containerID": "x", "restartCount": 0}}]});
    denied(stranger.patch("a", json!({"spec": filled})).await, "mine");
    the_time_does_not_change(&owner).await;
    leashed.done().await;
}

fn denied_to_pull(answer: Result<(), String>, leashed: &Leashed) {
    let words = answer.expect_err("it is denied");
    let expected = format!(
        "spec.pullSecrets is for those who may create pods in the namespace {}; ",
        leashed.world.namespace
    );
    assert!(
        words.contains(&expected) && words.contains(&format!("{}pull-jobs'", leashed.prefix)),
        "{words}"
    );
}

#[tokio::test]
async fn to_pull_with_secrets_is_for_those_who_may_create_pods() {
    pull_jobs_are_served().await;
    let leashed = Leashed::new("leash-secrets").await;
    let world = &leashed.world;
    let jobs =
        json!({"apiGroups": [GROUP], "resources": ["imagepulljobs"], "verbs": ["create", "patch"]});
    let make = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]});
    let stranger = Asked::of(
        &tenant(world, "stranger", json!([jobs])).await,
        world,
        "ImagePullJob",
    );
    let maker = Asked::of(
        &tenant(world, "maker", json!([jobs, make])).await,
        world,
        "ImagePullJob",
    );
    let secret = json!({"image": "x", "pullSecrets": ["s"], "completionPolicy": {}});
    let denied = |answer| denied_to_pull(answer, &leashed);
    comes_true("a job with secrets", async || {
        maker.create("secret", &secret).await
    })
    .await;
    comes_true("a job without secrets", async || {
        stranger
            .create("plain", &json!({"image": "x", "completionPolicy": {}}))
            .await
    })
    .await;
    eventually("the stranger to be denied by the leash", || async {
        stranger
            .create("b", &secret)
            .await
            .err()
            .filter(|words| words.contains("may create pods"))
    })
    .await;
    denied(stranger.create("b", &secret).await);
    denied(
        stranger
            .patch("secret", json!({"spec": {"parallelism": 2}}))
            .await,
    );
    stranger
        .patch("secret", json!({"metadata": {"labels": {"team": "x"}}}))
        .await
        .unwrap();
    stranger
        .patch("plain", json!({"spec": {"parallelism": 2}}))
        .await
        .unwrap();
    leashed.done().await;
}
