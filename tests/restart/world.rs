//! An API server with running pods in it.

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_controller::frame::clock::time_of_day;
use swaplet_testbed::{ApiServer, Clock};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Everything that is waited for happens within this time, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// When the containers were started that are to be replaced.
pub const BEFORE: &str = "2026-01-01T00:00:00Z";
pub const REQUESTS: &str = "containerrecreaterequests.apps.kruise.io";

pub struct World {
    pub server: ApiServer,
    pub client: Client,
    pub parts: JoinSet<()>,
    home: tempfile::TempDir,
}

/// What a run of the program has said.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl World {
    pub async fn new() -> Self {
        let server = ApiServer::new(Clock::starting_at(time_of_day()));
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(
            home.path().join("config"),
            ApiServer::kubeconfig(listener.local_addr().unwrap()),
        )
        .unwrap();
        let mut parts = JoinSet::new();
        let served = server.clone();
        parts.spawn(async move { served.serve(listener).await.unwrap() });
        Self {
            client: server.client(),
            server,
            parts,
            home,
        }
    }

    /// A pod of two containers, `app` and `log`, that runs and is ready.
    pub async fn pod(&self, name: &str) {
        self.owned_pod(name, json!([])).await;
    }

    pub async fn owned_pod(&self, name: &str, owners: Value) {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owners},
            "spec": {"nodeName": "node-1", "initContainers": [{"name": "setup", "image": "setup:1"}],
                "containers": [{"name": "app", "image": "app:1"}, {"name": "log", "image": "log:1"}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
        self.show(
            name,
            true,
            &["app", "log"].map(|container| running(container, BEFORE, 0, true)),
        )
        .await;
    }

    /// Writes the status of a pod.
    pub async fn show(&self, name: &str, ready: bool, statuses: &[Value]) {
        let word = if ready { "True" } else { "False" };
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": word}], "containerStatuses": statuses});
        let patch = Patch::Merge(json!({"status": status}));
        self.pods()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates an object of any kind, with its status; gives its uid.
    pub async fn create(&self, object: Value) -> String {
        let version = object["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
        let api: Api<DynamicObject> =
            Api::default_namespaced_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let created: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let created = api.create(&PostParams::default(), &created).await.unwrap();
        if object["status"].is_object() {
            let status = Patch::Merge(json!({"status": object["status"]}));
            api.patch_status(
                &created.metadata.name.unwrap(),
                &PatchParams::default(),
                &status,
            )
            .await
            .unwrap();
        }
        created.metadata.uid.unwrap()
    }

    /// A Deployment that wants so many pods, and has these.
    pub async fn deployment(&self, replicas: usize, pods: &[&str]) {
        let labels = json!({"matchLabels": {"app": "web"}});
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
        let spec = json!({"replicas": replicas, "selector": labels, "template": template});
        let uid = self.create(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})).await;
        let owner = owner("Deployment", "web", &uid);
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "labels": {"app": "web"}, "ownerReferences": [owner]},
            "spec": spec,
        });
        let uid = self.create(set).await;
        for pod in pods {
            self.owned_pod(pod, json!([self::owner("ReplicaSet", "web-1", &uid)]))
                .await;
        }
    }

    /// A budget over all pods, with this much left.
    pub async fn budget(&self, desired_healthy: usize, allowed: usize) {
        let spec =
            json!({"minAvailable": desired_healthy, "selector": {"matchLabels": {"app": "web"}}});
        let status = json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": desired_healthy, "currentHealthy": 0,
            "expectedPods": 0});
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec, "status": status});
        self.create(budget).await;
    }

    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(
            env!("CARGO_BIN_EXE_swaplet"),
            &[&["restart"], arguments].concat(),
        )
        .spawn()
        .unwrap()
    }

    /// `swaplet restart` with these arguments, until it ends.
    pub async fn restart(&self, arguments: &[&str]) -> Ran {
        self.end_of(self.start(arguments)).await
    }

    /// The program with these arguments, until it ends.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        let child = self
            .command(env!("CARGO_BIN_EXE_swaplet"), arguments)
            .spawn();
        self.end_of(child.unwrap()).await
    }

    pub async fn end_of(&self, child: Child) -> Ran {
        timeout(PATIENCE, child.wait_with_output())
            .await
            .unwrap()
            .unwrap()
            .into()
    }

    /// Waits until a run has said this; what it says later is left to its end.
    pub async fn says(&self, child: &mut Child, words: &str) {
        let stderr = child.stderr.as_mut().unwrap();
        let mut said = Vec::new();
        let is_said = async {
            while !String::from_utf8_lossy(&said).contains(words) {
                let more = stderr.read_buf(&mut said).await.unwrap();
                assert!(more > 0, "{}", String::from_utf8_lossy(&said));
            }
        };
        let in_time = timeout(PATIENCE, is_said).await;
        assert!(in_time.is_ok(), "never said: {words}");
    }

    pub fn requests(&self) -> Vec<Arc<Value>> {
        self.server.peek_all(REQUESTS)
    }

    /// Waits until this is true of the server.
    pub async fn until(&self, what: &str, holds: impl Fn(&ApiServer) -> bool) {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if holds(&self.server) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("never: {what}: {:#?}", self.requests());
    }
}

pub fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true})
}

pub fn running(name: &str, started: &str, restarts: u32, ready: bool) -> Value {
    json!({"name": name, "image": "x", "imageID": "x", "containerID": format!("containerd://{name}-{restarts}"), "restartCount": restarts,
        "ready": ready, "state": {"running": {"startedAt": started}}})
}

/// Ctrl-C, for a process that this test has started.
pub async fn interrupt(child: &Child) {
    let id = child.id().unwrap().to_string();
    let sent = Command::new("kill")
        .args(["-INT", &id])
        .status()
        .await
        .unwrap();
    assert!(sent.success());
}
