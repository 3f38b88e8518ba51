//! The mock node at the embedded API server, in virtual time: a Job becomes a pod, the pod runs,
//! its sidecar is swapped, the Job is done.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, ResourceExt as _};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use swaplet::image::ImageReference;
use swaplet_controller as controller;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::connection::namespaces::Namespaces;
use swaplet_controller::frame::lease::Leadership;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::{Settings, TimeOfDay};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_testbed::apiserver::{Recorded, Verb};
use swaplet_testbed::virtual_node::{
    Disturbance, Gap, KubeletOptions, KubeletVersion, NodeOptions, OnUpdate, Profile,
    ProviderOptions, Seen, StatusMode, Trace, VirtualNode,
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
async fn the_node_registers_renews_its_lease_and_goes() {
    for profile in [Profile::kubelet(), Profile::updates()] {
        let cluster = node(profile);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        let node = nodes.get("virtual").await.unwrap();
        let is_virtual = profile.is_virtual();
        assert_eq!(
            node.labels().get("type").map(String::as_str),
            is_virtual.then_some("virtual-kubelet")
        );
        assert_eq!(
            node.spec
                .unwrap()
                .taints
                .unwrap_or_default()
                .iter()
                .any(|taint| taint.key == "virtual-kubelet.io/provider"),
            is_virtual
        );
        let renewed = |cluster: &Cluster| {
            cluster
                .server
                .peek("leases.coordination.k8s.io", "kube-node-lease", "virtual")
                .map(|lease| lease["spec"]["renewTime"].clone())
        };
        let first = renewed(&cluster).unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_ne!(renewed(&cluster).unwrap(), first);
        cluster.node.remove().await.unwrap();
        assert!(nodes.get_opt("virtual").await.unwrap().is_none());
    }
}

/// What a kubelet would have registered, with a taint of its owner's.
async fn real_node(server: &ApiServer, name: &str) {
    let node = json!({"metadata": {"name": name, "labels": {"team": "real"}},
        "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let nodes: Api<Node> = Api::all(server.client());
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
}

/// A pod that a kubelet runs on the node.
async fn real_pod(server: &ApiServer, node: &str) {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "restartPolicy": "Always",
        "containers": [{"name": "main", "image": "work:1"}]}});
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

fn mock(server: &ApiServer, name: &str) -> VirtualNode {
    let options = NodeOptions::new(name, Profile::inert());
    VirtualNode::new(server.client_as("mock"), server.clock(), options)
}

const LEASE: (&str, &str) = ("leases.coordination.k8s.io", "kube-node-lease");

/// Neither the Node of a real node, nor its Lease, nor its pods are touched: not when the mock node
/// starts, not while it runs, not when it ends.
#[tokio::test(start_paused = true)]
async fn a1_a_real_node_is_never_taken_over_or_deleted() {
    let server = ApiServer::new(Clock::default());
    real_node(&server, "worker").await;
    real_pod(&server, "worker").await;
    let stored = || {
        let lease = server.peek(LEASE.0, LEASE.1, "worker");
        let pod = server.peek("pods", "default", "p");
        (server.peek("nodes", "", "worker"), pod, lease)
    };
    let before = stored();
    let node = mock(&server, "worker");
    let refused = node.register().await.unwrap_err().to_string();
    assert!(
        refused.contains("no mock node made") && refused.contains("another name"),
        "{refused}"
    );
    let running = tokio::spawn(node.clone().run_for_ever());
    tokio::time::sleep(Duration::from_secs(300)).await;
    running.abort();
    node.remove().await.unwrap();
    assert_eq!(stored(), before);
    assert!(before.2.is_none());
}

/// The Lease of a kubelet whose Node was deleted for a moment.
#[tokio::test(start_paused = true)]
async fn a1_a_lease_of_a_real_node_keeps_its_name() {
    let server = ApiServer::new(Clock::default());
    let lease = json!({"metadata": {"name": "worker"}, "spec": {"holderIdentity": "worker"}});
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(server.client(), LEASE.1);
    let lease = serde_json::from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let before = server.peek(LEASE.0, LEASE.1, "worker");
    let node = mock(&server, "worker");
    let refused = node.register().await.unwrap_err().to_string();
    assert!(
        refused.contains("a Lease worker in kube-node-lease"),
        "{refused}"
    );
    node.remove().await.unwrap();
    assert!(server.peek("nodes", "", "worker").is_none());
    assert_eq!(server.peek(LEASE.0, LEASE.1, "worker"), before);
}

/// Of two of one name the second is refused while the first lives, and takes over when it is dead;
/// what the first deletes then is not the second's.
#[tokio::test(start_paused = true)]
async fn a1_of_two_mock_nodes_of_one_name_only_one_lives() {
    let server = ApiServer::new(Clock::default());
    let (first, second) = (mock(&server, "x"), mock(&server, "x"));
    let running = tokio::spawn(first.clone().run());
    tokio::time::sleep(Duration::from_secs(15)).await;
    let refused = second.register().await.unwrap_err().to_string();
    assert!(
        refused.contains("another mock node is called x"),
        "{refused}"
    );
    second.remove().await.unwrap();
    assert!(server.peek("nodes", "", "x").is_some());
    running.abort();
    tokio::time::sleep(Duration::from_secs(60)).await;
    second.register().await.unwrap();
    first.remove().await.unwrap();
    assert!(server.peek("nodes", "", "x").is_some(), "the second's");
    assert!(server.peek(LEASE.0, LEASE.1, "x").is_some(), "the second's");
    second.remove().await.unwrap();
    assert!(server.peek("nodes", "", "x").is_none());
    assert!(server.peek(LEASE.0, LEASE.1, "x").is_none());
}

/// `kubectl delete node`: a real one that takes the name then is left alone; else it comes back.
#[tokio::test(start_paused = true)]
async fn a1_a17_a_deleted_node_comes_back_unless_a_real_one_has_come() {
    let server = ApiServer::new(Clock::default());
    tokio::spawn(mock(&server, "x").run_for_ever());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let nodes: Api<Node> = Api::all(server.client());
    let params = kube::api::DeleteParams::default();
    nodes.delete("x", &params).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let back = server.peek("nodes", "", "x").unwrap();
    assert!(back["metadata"]["annotations"]["swaplet.io/mock-node"].is_string());
    nodes.delete("x", &params).await.unwrap();
    real_node(&server, "x").await;
    real_pod(&server, "x").await;
    let real = server.peek("nodes", "", "x");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(server.peek("nodes", "", "x"), real);
}

/// As the real Job controller: each index has one pod at a time, which knows its index from a
/// label, an annotation, its host name and a variable.
#[tokio::test(start_paused = true)]
async fn a3_an_indexed_job_runs_each_index_to_its_end() {
    let cluster = node(Profile::kubelet());
    let containers = json!([{"name": "main", "image": "work:1", "args": ["run=2s"]},
        {"name": "two", "image": "work:1", "args": ["run=1s"], "env": [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]}]);
    let job = json!({"metadata": {"name": "job"}, "spec": {"completionMode": "Indexed", "completions": 4, "parallelism": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}});
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let job = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.server.peek_all("pods").len(), 2, "parallelism");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.job_condition().as_deref(), Some("Complete"));
    let status = &cluster.server.peek("jobs.batch", "default", "job").unwrap()["status"];
    assert_eq!(
        (&status["completedIndexes"], &status["succeeded"]),
        (&json!("0-3"), &json!(4))
    );
    let mut seen = BTreeSet::new();
    for pod in cluster.server.peek_all("pods") {
        const INDEX: &str = "batch.kubernetes.io/job-completion-index";
        let index = pod["metadata"]["labels"][INDEX]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(pod["metadata"]["annotations"][INDEX], json!(index));
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with(&format!("job-{index}-")), "{name}");
        assert_eq!(pod["spec"]["hostname"], json!(format!("job-{index}")));
        let env = |container: usize| &pod["spec"]["containers"][container]["env"];
        let from = &env(0)[0]["valueFrom"]["fieldRef"]["fieldPath"];
        assert_eq!(*from, json!(format!("metadata.labels['{INDEX}']")));
        assert_eq!(
            env(1).as_array().unwrap().len(),
            1,
            "what the user set stays"
        );
        seen.insert(index);
    }
    assert_eq!(seen.len(), 4);
}

