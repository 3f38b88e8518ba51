//! `swaplet rescue`, through the real binary, against the embedded API server with its Job
//! controller and a node: Jobs get stuck while no controller runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod installation;
mod policies;
mod stuck;
mod unmarked;

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Recorded, Rule, Verb};
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
use swaplet_testbed::{ApiServer, Clock, job_controller, scheduler};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::Instant;

const EXIT: &str = "registry.example/swaplet/exit:v1";
const WITH_EXIT_IMAGE: &[&str] = &["--exit-image", EXIT];
const MARK: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";

struct Cluster {
    server: ApiServer,
    client: Client,
    folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::new(Clock::default());
        let clock = server.clock();
        let node = NodeOptions {
            taints: Vec::new(),
            ..NodeOptions::new("node-1", Profile::kubelet())
        };
        tokio::spawn(VirtualNode::new(server.client_as("node"), clock, node).run());
        tokio::spawn(scheduler::run(server.client_as("scheduler"), clock));
        tokio::spawn(job_controller::run(
            server.client_as("job-controller"),
            clock,
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("kubeconfig"),
            ApiServer::kubeconfig(listener.local_addr().unwrap()),
        )
        .unwrap();
        let served = server.clone();
        tokio::spawn(async move { served.serve(listener).await });
        let client = server.client_as("user");
        Self {
            server,
            client,
            folder,
        }
    }

    /// A cluster in which the pods of these Jobs wait for their sidecars.
    async fn with_stuck(jobs: &[Value]) -> Self {
        let cluster = Self::start().await;
        for job in jobs {
            cluster.create(job).await;
        }
        let pods: usize = jobs
            .iter()
            .map(|job| usize::try_from(job["spec"]["parallelism"].as_u64().unwrap_or(1)).unwrap())
            .sum();
        cluster
            .eventually("the pods to be stuck", || {
                cluster
                    .pods()
                    .iter()
                    .filter(|pod| main_has_ended(pod))
                    .count()
                    == pods
            })
            .await;
        cluster
    }

