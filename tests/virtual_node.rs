//! The mock node at the embedded API server, in virtual time: a Job becomes a pod, the pod runs,
//! its sidecar is swapped, the Job is done.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod controller;
mod ends;
mod indexed_jobs;
mod registration;

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use swaplet_testbed::virtual_node::{
    Gap, NodeOptions, Profile, ProviderOptions, Seen, StatusMode, VirtualNode,
};
use swaplet_testbed::{ApiServer, Clock, job_controller, scheduler};

/// A cluster of one node.
struct Cluster {
    server: ApiServer,
    client: Client,
    node: VirtualNode,
}

impl Cluster {
    fn start(options: NodeOptions) -> Self {
        let server = ApiServer::new(Clock::default());
        let (client, clock) = (server.client(), server.clock());
        let node = VirtualNode::new(server.client_as("node"), clock, options);
        tokio::spawn(node.clone().run());
        tokio::spawn(scheduler::run(server.client_as("scheduler"), clock));
        tokio::spawn(job_controller::run(
            server.client_as("job-controller"),
            clock,
        ));
        Self {
            server,
            client,
            node,
        }
    }

    async fn create_job(&self, policy: &str, side: &str) {
        let template = json!({"spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 4,
            "tolerations": [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}],
            "containers": [{"name": "main", "image": "work:1", "args": ["run=2s"]}, {"name": "side", "image": "work:1", "args": [side]}]}});
        let job: Job = serde_json::from_value(
            json!({"metadata": {"name": "job"}, "spec": {"template": template}}),
        )
        .unwrap();
        Api::default_namespaced(self.client.clone())
            .create(&PostParams::default(), &job)
            .await
            .unwrap();
    }

    /// The pod, when this holds for it.
    async fn pod_when(&self, what: &str, holds: impl Fn(&Seen) -> bool) -> (Pod, Seen) {
        for _ in 0..600 {
            let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
            if let Some(pod) = pods.list(&ListParams::default()).await.unwrap().items.pop() {
                let seen = Seen::of(&serde_json::to_value(&pod).unwrap());
                if holds(&seen) {
                    return (pod, seen);
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never: {what}: {:#?}", self.server.peek_all("pods"));
    }

    async fn swap_when_main_is_done(&self) -> Pod {
        let (pod, _) = self
            .pod_when("main ends", |seen| {
                seen.container("main")
                    .is_some_and(|main| main.exit_code == Some(0))
            })
            .await;
        let path = "/spec/containers/1/image";
        let patch = json!([{"op": "test", "path": path, "value": "work:1"}, {"op": "replace", "path": path, "value": "exit:1"}]);
        let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        pods.patch(&pod.name_any(), &PatchParams::default(), &patch)
            .await
            .unwrap()
    }

    async fn events(&self) -> Vec<String> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let all = events.list(&ListParams::default()).await.unwrap();
        all.into_iter().filter_map(|event| event.reason).collect()
    }

    fn job_condition(&self) -> Option<String> {
        let job = self.server.peek("jobs.batch", "default", "job")?;
        let conditions = job["status"]["conditions"].as_array()?.clone();
        conditions
            .into_iter()
            .rev()
            .find(|one| one["status"] == "True")
            .and_then(|one| one["type"].as_str().map(str::to_owned))
    }

    /// How a Job with one sidecar ends if the sidecar is swapped.
    async fn swap(&self, policy: &str) -> Seen {
        self.create_job(policy, "term=143").await;
        self.swap_when_main_is_done().await;
        let (_, seen) = self
            .pod_when("a final phase", |seen| {
                matches!(seen.phase.as_str(), "Succeeded" | "Failed")
            })
            .await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        seen
    }
}

fn node(profile: Profile) -> Cluster {
    Cluster::start(NodeOptions::new("virtual", profile))
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_on_a_kubelet_and_on_a_provider_that_updates() {
    for (profile, restarts) in [(Profile::kubelet(), 1), (Profile::updates(), 0)] {
        for policy in ["Never", "OnFailure"] {
            let cluster = node(profile);
            let seen = cluster.swap(policy).await;
            let side = seen.container("side").unwrap();
            assert_eq!(
                (seen.phase.as_str(), side.exit_code, side.restarts),
                ("Succeeded", Some(0), restarts),
                "{policy} {profile:?}"
            );
            assert_eq!(
                cluster.job_condition().as_deref(),
                Some("Complete"),
                "{policy} {profile:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_events_are_those_of_a_kubelet() {
    let cluster = node(Profile::kubelet());
    cluster.swap("Never").await;
    let events = cluster.events().await;
    for reason in [
        "Scheduled",
        "Pulling",
        "Pulled",
        "Created",
        "Started",
        "Killing",
    ] {
        assert!(
            events.iter().any(|event| event == reason),
            "{reason}: {events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_inert_provider_changes_nothing_and_keeps_a_written_phase() {
    let cluster = node(Profile::inert());
    cluster.create_job("OnFailure", "term=143").await;
    let pod = cluster.swap_when_main_is_done().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, seen) = cluster
        .pod_when("still running", |seen| seen.phase == "Running")
        .await;
    assert_eq!(
        seen.container("side").unwrap().to_string(),
        "running work:1 rc0"
    );
    assert!(
        cluster
            .events()
            .await
            .contains(&"ProviderUpdateSuccess".to_owned())
    );
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let phase = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &phase)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.job_condition().as_deref(), Some("Complete"));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_rejects_fails_a_never_pod() {
    let cluster = node(Profile::rejects());
    cluster.create_job("Never", "term=143").await;
    cluster.swap_when_main_is_done().await;
    let (_, seen) = cluster
        .pod_when("fails", |seen| seen.phase == "Failed")
        .await;
    assert_eq!(seen.reason, "ProviderFailed");
    assert!(
        cluster
            .events()
            .await
            .contains(&"ProviderUpdateFailed".to_owned())
    );

    let cluster = node(Profile::rejects());
    cluster.create_job("OnFailure", "term=143").await;
    cluster.swap_when_main_is_done().await;
    cluster
        .pod_when("is pending", |seen| {
            (seen.phase.as_str(), seen.reason.as_str()) == ("Pending", "ProviderFailed")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_judges_the_gap_fails_a_never_pod_and_one_that_is_polled_is_slow() {
    let cluster = node(Profile::Virtual(ProviderOptions {
        gap: Gap::Judged,
        ..ProviderOptions::default()
    }));
    assert_eq!(cluster.swap("Never").await.phase, "Failed");
    let cluster = node(Profile::Virtual(ProviderOptions {
        status: StatusMode::Poll,
        ..ProviderOptions::default()
    }));
    assert_eq!(cluster.swap("Never").await.phase, "Succeeded");
}

/// Nothing happens to a pod that nobody touches: a quiet node writes nothing but its lease and its
/// own status.
#[tokio::test(start_paused = true)]
async fn a_quiet_node_is_silent() {
    for profile in [Profile::kubelet(), Profile::updates()] {
        let cluster = node(profile);
        cluster.create_job("Never", "term=143").await;
        cluster
            .pod_when("main ends", |seen| {
                seen.container("main")
                    .is_some_and(|main| main.exit_code == Some(0))
            })
            .await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let before = pod_version(&cluster);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(pod_version(&cluster), before);
    }
}

fn pod_version(cluster: &Cluster) -> Value {
    cluster.server.peek_all("pods")[0]["metadata"]["resourceVersion"].clone()
}
