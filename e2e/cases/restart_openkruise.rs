//! What OpenKruise's own end-to-end tests of `ContainerRecreateRequest` ask for
//! (`containerrecreate.go`), on a real kubelet without its daemon. Where a daemonless restart
//! differs, the case says how.

mod readiness;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::audit::written_in;
use crate::pods::{EXITS_143, container, pod, spec, status_of};
use crate::restart::{Restarts, restarts, started};
use crate::world::{kubectl, lets_go_on};

/// How long a hook takes.
const HOOK: i64 = 5;

/// A running pod `p` of `app` and `sidecar`; `lifecycle` is that of `app`, whose hooks may write to
/// the volume.
async fn run_pod(case: &Restarts, lifecycle: Value, gated: bool) -> Pod {
    let mut containers = ["app", "sidecar"]
        .map(|name| container(&case.world, name, EXITS_143))
        .to_vec();
    containers.iter_mut().for_each(|container| {
        container["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}])
    });
    containers[0]["lifecycle"] = lifecycle;
    let mut spec = spec("Always", containers);
    spec["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    // Longer than any hook takes.
    spec["terminationGracePeriodSeconds"] = 300.into();
    if gated {
        spec["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
    }
    case.world.create_pod(pod("p", spec)).await;
    case.world
        .pod_is("p", "running", |pod| {
            started(pod, "app").is_some() && started(pod, "sidecar").is_some()
        })
        .await
}

fn hook(name: &str) -> Value {
    json!({name: {"exec": {"command": ["sh", "-c", format!("echo {name} >> /shared/hooks; sleep {HOOK}")]}}})
}

/// A hook of `app` that says when it begins and lasts until [`go`].
fn hook_until_go() -> Value {
    let script = "date +%s >> /shared/hooks; until test -e /shared/go; do sleep 0.1; done";
    json!({"preStop": {"exec": {"command": ["sh", "-c", script]}}})
}

/// `app` runs until its hook has ended.
async fn go(case: &Restarts) {
    lets_go_on(&case.world, "p", "app").await;
}

async fn hooks(case: &Restarts) -> String {
    kubectl(&[
        "exec",
        "-n",
        &case.world.namespace,
        "p",
        "-c",
        "sidecar",
        "--",
        "cat",
        "/shared/hooks",
    ])
    .await
}

fn both(strategy: Value) -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}, {"name": "sidecar"}], "strategy": strategy})
}

fn all(phase: &str) -> Value {
    ["app", "sidecar"]
        .iter()
        .map(|name| json!({"name": name, "phase": phase, "isKilled": true}))
        .collect()
}

async fn see(case: &Restarts) -> Pod {
    case.world.pod_is("p", "there", |_| true).await
}