    async fn create(&self, object: &Value) {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let kind = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::default_namespaced_with(self.client.clone(), &kind);
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    fn pods(&self) -> Vec<Value> {
        self.server
            .peek_all("pods")
            .iter()
            .map(|pod| (**pod).clone())
            .collect()
    }

    /// The image of the sidecar of each pod of a Job.
    fn images(&self, job: &str) -> Vec<String> {
        let of_job = self
            .pods()
            .into_iter()
            .filter(|pod| pod["metadata"]["labels"]["job-name"] == job);
        of_job
            .map(|pod| {
                pod["spec"]["containers"][1]["image"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }

    async fn eventually(&self, what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < Duration::from_secs(300),
                "never: {what}: {:#?}",
                self.pods()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn job_completes(&self, name: &str) {
        let is_complete = |job: &Value| {
            let conditions = job["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            conditions
                .iter()
                .any(|condition| condition["type"] == "Complete" && condition["status"] == "True")
        };
        self.eventually(name, || {
            self.server
                .peek("jobs.batch", "default", name)
                .is_some_and(|job| is_complete(&job))
        })
        .await;
    }

    fn forbid(&self, narrow: impl FnOnce(Rule) -> Rule) {
        self.server.faults().add(narrow(
            Rule::new(Effect::reply(403).message("that is forbidden for jane"))
                .user_agent("swaplet/"),
        ));
    }

    /// What swaplet wrote.
    fn writes(&self) -> Vec<Recorded> {
        let ours = self
            .server
            .recorded()
            .into_iter()
            // What asks whether something is allowed is stored nowhere.
            .filter(|request| request.resource != "selfsubjectaccessreviews")
            .filter(|request| request.user_agent.starts_with("swaplet/"));
        ours.filter(|request| !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch))
            .collect()
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn command(&self, subcommand: &str, arguments: &[&str]) -> Command {
        // The tests may run under nohup, of which their children would know.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=HUP")
            .arg(env!("CARGO_BIN_EXE_swaplet"))
            .arg(subcommand)
            .args(arguments)
            // Not by a flag, which would be in each command that is advised.
            .env("KUBECONFIG", self.kubeconfig())
            .env_remove("RUST_LOG")
            // No registry is asked.
            .env("SWAPLET_EXIT_IMAGE_IS_PUBLIC", "true")
            .kill_on_drop(true);
        command
    }

    async fn rescue(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command("rescue", arguments).output().await.unwrap())
    }

    async fn explain(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command("explain", arguments).output().await.unwrap())
    }

    /// The name of the pod of a Job.
    fn pod_of(&self, job: &str) -> String {
        let pods = self.pods();
        let mut names = pods
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap());
        let prefix = format!("{job}-");
        names
            .find(|name| name.starts_with(&prefix))
            .unwrap()
            .to_owned()
    }

    /// An installation with these arguments, as the chart makes it.
    async fn install(&self, arguments: &[&str]) {
        let args = [&["run", "--leader-elect"], arguments].concat();
        let field = json!({"fieldRef": {"fieldPath": "metadata.namespace"}});
        let container = json!({"name": "swaplet", "image": "swaplet:1", "args": args,
            "env": [{"name": "SWAPLET_STATE_NAMESPACE", "valueFrom": field}]});
        let labels = json!({"app.kubernetes.io/name": "swaplet"});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "swaplet", "labels": labels},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                    "spec": {"serviceAccountName": "swaplet", "containers": [container]}}}});
        let kind = ApiResource::erase::<k8s_openapi::api::apps::v1::Deployment>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &kind);
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Somebody holds the Lease of the installation.
    async fn lead(&self) {
        #[expect(clippy::disallowed_methods, reason = "the Lease is held now")]
        let now = jiff::Timestamp::now();
        let object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "swaplet"},
            "spec": {"holderIdentity": "swaplet-7d_1", "leaseDurationSeconds": 12,
                "renewTime": format!("{now:.6}")}});
        let kind = ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &kind);
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

/// What a call came to.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Asserts the exit code.
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self
    }

    /// The line of the table about a pod of this Job.
    #[track_caller]
    fn line(&self, job: &str) -> &str {
        let is_about = |line: &&str| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|pod| pod.starts_with(&format!("{job}-")))
        };
        self.out
            .lines()
            .find(is_about)
            .unwrap_or_else(|| panic!("{job}: {}{}", self.out, self.err))
    }
}

fn main_has_ended(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    statuses
        .iter()
        .any(|status| status["name"] == "main" && !status["state"]["terminated"].is_null())
}

/// A Job whose sidecar runs for ever and exits with 143 when it is stopped.
fn job(name: &str, policy: &str) -> Value {
    let containers = json!([
        {"name": "main", "image": "main:1", "args": ["run=500ms"]},
        {"name": "log", "image": "log:1", "args": ["run=forever", "term=143"], "env": [{"name": MARK, "value": "true"}]},
    ]);
    let spec = json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 2, "containers": containers});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": spec}}})
}

/// The exit image does not have its program.
fn job_with_own_program(name: &str) -> Value {
    let mut job = job(name, "Never");
    job["spec"]["template"]["spec"]["containers"][1]["command"] = json!(["/opt/own/server"]);
    job
}

/// Three pods, whose sidecars cannot all be swapped at once.
fn job_of_three() -> Value {
    let mut job = job("pack", "OnFailure");
    for (field, value) in [("parallelism", 3), ("completions", 3), ("backoffLimit", 3)] {
        job["spec"][field] = value.into();
    }
    job
}

/// Starts it, and waits until it has swapped something.
async fn start(cluster: &Cluster, arguments: &[&str]) -> Child {
    let mut child = cluster
        .command("rescue", arguments)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("SidecarSwapped") {
            break;
        }
    }
    // From here on nobody reads what it says, and it goes on all the same (U248).
    child
}
