//! The readiness gate `KruisePodReady` without OpenKruise: from the API server's own policy to a
//! restart that takes the pod out of the traffic.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::audit::{Written, written_in};
use crate::controller::Controller;
use crate::of_cluster::OfCluster;
use crate::pods::{EXITS_143, container, pod, spec};
use crate::restart::{Restarts, restarts};
use crate::sidecar_policies::injected::MUTATING;
use crate::version::has_mutating_policies;
use crate::world::{World, eventually, installed, kubectl};

const POLICY: &str = include_str!("../../deploy/readiness-gate.yaml");

/// Waits until the policy is in force. The chart brings it; a process beside the cluster has that of
/// `deploy/`, under a name of the case.
async fn policy_in_force(world: &World) -> Option<OfCluster> {
    let mut policy = None;
    if installed().is_none() {
        let name = format!("{}-gate", world.namespace);
        policy = Some(OfCluster::new(&MUTATING, &name));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gate.yaml");
        std::fs::write(&file, POLICY.replace("swaplet-readiness-gate", &name)).unwrap();
        kubectl(&["create", "-f", file.to_str().unwrap()]).await;
    }
    let label = "swaplet.io/readiness-gate=true";
    kubectl(&["label", "namespace", &world.namespace, label]).await;
    let tried = pod("tried", spec("Always", vec![container(world, "app", "")]));
    let tried: Pod = serde_json::from_value(tried).unwrap();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pods: Api<Pod> = world.api();
    eventually("pods to be given the gate", || async {
        let made = pods.create(&params, &tried).await.unwrap();
        (gates(&made) == ["KruisePodReady"]).then_some(())
    })
    .await;
    policy
}

fn gates(pod: &Pod) -> Vec<String> {
    let gates = pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten());
    gates.map(|gate| gate.condition_type.clone()).collect()
}

/// The status of a condition; empty where it is not there.
fn condition<'a>(pod: &'a Pod, kind: &str) -> &'a str {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut conditions = conditions.filter(|condition| condition.type_ == kind);
    conditions.next().map_or("", |condition| &condition.status)
}

/// How often a pod was written.
fn writes(world: &World, name: &str) -> usize {
    let is_it =
        |write: &Written| write.resource == "pods" && write.pod == name && write.code == 200;
    let written = written_in(&world.namespace);
    written.iter().filter(|write| is_it(write)).count()
}

#[tokio::test]
async fn a_new_pod_becomes_ready_and_is_kept_from_it_for_a_restart() {
    let case = Restarts::new("restart-readiness").await;
    if !has_mutating_policies(&case.world).await {
        println!("nothing adds the gate here");
        return case.world.done().await;
    }
    let flags = ["--restart", "--restart-readiness-gates"];
    let _controller = Controller::start_with(&case.world, &flags).await;
    let _policy = policy_in_force(&case.world).await;
    let containers = vec![container(&case.world, "app", EXITS_143)];
    let mut made = pod("p", spec("Always", containers));
    // One that is there stays.
    made["spec"]["readinessGates"] = json!([{"conditionType": "example.com/other"}]);
    let made = case.world.create_pod(made).await;
    assert_eq!(gates(&made), ["example.com/other", "KruisePodReady"]);
    let plain = pod(
        "q",
        spec("Always", vec![container(&case.world, "app", EXITS_143)]),
    );
    case.world.create_pod(plain).await;
    let ended = pod(
        "ends",
        spec("Never", vec![container(&case.world, "app", "")]),
    );
    assert_eq!(
        gates(&case.world.create_pod(ended).await),
        Vec::<String>::new()
    );

    let is_ready = |pod: &Pod| condition(pod, "Ready") == "True";
    case.world.pod_is("q", "ready", is_ready).await;
    let opened = |pod: &Pod| condition(pod, "KruisePodReady") == "True";
    let first = case.world.pod_is("p", "let be ready", opened).await;
    assert!(!is_ready(&first), "the other gate is another's");

    case.request("r", &json!({"podName": "q", "containers": [{"name": "app"}], "strategy": {"unreadyGracePeriodSeconds": 30}}))
        .await;
    let closed = |pod: &Pod| condition(pod, "KruisePodReady") == "False";
    let kept = case.world.pod_is("q", "kept not ready", closed).await;
    assert_eq!((is_ready(&kept), restarts(&kept, "app")), (false, 0));
    assert_eq!(case.completed("r").await[0]["phase"], "Succeeded");
    let after = case.world.pod_is("q", "ready again", is_ready).await;
    assert_eq!(restarts(&after, "app"), 1);

    // The first True, the entry of the request, its end; and the image. The audit log follows.
    eventually("the last write to be there", || async {
        (writes(&case.world, "q") >= 4).then_some(())
    })
    .await;
    let of = ["p", "q", "ends"].map(|name| writes(&case.world, name));
    assert_eq!(of, [1, 4, 0], "{:#?}", written_in(&case.world.namespace));
    case.world.done().await;
}
