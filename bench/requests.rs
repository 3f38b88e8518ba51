//! What open requests and jobs that pull images of one tenant cost another: `cargo bench --bench
//! requests`.
//!
//! A controller on the testbed's API server, in real time. Printed is how long pods of a second
//! tenant wait for their swap from when their main container is done: without any request, while
//! 12,000 requests are made and taken up, while they are open, for more than the minute in which
//! each is looked at again, and with 30 jobs that pull images on 5,000 nodes besides, whose
//! statuses come as on a real cluster.
//!
//! Beside it is another one of each that has nothing else to do: each swap has a twin there, in the
//! same second, so that what else the machine does is in both of a ratio. What the load takes of
//! the processors is in both as well: the other ratio is to the time before there was any. Nothing
//! is judged.

#![expect(
    clippy::expect_used,
    reason = "a benchmark stops where its fixture is broken"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_controller::run::{Settings, TimeOfDay, run};
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;
use swaplet_testbed::{ApiServer, Clock};
use tokio::time::{Instant, sleep};

const REQUESTS: usize = 12_000;
/// The pods that they are for.
const PODS: usize = 200;
/// Jobs that pull images, and the nodes that they are for.
const PULL_JOBS: usize = 30;
const NODES: usize = 5000;
/// Between two statuses of nodes: a kubelet with nothing to say sends one every five minutes.
const HEARTBEAT: Duration = Duration::from_millis(60);
/// Swaps of each measurement.
const SWAPS: usize = 220;
const EXIT: &str = "registry.example/swaplet/exit:v1";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

#[derive(Clone)]
struct Cluster {
    server: ApiServer,
    client: Client,
}

#[tokio::main]
async fn main() {
    let (cluster, twin) = (Cluster::begin().await, Cluster::begin().await);
    sleep(Duration::from_secs(2)).await;

    let idle = cluster.measure(&twin, "idle", "no request").await;
    let making = tokio::spawn(cluster.clone().make_requests());
    let burst = cluster
        .measure(&twin, "burst", "while they are made and taken up")
        .await;
    making.await.expect("requests");
    let (open, answered) = cluster.settle().await;
    println!("{open} requests are open, {answered} of them answered");
    let rest = cluster.measure(&twin, "rest", "while they are open").await;
    cluster.make_pull_jobs().await;
    let beating = tokio::spawn(cluster.clone().nodes_live());
    let pulling = cluster
        .measure(&twin, "pull", "with jobs that pull images besides")
        .await;
    beating.abort();
    for (name, [loaded, beside]) in [
        ("no request", idle),
        ("burst", burst),
        ("open", rest),
        ("pull jobs", pulling),
    ] {
        let times = |other: Duration| loaded.as_secs_f64() / other.as_secs_f64();
        println!(
            "{name}: p99 is {:.2} x that of the twin (goal 1.2), and {:.2} x that before any load",
            times(beside),
            times(idle[0])
        );
    }
}

async fn controller(server: ApiServer) {
    let clock = server.clock();
    let rules = Rules {
        exit_images: ExitImages::new(Some(EXIT.parse().expect("a reference")), Vec::new()),
        allowed: AllowedMethods::default(),
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    };
    let settings = Settings {
        concurrency: 16,
        restart: Some(RestartSettings {
            time_of_day: TimeOfDay(Arc::new(move || clock.now())),
            on_config: None,
            readiness_gates: false,
            park: None,
            leash: None,
        }),
        warm: Some(warm(server.clock())),
        ..Settings::new(rules, "bench".to_owned())
    };
    let metrics = Metrics::register(&mut Registry::default());
    run(
        server.client_as("swaplet"),
        settings,
        metrics,
        Health::default(),
        std::future::pending(),
    )
    .await
    .expect("it runs for ever");
}

fn warm(clock: Clock) -> WarmSettings {
    WarmSettings {
        namespace: "warm".into(),
        park_image: "registry.example/park:v1".into(),
        exit_image: None,
        startup_taint_timeout: None,
        startup_taint_namespaces: BTreeSet::new(),
        longest_try: Duration::from_secs(1800),
        coexist: Coexist::default(),
        image_caches: None,
        sandbox_keys: SandboxKeys::default(),
        time_of_day: TimeOfDay(Arc::new(move || clock.now())),
    }
}