/// A pod of an index that fails is replaced by another of that index.
#[tokio::test(start_paused = true)]
async fn a3_a_failed_index_is_tried_again() {
    let cluster = node(Profile::kubelet());
    let job = json!({"metadata": {"name": "job"}, "spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 3,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work:1", "args": ["run=1s", "exit=1"]}]}}}});
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let job = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(cluster.job_condition().as_deref(), Some("Failed"));
    let pods = cluster.server.peek_all("pods");
    let of = |index: &str| {
        let name = |pod: &&std::sync::Arc<Value>| {
            let name = pod["metadata"]["name"].as_str().unwrap();
            name.starts_with(&format!("job-{index}-"))
        };
        pods.iter().filter(name).count()
    };
    assert_eq!((of("0"), of("1"), pods.len()), (2, 2, 4));
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

impl Cluster {
    /// Starts the real controller.
    fn start_controller(&self) {
        let settings = Settings {
            namespaces: Namespaces::default(),
            rules: Rules {
                exit_images: ExitImages::new(
                    Some(ImageReference::parse("exit:1").unwrap()),
                    Vec::new(),
                ),
                allowed: AllowedMethods {
                    finish: true,
                    ..AllowedMethods::default()
                },
                node_table: NodeTable::built_in(),
                coexist: Coexist::Own,
            },
            concurrency: 4,
            write_deadline: Duration::from_secs(10),
            instance: "test".to_owned(),
            push: None,
            restart: None,
            warm: None,
            state_namespace: None,
            predownload: false,
            hot_upgrade: None,
            protect: false,
            sidecar_policies: false,
            sidecar_log_bytes: 0,
            time_of_day: TimeOfDay::default(),
            leadership: Leadership::undisputed(),
            selection: None,
        };
        let client = self.server.client_as("swaplet");
        let metrics = Metrics::register(&mut Registry::default());
        tokio::spawn(controller::run::run(
            client,
            settings,
            metrics,
            Health::default(),
            std::future::pending(),
        ));
    }

