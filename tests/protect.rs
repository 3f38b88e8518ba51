//! `swaplet protect --list`, through the real binary, against the embedded API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Rule, Verb};

use crate::restart::world::{Ran, World};

const LABEL: &str = "policy.kruise.io/delete-protection";

impl World {
    async fn labelled(&self, path: &str, name: &str, mode: &str, spec: Value) -> Value {
        let object = json!({"metadata": {"name": name, "labels": {LABEL: mode}}, "spec": spec});
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .unwrap();
        self.client.request(request).await.unwrap()
    }

    async fn workload(&self, plural: &str, name: &str, mode: &str, replicas: u32) {
        let pod = json!({"containers": [{"name": "main", "image": "main:1"}]});
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": pod});
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template});
        let path = format!("/apis/apps/v1/namespaces/default/{plural}");
        self.labelled(&path, name, mode, spec).await;
    }

    /// A namespace in which this was counted.
    async fn space(&self, name: &str, counts: &str) {
        let path = "/api/v1/namespaces";
        let made = self.labelled(path, name, "Cascading", json!({})).await;
        let uid = made["metadata"]["uid"].as_str().unwrap();
        let holds = format!("{counts},uid={uid}");
        let patch = json!({"metadata": {"annotations": {"swaplet.io/holds": holds}}});
        let request = http::Request::patch(format!("{path}/{name}"))
            .header("content-type", "application/merge-patch+json")
            .body(patch.to_string().into_bytes())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    async fn protected(&self, arguments: &[&str]) -> Ran {
        let words = [&["protect", "--list"], arguments].concat();
        let mut command = self.command(env!("CARGO_BIN_EXE_swaplet"), &words);
        self.end_of(command.spawn().unwrap()).await
    }

    async fn bindings_of_protection(&self) {
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        for part in ["workloads", "network", "contents"] {
            let name = format!("team-protection-{part}");
            let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
            let binding = serde_json::from_value(binding).unwrap();
            bindings
                .create(&PostParams::default(), &binding)
                .await
                .unwrap();
        }
    }
}

/// Cells are separated by two spaces at least.
fn lines(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect()
}

#[tokio::test]
async fn what_is_protected_is_listed_with_what_holds_it() {
    let world = World::new().await;
    world.workload("deployments", "web", "Cascading", 2).await;
    world.workload("deployments", "idle", "Cascading", 0).await;
    world.workload("statefulsets", "data", "Always", 0).await;
    world.workload("deployments", "other", "true", 2).await;
    let services = "/api/v1/namespaces/default/services";
    let ports = json!({"ports": [{"port": 80}]});
    world.labelled(services, "open", "Cascading", ports).await;
    world.space("busy", "pods=3,pvcs=1").await;
    world.space("stored", "pods=0,pvcs=1").await;
    world.space("empty", "pods=0,pvcs=0").await;
    world
        .labelled("/api/v1/namespaces", "new", "Cascading", json!({}))
        .await;

    let all = world.protected(&["-A"]).await;
    assert_eq!(all.code, Some(0), "{all:?}");
    let free = "nothing: it can be deleted";
    let expected = [
        ["KIND", "NAMESPACE", "NAME", "MODE", "HELD BY"],
        ["Namespace", "-", "busy", "Cascading", "active pods 3>0"],
        ["Namespace", "-", "empty", "Cascading", free],
        [
            "Namespace",
            "-",
            "new",
            "Cascading",
            "contents that nobody counts",
        ],
        [
            "Namespace",
            "-",
            "stored",
            "Cascading",
            "\"Bound\" status pvc 1>0",
        ],
        ["Deployment", "default", "idle", "Cascading", free],
        [
            "Deployment",
            "default",
            "other",
            "true",
            "nothing: write Always or Cascading",
        ],
        ["Deployment", "default", "web", "Cascading", "replicas 2>0"],
        ["StatefulSet", "default", "data", "Always", "the label"],
        ["Service", "default", "open", "Cascading", free],
    ];
    assert_eq!(lines(&all.out), expected.map(|line| line.to_vec()));
    assert!(
        all.err.contains("apply deploy/protection.yaml"),
        "{}",
        all.err
    );

    world.bindings_of_protection().await;
    let one = world.protected(&["-n", "default", "-o", "json"]).await;
    assert_eq!((one.code, one.err.as_str()), (Some(0), ""));
    let told: Value = serde_json::from_str(&one.out).unwrap();
    let told = told["protected"].as_array().unwrap();
    let names: Vec<&str> = told
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["idle", "other", "web", "data", "open"]);
    assert_eq!(
        (&told[1]["mode"], &told[1]["heldBy"]),
        (&json!("true"), &Value::Null)
    );
    assert_eq!(told[2]["heldBy"], "replicas 2>0");

    let none = world.protected(&["-n", "nowhere"]).await;
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    assert!(
        none.err.contains("Nothing in nowhere has the label"),
        "{}",
        none.err
    );
}

#[tokio::test]
async fn what_may_not_be_listed_is_said_and_the_rest_is_printed() {
    let world = World::new().await;
    world.bindings_of_protection().await;
    world.workload("deployments", "web", "Always", 2).await;
    let forbidden = Effect::reply(403).message("services is forbidden");
    let faults = world.server.faults();
    for resource in ["services", "replicasets"] {
        let rule = Rule::new(forbidden.clone()).verb(Verb::List);
        faults.add(rule.resource(resource));
    }
    let ran = world.protected(&["-A"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.out.contains("web")
            && ran
                .err
                .contains("your rights do not allow to list replicasets.apps, services:"),
        "{ran:?}"
    );
    let without = world
        .command(env!("CARGO_BIN_EXE_swaplet"), &["protect"])
        .spawn();
    let without = world.end_of(without.unwrap()).await;
    assert!(
        without.code == Some(2) && without.err.contains("--list"),
        "{without:?}"
    );
}