impl Cluster {
    /// An API server with pods for the requests, and a controller.
    async fn begin() -> Self {
        let server = ApiServer::new(Clock::default());
        let cluster = Self {
            client: server.client_as("bench"),
            server,
        };
        for namespace in ["greedy", "modest", "warm"] {
            let object = json!({"metadata": {"name": namespace}});
            cluster
                .send(Method::POST, "/api/v1/namespaces", JSON, object)
                .await;
        }
        let node = json!({"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}});
        cluster
            .send(Method::POST, "/api/v1/nodes", JSON, node)
            .await;
        for nth in 0..PODS {
            cluster
                .run_pod("greedy", &format!("p{nth}"), "Always")
                .await;
        }
        tokio::spawn(controller(cluster.server.clone()));
        cluster
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, content_type);
        let request = request
            .body(body.to_string().into_bytes())
            .expect("a request");
        self.client
            .request::<Value>(request)
            .await
            .expect("an answer");
    }

    /// A pod whose containers run.
    async fn run_pod(&self, namespace: &str, name: &str, policy: &str) {
        let mark = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
            "spec": {"nodeName": "n", "restartPolicy": policy, "containers": [
                {"name": "main", "image": "registry.example/main:1"},
                {"name": "side", "image": "registry.example/side:1", "command": ["/bin/sh"], "env": mark}]}});
        self.send(
            Method::POST,
            &format!("/api/v1/namespaces/{namespace}/pods"),
            JSON,
            pod,
        )
        .await;
        self.shows(
            namespace,
            name,
            json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
        )
        .await;
    }

    /// The node shows the main container like this.
    async fn shows(&self, namespace: &str, name: &str, main: Value) {
        let digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let status = |name: &str, state: Value| {
            json!({"name": name, "image": format!("registry.example/{name}:1"), "imageID": format!("registry.example/{name}@{digest}"),
                "containerID": "containerd://0", "ready": true, "restartCount": 0, "state": state})
        };
        let side = status(
            "side",
            json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
        );
        let status = json!({"status": {"phase": "Running", "containerStatuses": [status("main", main), side]}});
        self.send(
            Method::PATCH,
            &format!("/api/v1/namespaces/{namespace}/pods/{name}/status"),
            MERGE,
            status,
        )
        .await;
    }

    /// Those of each pod are carried out one after another, and nothing restarts its containers: so
    /// all stay open.
    async fn make_requests(self) {
        for nth in 0..REQUESTS {
            let spec =
                json!({"podName": format!("p{}", nth % PODS), "containers": [{"name": "main"}]});
            let request = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
                "metadata": {"name": format!("r{nth}")}, "spec": spec});
            self.send(
                Method::POST,
                "/apis/apps.kruise.io/v1alpha1/namespaces/greedy/containerrecreaterequests",
                JSON,
                request,
            )
            .await;
        }
    }

    /// Nothing starts their pods: so each keeps its ten nodes for two minutes, and goes over to
    /// others.
    async fn make_pull_jobs(&self) {
        for nth in 0..NODES {
            let node = json!({"metadata": {"name": format!("n{nth}"), "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}});
            self.send(Method::POST, "/api/v1/nodes", JSON, node).await;
            self.node_lives(nth, 0).await;
        }
        for nth in 0..PULL_JOBS {
            let spec = json!({"image": format!("registry.example/app{nth}:v1"), "parallelism": 10, "completionPolicy": {}});
            let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": {"name": format!("j{nth}")}, "spec": spec});
            self.send(
                Method::POST,
                "/apis/apps.kruise.io/v1alpha1/namespaces/greedy/imagepulljobs",
                JSON,
                job,
            )
            .await;
        }
        sleep(Duration::from_secs(5)).await;
        let pods = self
            .server
            .peek_all("pods")
            .iter()
            .filter(|pod| pod["metadata"]["namespace"] == "warm")
            .count();
        println!("{PULL_JOBS} jobs on {NODES} nodes have {pods} pods");
    }

    async fn nodes_live(self) {
        for nth in 0.. {
            self.node_lives(nth % NODES, nth).await;
            sleep(HEARTBEAT).await;
        }
    }

    async fn node_lives(&self, node: usize, second: usize) {
        let at =
            jiff::Timestamp::UNIX_EPOCH + Duration::from_secs(second.try_into().expect("a second"));
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": at.to_string()}]}});
        self.send(
            Method::PATCH,
            &format!("/api/v1/nodes/n{node}/status"),
            MERGE,
            status,
        )
        .await;
    }

    /// Waits until nothing more is written to the requests: how many are open, and how many of them
    /// have a status.
    async fn settle(&self) -> (usize, usize) {
        let mut before = usize::MAX;
        loop {
            let requests = self
                .server
                .peek_all("containerrecreaterequests.apps.kruise.io");
            let open: Vec<_> = requests
                .iter()
                .filter(|request| request["status"]["phase"] != "Completed")
                .collect();
            let answered = open
                .iter()
                .filter(|request| request["status"]["phase"].is_string())
                .count();
            if answered == before {
                return (open.len(), answered);
            }
            before = answered;
            sleep(Duration::from_secs(2)).await;
        }
    }

    /// Ends the sidecars of some pods, one after the other, here and there by turns; the 99th
    /// percentiles of how long that takes.
    async fn measure(&self, twin: &Self, name: &str, when: &str) -> [Duration; 2] {
        let mut times = [Vec::new(), Vec::new()];
        let begin = Instant::now();
        for nth in 0..SWAPS {
            let pod = format!("{name}-{nth}");
            self.run_pod("modest", &pod, "Never").await;
            twin.run_pod("modest", &pod, "Never").await;
            sleep(Duration::from_millis(300)).await;
            // Neither is always the first.
            if nth % 2 == 0 {
                times[0].push(self.swap(&pod).await);
            }
            times[1].push(twin.swap(&pod).await);
            if nth % 2 == 1 {
                times[0].push(self.swap(&pod).await);
            }
        }
        let p99s = times.map(|mut times| {
            times.sort_unstable();
            let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
            println!(
                "{when}: p50 {:.1?}, p99 {:.1?}, slowest {:.1?}",
                at(50),
                at(99),
                at(100)
            );
            at(99)
        });
        println!(
            "  the second line is the twin's, of {SWAPS} swaps each in {:.0?}",
            begin.elapsed()
        );
        p99s
    }

    /// How long a pod waits for its swap.
    async fn swap(&self, pod: &str) -> Duration {
        let ended = json!({"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:01Z"}});
        self.shows("modest", pod, ended).await;
        let done = Instant::now();
        while self.server.peek("pods", "modest", pod).expect("the pod")["spec"]["containers"][1]["image"]
            != EXIT
        {
            sleep(Duration::from_micros(200)).await;
        }
        done.elapsed()
    }
}
