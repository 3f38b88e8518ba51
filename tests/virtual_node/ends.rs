//! How pods end: by their phase, deleted, or while the kubelet restarts; and what is seen of it.

use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use swaplet_testbed::virtual_node::{Disturbance, KubeletOptions, KubeletVersion, Profile, Trace};

use super::node;

#[tokio::test(start_paused = true)]
async fn a_phase_and_a_nudge_end_a_pod_on_a_kubelet() {
    let cluster = node(Profile::kubelet());
    cluster.create_job("OnFailure", "term=143").await;
    let (pod, _) = cluster
        .pod_when("main ends", |seen| {
            seen.container("main")
                .is_some_and(|main| main.exit_code == Some(0))
        })
        .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let trace = tokio::spawn(trace(pods.clone()));
    tokio::time::sleep(Duration::from_millis(10)).await;
    let phase = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &phase)
        .await
        .unwrap();
    let nudge = Patch::Merge(json!({"metadata": {"annotations": {"nudge": "1"}}}));
    pods.patch(&pod.name_any(), &PatchParams::default(), &nudge)
        .await
        .unwrap();
    let trace = trace.await.unwrap();
    assert_eq!(trace.phases(), ["Running", "Succeeded"]);
    assert_eq!(
        trace.states("side"),
        ["running work:1 rc0", "terminated(143) work:1 rc0"]
    );
    assert_eq!(cluster.job_condition().as_deref(), Some("Complete"));
}

/// What is seen of the only pod in twenty seconds.
async fn trace(pods: Api<Pod>) -> Trace {
    let mut trace = Trace::default();
    let seen = watcher(pods, Config::default()).applied_objects();
    pin_mut!(seen);
    let end = tokio::time::sleep(Duration::from_secs(20));
    pin_mut!(end);
    loop {
        tokio::select! {
            Some(pod) = seen.next() => trace.push(&serde_json::to_value(pod.unwrap()).unwrap()),
            () = &mut end => return trace,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_goes_when_its_containers_have_stopped() {
    for (profile, seconds) in [
        (Profile::kubelet(), 2.0..4.2),
        (Profile::updates(), 3.9..4.5),
    ] {
        let cluster = node(profile);
        let clock = cluster.server.clock();
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "virtual", "terminationGracePeriodSeconds": 4,
            "containers": [{"name": "main", "image": "work:1", "args": ["term-after=2s"]}]}});
        pod["metadata"]["namespace"] = json!("default");
        let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
        pods.create(
            &PostParams::default(),
            &serde_json::from_value(pod).unwrap(),
        )
        .await
        .unwrap();
        cluster
            .pod_when("runs", |seen| seen.phase == "Running")
            .await;
        let start = clock.now();
        pods.delete("p", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        while cluster.server.peek("pods", "default", "p").is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let took = clock.now().duration_since(start).as_secs_f64();
        assert!(seconds.contains(&took), "{took} {profile:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn last_state_is_kept_by_a_kubelet_1_36_only() {
    for (version, kept) in [
        (KubeletVersion::V1_34, None),
        (KubeletVersion::V1_36, Some(143)),
    ] {
        let cluster = node(Profile::Kubelet(KubeletOptions::of(version)));
        let seen = cluster.swap("Never").await;
        assert_eq!(seen.container("side").unwrap().last_exit_code, kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_dies_during_a_swap_fails_a_never_pod() {
    let cluster = node(Profile::kubelet());
    let template = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "virtual", "restartPolicy": "Never", "containers": [
        {"name": "main", "image": "work:1", "args": ["run=2s"]}, {"name": "side", "image": "work:1", "args": ["term-after=1s"]}]}});
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    pods.create(
        &PostParams::default(),
        &serde_json::from_value(template).unwrap(),
    )
    .await
    .unwrap();
    cluster.swap_when_main_is_done().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    cluster
        .node
        .disturb(Disturbance::KubeletRestart(Duration::from_secs(3)));
    let (_, seen) = cluster
        .pod_when("ends", |seen| {
            matches!(seen.phase.as_str(), "Succeeded" | "Failed")
        })
        .await;
    assert_eq!(
        (
            seen.phase.as_str(),
            seen.container("side").unwrap().exit_code
        ),
        ("Failed", Some(143))
    );
}