    /// A Job of so many pods with a marked sidecar, called after its policy.
    async fn create_marked_job(&self, policy: &str, pods: i32) {
        let mark = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
        let template = json!({"spec": {"restartPolicy": policy, "tolerations": [{"operator": "Exists"}], "containers": [
            {"name": "main", "image": "work:1", "args": ["run=2s"]},
            {"name": "side", "image": "work:1", "args": ["term=143"], "env": mark}]}});
        let spec = json!({"parallelism": pods, "completions": pods, "template": template});
        let job: Job = serde_json::from_value(
            json!({"metadata": {"name": policy.to_lowercase()}, "spec": spec}),
        )
        .unwrap();
        Api::default_namespaced(self.client.clone())
            .create(&PostParams::default(), &job)
            .await
            .unwrap();
    }

    /// How many pods of a Job have succeeded, and how many have failed.
    fn counts(&self, job: &str) -> (i64, i64) {
        let job = self.server.peek("jobs.batch", "default", job).unwrap();
        let count = |field: &str| job["status"][field].as_i64().unwrap_or_default();
        (count("succeeded"), count("failed"))
    }

    /// How many pods had their images changed by the controller, each by one patch.
    fn swaps(&self) -> usize {
        let ours = |write: &Recorded| {
            write.verb == Verb::Patch
                && write.resource == "pods"
                && write.user_agent.starts_with("swaplet")
        };
        let swapped: Vec<_> = self
            .server
            .recorded()
            .into_iter()
            .filter(|write| ours(write) && write.body.is_array())
            .collect();
        let pods: BTreeSet<_> = swapped.iter().map(|write| &write.name).collect();
        assert_eq!(pods.len(), swapped.len(), "one swap per pod");
        pods.len()
    }
}

/// Every provider that can be played, and a kubelet: whatever little a status tells, no pod whose
/// main exited with 0 fails, a provider that can use swaps gets them, and one that cannot gets one.
#[tokio::test(start_paused = true)]
async fn the_controller_ends_jobs_on_every_node() {
    let mut profiles = vec![(Profile::kubelet(), 5)];
    for (on_update, swaps) in [
        (OnUpdate::Replaces, 3),
        (OnUpdate::Nothing, 1),
        (OnUpdate::Fails, 1),
    ] {
        for status in [StatusMode::Notify, StatusMode::Poll] {
            // Where nothing is replaced, these change nothing.
            let gaps: &[Gap] = if swaps == 3 {
                &[Gap::Hidden, Gap::Reported, Gap::Judged]
            } else {
                &[Gap::Hidden]
            };
            for &gap in gaps {
                for tells in [false, true] {
                    let options = ProviderOptions {
                        on_update,
                        status,
                        gap,
                        ..ProviderOptions::default()
                    };
                    let told = ProviderOptions {
                        new_container_ids: tells,
                        counts_restarts: tells,
                        reports_image_id: tells,
                        ..options
                    };
                    profiles.push((Profile::Virtual(told), swaps));
                }
            }
        }
    }
    for (profile, swaps) in profiles {
        let cluster = node(profile);
        cluster.start_controller();
        cluster.create_marked_job("Never", 2).await;
        cluster.create_marked_job("OnFailure", 3).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(
            (
                cluster.counts("never"),
                cluster.counts("onfailure"),
                cluster.swaps()
            ),
            ((2, 0), (3, 0), swaps),
            "{profile:?}"
        );
    }
}
