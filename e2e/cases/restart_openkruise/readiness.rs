//! The pod is not ready before a container is stopped, and others have a say in that.

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{all, both, go, hook_until_go, hooks, run_pod};
use crate::pods::is_ready;
use crate::restart::{Restarts, restarts};
use crate::world::eventually;

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status
        .as_ref()?
        .conditions
        .as_ref()?
        .iter()
        .find(|condition| condition.type_ == kind)
}

fn gate(pod: &Pod) -> (&str, &str) {
    condition(pod, "KruisePodReady").map_or(("", ""), |gate| {
        (&gate.status, gate.message.as_deref().unwrap_or_default())
    })
}

/// Somebody else writes the condition, as OpenKruise does.
async fn say(case: &Restarts, status: &str, message: &str) {
    let conditions = json!([{"type": "KruisePodReady", "status": status, "message": message}]);
    let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
    case.world
        .api::<Pod>()
        .patch_status("p", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Unlike with the daemon, another grace period than the pod's is not kept, and that is said.
#[tokio::test]
async fn crr_e3c_the_pod_is_not_ready_before_and_the_entries_of_others_stay() {
    const OTHER: &str = r#"{"userAgent":"Lifecycle","key":"another"}"#;
    let case = Restarts::new("crr-e3c").await;
    let _controller = case.controller().await;
    run_pod(&case, hook_until_go(), true).await;
    say(&case, "True", "").await;
    case.world.pod_is("p", "ready", is_ready).await;

    case.request(
        "r",
        &both(json!({"unreadyGracePeriodSeconds": 3, "terminationGracePeriodSeconds": 3})),
    )
    .await;
    let ours = |request: &str| {
        format!(
            r#"{{"userAgent":"ContainerRecreateRequest","key":"{}/{request}"}}"#,
            case.world.namespace
        )
    };
    let alone = format!("[{}]", ours("r"));
    let kept = case
        .world
        .pod_is("p", "kept not ready", |pod| gate(pod) == ("False", &*alone))
        .await;
    assert_eq!(
        (is_ready(&kept), restarts(&kept, "app")),
        (false, 0),
        "before anything is stopped"
    );
    say(&case, "False", &format!("[{},{OTHER}]", ours("r"))).await;
    go(&case).await;
    assert_eq!(case.completed("r").await, all("Succeeded"));
    let others = format!("[{OTHER}]");
    let left = case
        .world
        .pod_is("p", "kept not ready by another alone", |pod| {
            gate(pod) == ("False", &*others)
        })
        .await;
    assert!(!is_ready(&left));
    let request = case.requests.get("r").await.unwrap();
    let message = request.data["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("terminationGracePeriodSeconds 3 is not used"),
        "{message}"
    );
    let since: Timestamp = request.annotations()["crr.apps.kruise.io/unready-acquired"]
        .parse()
        .unwrap();
    let hook: i64 = hooks(&case).await.trim().parse().unwrap();
    assert!(
        hook >= since.as_second() + 3,
        "first the time, then the hook"
    );
    is_ready_again(&case).await;
    case.world.done().await;
}

/// Nobody else keeps it not ready.
async fn is_ready_again(case: &Restarts) {
    say(case, "True", "[]").await;
    case.world.pod_is("p", "ready", is_ready).await;
    case.request("again", &json!({"podName": "p", "containers": [{"name": "sidecar"}], "strategy": {"unreadyGracePeriodSeconds": 0}}))
        .await;
    assert_eq!(case.completed("again").await[0]["phase"], "Succeeded");
    case.world
        .pod_is("p", "ready again", |pod| {
            gate(pod) == ("True", "[]") && is_ready(pod)
        })
        .await;
    eventually("the request to be let go", || async {
        case.requests
            .get("again")
            .await
            .unwrap()
            .finalizers()
            .is_empty()
            .then_some(())
    })
    .await;
}
