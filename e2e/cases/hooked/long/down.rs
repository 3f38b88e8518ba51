//! The webhook that checks changes of pods is down, for everybody, and swaplet is as it is installed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;

use super::warnings;
use crate::controller::Controller;
use crate::of_cluster::OfCluster;
use crate::pods::{EXITS_0, EXITS_143, container, job, pod, sidecar, spec};
use crate::restart::{Restarts, restarts, started};
use crate::world::{World, apply, eventually};

const WORDS: &str = "failed calling webhook";

/// As in the report. It covers `pods` and not their statuses.
async fn webhook(world: &World) -> OfCluster {
    let name = &world.namespace;
    let goes = OfCluster::new(&["validatingwebhookconfiguration"], name);
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]});
    let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [{
        "name": "down.example.com", "clientConfig": {"url": "https://127.0.0.1:9/validate"}, "failurePolicy": "Fail", "timeoutSeconds": 5,
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "namespaceSelector": here, "rules": [rule],
    }]});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("webhook.json");
    std::fs::write(&file, hook.to_string()).unwrap();
    apply(&file).await;
    // The API server loads it within a second.
    sleep(Duration::from_secs(2)).await;
    goes
}

async fn is_told(world: &World, name: &str) {
    eventually(&format!("a Warning about {name}"), || async {
        let all = warnings(world, name).await;
        all.iter().any(|note| note.contains(WORDS)).then_some(())
    })
    .await;
}

async fn explained(world: &World, name: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["explain", name, "-n", &world.namespace, "--exit-image"])
        .arg(&world.images.exit)
        .output()
        .await
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn jobs_behind_a_webhook_that_is_down_end_by_the_phase() {
    let world = World::new("webhook-down").await;
    let webhook = webhook(&world).await;
    let _controller = Controller::start(&world).await;
    for policy in ["OnFailure", "Never"] {
        let main = container(&world, "main", "sleep 10");
        let containers = vec![main, sidecar(&world, "proxy", EXITS_0)];
        let name = policy.to_lowercase();
        let mut made = job(&name, spec(policy, containers));
        made["spec"]["backoffLimit"] = json!(3);
        world.create_job(made).await;
    }
    // Which two pods there are is known before they end.
    let pods = eventually("a pod of each Job", || async {
        let pods = world.pods().await;
        (pods.len() == 2).then_some(pods)
    })
    .await;
    for pod in &pods {
        let name = pod.metadata.name.as_deref().unwrap();
        is_told(&world, name).await;
        let words = explained(&world, name).await;
        assert!(words.contains(WORDS), "{words}");
    }
    for pod in &pods {
        let name = pod.metadata.name.as_deref().unwrap();
        world.pod_ends(name, "Succeeded").await;
    }
    // Until then the Job controller, too, cannot change its pods: it takes its finalizer from them.
    drop(webhook);
    for name in ["onfailure", "never"] {
        world.job_ends(name, "Complete").await;
    }
    assert_eq!(world.pods().await.len(), 2, "no main has run twice");
    world.done().await;
}

async fn request(restart: &Restarts, deadline: Option<u32>) {
    let app = container(&restart.world, "app", EXITS_143);
    restart
        .world
        .create_pod(pod("web-0", spec("Always", vec![app])))
        .await;
    restart
        .world
        .pod_is("web-0", "running", |pod| started(pod, "app").is_some())
        .await;
    let mut spec = json!({"podName": "web-0", "containers": [{"name": "app"}]});
    if let Some(deadline) = deadline {
        spec["activeDeadlineSeconds"] = json!(deadline);
    }
    restart.request("r", &spec).await;
}

async fn has_failed(restart: &Restarts, states: &Value) {
    let state = &states[0];
    let message = state["message"].as_str().unwrap_or_default();
    assert!(
        state["phase"] == "Failed" && message.contains(WORDS),
        "{states}"
    );
    is_told(&restart.world, "web-0").await;
    let pod = restart.world.pod_is("web-0", "there", |_| true).await;
    assert_eq!(restarts(&pod, "app"), 0);
}

#[tokio::test]
async fn a_request_behind_a_webhook_that_is_down_fails_by_its_deadline_with_the_reason() {
    let restart = Restarts::new("request-down").await;
    let webhook = webhook(&restart.world).await;
    let _controller = restart.controller().await;
    request(&restart, Some(60)).await;
    let states = restart.completed("r").await;
    has_failed(&restart, &states).await;
    drop(webhook);
    restart.world.done().await;
}

/// By its time.
mod long {
    use super::*;

    #[tokio::test]
    async fn a_request_without_a_deadline_fails_after_ten_minutes_with_the_reason() {
        let restart = Restarts::new("request-down-long").await;
        let webhook = webhook(&restart.world).await;
        let _controller = restart.controller().await;
        request(&restart, None).await;
        // As long as the case waits for anything, twice.
        sleep(Duration::from_secs(5 * 60)).await;
        let states = restart.completed("r").await;
        has_failed(&restart, &states).await;
        drop(webhook);
        restart.world.done().await;
    }
}