/// When the last container of this name ended, by the kubelet's clock.
fn finished(pod: &Pod, name: &str) -> Timestamp {
    let last = status_of(pod, name).and_then(|status| {
        status
            .last_state
            .as_ref()?
            .terminated
            .as_ref()?
            .finished_at
            .as_ref()
    });
    last.unwrap_or_else(|| panic!("no end of {name}: {pod:#?}"))
        .0
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

#[tokio::test]
async fn crr_e1_one_container_with_a_minimum_time_and_a_time_to_live() {
    let case = Restarts::new("crr-e1").await;
    let _controller = case.controller().await;
    let before = run_pod(&case, json!({}), false).await;
    let strategy = json!({"minStartedSeconds": 5});
    let mut versions = case.versions("r").await;
    case.request("r", &json!({"podName": "p", "containers": [{"name": "app"}], "strategy": strategy, "ttlSecondsAfterFinished": 3})).await;
    let request = versions
        .next_that_is("taken up", |request| {
            request.labels().contains_key("crr.apps.kruise.io/pod-uid")
        })
        .await;
    let node = before.spec.as_ref().unwrap().node_name.clone().unwrap();
    let labels = json!({"crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/node-name": node,
        "crr.apps.kruise.io/pod-uid": before.uid().unwrap()});
    assert_eq!(json!(request.labels()), labels);
    let spec = &request.data["spec"];
    assert_eq!(
        spec["strategy"],
        json!({"failurePolicy": "Fail", "minStartedSeconds": 5, "terminationGracePeriodSeconds": 300})
    );
    let context =
        json!({"containerID": status_of(&before, "app").unwrap().container_id, "restartCount": 0});
    assert_eq!(
        spec["containers"],
        json!([{"name": "app", "statusContext": context}])
    );
    let is_over = |request: &DynamicObject| {
        request.data["status"]["phase"] == "Completed"
            && !request.labels().contains_key("crr.apps.kruise.io/active")
    };
    let over = versions
        .next_that_is("completed and released", is_over)
        .await;
    assert_eq!(
        over.data["status"]["containerRecreateStates"],
        json!([{"name": "app", "phase": "Succeeded", "isKilled": true}])
    );
    let after = see(&case).await;
    assert_eq!(
        (restarts(&after, "app"), restarts(&after, "sidecar")),
        (1, 0)
    );
    let completed: Timestamp = over.data["status"]["completionTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    // Five seconds, but both are whole ones, and a controller tells the time by the `Date` of the API
    // server's answers, which may be one behind.
    assert!(seconds(started(&after, "app").unwrap(), completed) > 3);
    versions.deleted().await;
    case.world.done().await;
}

/// The pod after the restart of both containers, with a postStart hook of `app`, and how many
/// writes that took.
async fn restart_both(case: &str, strategy: Value) -> (Pod, usize) {
    let case = Restarts::new(case).await;
    let _controller = case.controller().await;
    run_pod(&case, hook("postStart"), false).await;
    case.request("r", &both(strategy)).await;
    assert_eq!(case.completed("r").await, all("Succeeded"));
    let after = see(&case).await;
    assert_eq!(
        (restarts(&after, "app"), restarts(&after, "sidecar")),
        (1, 1)
    );
    assert_eq!(hooks(&case).await, "postStart\npostStart\n");
    let writes = written_in(&case.world.namespace)
        .iter()
        .filter(|write| write.is_applied_swap())
        .count();
    case.world.done().await;
    (after, writes)
}

/// Both are stopped before one is started: so does a kubelet with one change of both.
async fn do_not_wait(case: &str, strategy: Value) {
    let (after, writes) = restart_both(case, strategy).await;
    assert_eq!(writes, 1);
    assert!(
        finished(&after, "sidecar") <= started(&after, "app").unwrap(),
        "as if it had waited: {after:#?}"
    );
}

async fn second_waits(case: &str, strategy: Value) {
    let (after, writes) = restart_both(case, strategy).await;
    assert_eq!(writes, 2);
    assert!(
        seconds(finished(&after, "app"), finished(&after, "sidecar")) >= HOOK,
        "{after:#?}"
    );
}

#[tokio::test]
async fn crr_e2b_ordered_the_second_waits_for_the_post_start_of_the_first() {
    second_waits("crr-e2b", json!({"orderedRecreate": true})).await;
}

/// The kubelet runs the pod's own hook.
#[tokio::test]
async fn crr_e3_the_pre_stop_hook_runs_to_its_end() {
    let case = Restarts::new("crr-e3").await;
    let _controller = case.controller().await;
    run_pod(&case, hook("preStop"), false).await;
    case.request("r", &both(json!({}))).await;
    assert_eq!(case.completed("r").await, all("Succeeded"));
    let after = see(&case).await;
    assert_eq!(hooks(&case).await, "preStop\n");
    let request = case.requests.get("r").await.unwrap();
    assert_eq!(
        request.data["spec"]["containers"][0]["preStop"],
        hook("preStop")["preStop"],
        "as OpenKruise's webhook copies it"
    );
    let created = request.creation_timestamp().unwrap().0;
    assert!(seconds(created, finished(&after, "app")) >= HOOK);
    case.world.done().await;
}

mod long {
    use super::*;

    /// OpenKruise leaves the states at Pending; here they say what has happened. What was begun
    /// goes on, as there.
    #[tokio::test]
    async fn crr_e3b_the_deadline_passes_while_the_pre_stop_hook_runs() {
        let case = Restarts::new("crr-e3b").await;
        let _controller = case.controller().await;
        run_pod(&case, hook_until_go(), false).await;
        case.request(
            "r",
            &json!({"podName": "p", "containers": [{"name": "app"}], "activeDeadlineSeconds": 20}),
        )
        .await;
        let message = "recreating has exceeded the activeDeadlineSeconds";
        assert_eq!(
            case.completed("r").await,
            json!([{"name": "app", "phase": "Failed", "message": message, "isKilled": true}])
        );
        assert_eq!(restarts(&see(&case).await, "app"), 0);
        go(&case).await;
        let after = case
            .world
            .pod_is("p", "restarted all the same", |pod| {
                restarts(pod, "app") == 1 && started(pod, "app").is_some()
            })
            .await;
        assert_eq!(restarts(&after, "sidecar"), 0);
        case.world.done().await;
    }

    #[tokio::test]
    async fn crr_e4_by_force_two_containers_do_not_wait_for_each_other() {
        do_not_wait("crr-e4", json!({"forceRecreate": true})).await;
    }

    #[tokio::test]
    async fn crr_e4b_by_force_and_ordered_the_second_waits() {
        second_waits(
            "crr-e4b",
            json!({"forceRecreate": true, "orderedRecreate": true}),
        )
        .await;
    }

    #[tokio::test]
    async fn crr_e1b_crr_e2_two_containers_do_not_wait_for_each_other() {
        do_not_wait("crr-e2", json!({})).await;
    }
}
