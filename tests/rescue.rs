//! `swaplet rescue`, through the real binary, against the embedded API server with its Job
//! controller and a node: Jobs get stuck while no controller runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod policies;

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
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

    async fn create(&self, job: &Value) {
        let job: DynamicObject = serde_json::from_value(job.clone()).unwrap();
        let jobs = ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&());
        let api: Api<DynamicObject> = Api::default_namespaced_with(self.client.clone(), &jobs);
        api.create(&PostParams::default(), &job).await.unwrap();
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
                start.elapsed() < Duration::from_secs(60),
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
            .filter(|request| request.user_agent.starts_with("swaplet/"));
        ours.filter(|request| !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch))
            .collect()
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn command(&self, subcommand: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_swaplet"));
        command
            .arg(subcommand)
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .env_remove("RUST_LOG")
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

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_lists_what_is_stuck_and_writes_nothing() {
    let mut running = job("running", "Never");
    running["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["run=forever"]);
    let cluster = Cluster::with_stuck(&[
        job("report", "Never"),
        job_of_three(),
        job_with_own_program("own"),
    ])
    .await;
    cluster.create(&running).await;
    let ran = cluster
        .rescue(&["--dry-run", "-A", "--exit-image", EXIT, "--finish", "never"])
        .await
        .exits(0);
    assert!(ran.out.starts_with("NAMESPACE   POD"), "{}", ran.out);
    assert!(
        ran.line("report").contains(" log ")
            && ran
                .line("report")
                .contains("SidecarSwapped   changes the image of log"),
        "{}",
        ran.out
    );
    assert!(
        ran.line("own").contains("NeedsImage") && ran.line("own").contains("/opt/own/server"),
        "{}",
        ran.out
    );
    let of_three: Vec<_> = ran
        .out
        .lines()
        .filter(|line| line.contains("pack-"))
        .collect();
    let waits = of_three
        .iter()
        .filter(|line| line.contains("HeadroomWait"))
        .count();
    assert!(of_three.len() == 3 && waits == 2, "{}", ran.out);
    assert!(!ran.out.contains("running-"), "{}", ran.out);
    // Without any exit image, and for programs.
    let ran = cluster
        .rescue(&["--dry-run", "-n", "default", "-o", "json"])
        .await
        .exits(0);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        ran.err.contains("note: no --exit-image is given"),
        "{}",
        ran.err
    );
    assert!(
        json["pods"]
            .as_array()
            .unwrap()
            .iter()
            .all(|pod| pod["sidecars"] == json!(["log"])),
        "{json}"
    );
    assert_eq!(cluster.writes().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_jobs_complete() {
    let cluster = Cluster::with_stuck(&[job("report", "Never"), job_of_three()]).await;
    let ran = cluster.rescue(WITH_EXIT_IMAGE).await.exits(0);
    for name in ["report", "pack"] {
        cluster.job_completes(name).await;
        assert!(
            ran.line(name).contains("Succeeded")
                && ran.line(name).contains("exit image exit code 0"),
            "{}",
            ran.out
        );
    }
    assert!(
        ran.err.contains("4 of 4 pods have ended") && ran.err.contains("0 of 4 left"),
        "{}",
        ran.err
    );
    let failed = cluster
        .server
        .peek("jobs.batch", "default", "pack")
        .unwrap()["status"]["failed"]
        .as_u64()
        .unwrap_or_default();
    assert_eq!(failed, 0);
    // The next one has nothing to do.
    let ran = cluster.rescue(WITH_EXIT_IMAGE).await.exits(0);
    assert!(
        ran.out.is_empty()
            && ran
                .err
                .contains("No pod of namespace default waits for its sidecars."),
        "{}{}",
        ran.out,
        ran.err
    );
}

/// No waiting for what only a hand from outside can change.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_ended_is_left_with_its_reason() {
    let cluster = Cluster::with_stuck(&[job("report", "Never"), job_with_own_program("own")]).await;
    let start = Instant::now();
    let ran = cluster
        .rescue(&["--exit-image", EXIT, "--finish", "never"])
        .await
        .exits(1);
    assert!(start.elapsed() < Duration::from_secs(60), "{}", ran.err);
    assert!(ran.line("report").contains("Succeeded"), "{}", ran.out);
    assert!(
        ran.line("own").contains("NeedsImage")
            && ran.line("own").contains("--path /opt/own/server"),
        "{}",
        ran.out
    );
    assert_eq!(cluster.images("own"), ["log:1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn finish_needs_no_exit_image() {
    let cluster = Cluster::with_stuck(&[job("report", "Never"), job_with_own_program("own")]).await;
    let ran = cluster
        .rescue(&["--prefer", "finish", "-o", "json"])
        .await
        .exits(0);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        json["pods"]
            .as_array()
            .unwrap()
            .iter()
            .all(|pod| pod["ended"] == true && pod["result"]["reason"] == "Succeeded"),
        "{json}"
    );
    assert_eq!(
        [cluster.images("report"), cluster.images("own")].concat(),
        ["log:1", "log:1"]
    );
    cluster.job_completes("report").await;
    cluster.job_completes("own").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_become_stuck_later_are_left_alone() {
    let mut slow = job("slow", "Never");
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 6.into();
    slow["spec"]["template"]["spec"]["containers"][1]["args"] =
        json!(["run=forever", "term=ignore"]);
    let cluster = Cluster::with_stuck(&[slow]).await;
    let mut child = start(&cluster, WITH_EXIT_IMAGE).await;
    cluster.create(&job("later", "Never")).await;
    assert!(child.wait().await.unwrap().success());
    assert!(cluster.pods().iter().all(main_has_ended));
    assert_eq!(
        (cluster.images("slow"), cluster.images("later")),
        (vec![EXIT.to_owned()], vec!["log:1".to_owned()])
    );
    assert_eq!(
        cluster
            .writes()
            .iter()
            .filter(|write| write.resource == "pods")
            .count(),
        1
    );
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
    // Whoever writes to a closed pipe is ended.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_interrupted_and_gives_up_in_time() {
    let mut slow = job("slow", "Never");
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 20.into();
    slow["spec"]["template"]["spec"]["containers"][1]["args"] =
        json!(["run=forever", "term=ignore"]);
    let cluster = Cluster::with_stuck(&[slow]).await;
    let child = start(&cluster, WITH_EXIT_IMAGE).await;
    let id = child.id().unwrap().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .await
            .unwrap()
            .success()
    );
    let code = child.wait_with_output().await.unwrap().status.code();
    assert_eq!(code, Some(1));
    let ran = cluster
        .rescue(&["--exit-image", EXIT, "--timeout", "2"])
        .await
        .exits(1);
    assert!(
        ran.err.contains("giving up after 2 s") && ran.err.contains("0 of 1 pods have ended"),
        "{}",
        ran.err
    );
    assert!(ran.line("slow").contains("SwapPending"), "{}", ran.out);
    assert!(
        ran.err
            .contains("swaplet has written Events about some of these pods"),
        "{}",
        ran.err
    );
    assert_eq!(
        cluster
            .writes()
            .iter()
            .filter(|write| write.resource == "pods")
            .count(),
        1,
        "the second goes on where the first was"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_said_and_costs_no_more_than_it_must() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    for resource in ["nodes", "configmaps", "events"] {
        cluster.forbid(|rule| rule.resource(resource));
    }
    let ran = cluster
        .rescue(&["--dry-run", "--exit-image", EXIT])
        .await
        .exits(0);
    for words in [
        "note: nodes cannot be read (that is forbidden for jane)",
        "ConfigMaps cannot be read",
        "Events cannot be read",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert!(
        ran.line("report").contains("PhaseWritten"),
        "a node that nobody sees may be a virtual one: {}",
        ran.out
    );
    cluster.forbid(|rule| rule.resource("pods").verb(Verb::Patch));
    let ran = cluster.rescue(WITH_EXIT_IMAGE).await.exits(1);
    assert!(
        ran.line("report").contains("WriteDenied")
            && ran.line("report").contains("forbidden for jane"),
        "{}",
        ran.out
    );
    cluster.forbid(|rule| rule.resource("pods").verb(Verb::List));
    let ran = cluster.rescue(&["-A", "--exit-image", EXIT]).await.exits(2);
    assert!(
        ran.err.contains(
            "cannot list the pods of all namespaces: that is forbidden for jane; -n NAMESPACE needs"
        ),
        "{}",
        ran.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_exit_code_2() {
    let cluster = Cluster::start().await;
    for (arguments, words) in [
        (&[][..], "swaplet exit-image push IMAGE"),
        (
            &["--prefer", "finish", "--finish", "never"],
            "exclude each other",
        ),
        (&["-A", "-n", "batch"], "cannot be used with"),
        (&["--timeout", "0"], "0 s is not at least 1 s"),
    ] {
        let ran = cluster.rescue(arguments).await.exits(2);
        assert!(ran.out.is_empty() && ran.err.contains(words), "{}", ran.err);
    }
}

/// A pod whose sidecar a controller has swapped, which the node does not end yet.
async fn with_swapped() -> Cluster {
    let mut slow = job("slow", "Never");
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 120.into();
    slow["spec"]["template"]["spec"]["containers"][1]["args"] =
        json!(["run=forever", "term=ignore"]);
    let cluster = Cluster::with_stuck(&[slow]).await;
    let mut child = start(&cluster, WITH_EXIT_IMAGE).await;
    let is_told = |event: &Value| event["reason"] == "SidecarSwapped";
    cluster
        .eventually("the Event", || {
            let events = cluster.server.peek_all("events");
            events.iter().any(|event| is_told(event))
        })
        .await;
    child.kill().await.unwrap();
    assert_eq!(cluster.images("slow"), [EXIT]);
    cluster
}

fn pod_writes(cluster: &Cluster) -> usize {
    let writes = cluster.writes();
    writes
        .iter()
        .filter(|write| write.resource == "pods")
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a_dry_run_and_explain_say_the_same_of_a_pod_that_is_swapped_already() {
    let cluster = with_swapped().await;
    for flags in [&[][..], &["--exit-image", "registry.example/other/exit:v2"]] {
        let dry = cluster
            .rescue(&[&["--dry-run", "-o", "json"], flags].concat())
            .await
            .exits(0);
        let dry: Value = serde_json::from_str(&dry.out).unwrap();
        let pod = cluster.pod_of("slow");
        let said = cluster
            .explain(&[&[&*pod, "-o", "json"], flags].concat())
            .await
            .exits(0);
        let said: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(dry["pods"][0]["decision"]["reason"], "SwapPending", "{dry}");
        assert_eq!(
            dry["pods"][0]["decision"]["reason"],
            said["decision"]["reason"]
        );
        assert!(
            said["remarks"]
                .to_string()
                .contains("an Event of swaplet names it"),
            "{said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_what_a_controller_has_swapped_is_not_swapped_again_to_another_exit_image() {
    let cluster = with_swapped().await;
    let other = ["--exit-image", "registry.example/other/exit:v2"];
    let ran = cluster.rescue(&other).await.exits(1);
    assert!(ran.err.contains("is left alone"), "{}", ran.err);
    assert_eq!(
        (cluster.images("slow"), pod_writes(&cluster)),
        (vec![EXIT.to_owned()], 1)
    );
    let forced = [&other[..], &["--force", "--timeout", "2"]].concat();
    cluster.rescue(&forced).await.exits(1);
    assert_eq!(cluster.images("slow"), [other[1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_beside_a_controller_its_exit_image_is_taken_and_no_other_without_force() {
    let cluster = Cluster::with_stuck(&[job("report", "Never"), job("later", "Never")]).await;
    cluster.install(&["--exit-image", EXIT]).await;
    cluster.lead().await;
    let other = ["--exit-image", "registry.example/other/exit:v2"];
    let ran = cluster.rescue(&other).await.exits(2);
    for words in [
        "swaplet-7d_1 holds the Lease default/swaplet",
        EXIT,
        "--force",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert_eq!(pod_writes(&cluster), 0);
    let ran = cluster.rescue(&["job/report"]).await.exits(0);
    assert!(
        ran.err.contains(&format!(
            "flags of Deployment default/swaplet: --exit-image={EXIT}"
        )),
        "{}",
        ran.err
    );
    assert_eq!(
        (cluster.images("report"), cluster.images("later")),
        (vec![EXIT.to_owned()], vec!["log:1".to_owned()]),
        "only the Job that is named"
    );
    let ran = cluster.explain(&["job/later", "-o", "json"]).await.exits(0);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        said["pods"][0]["remarks"].to_string().contains(EXIT),
        "{said}"
    );
    let ran = cluster.rescue(&["job/report"]).await.exits(2);
    assert!(ran.err.contains("Job report is not stuck"), "{}", ran.err);
    let none = ["-l", "job-name=other", "--dry-run"];
    assert!(!cluster.rescue(&none).await.exits(0).out.contains("later"));
    let one = ["-l", "job-name=later", "--dry-run"];
    assert!(cluster.rescue(&one).await.exits(0).out.contains("later"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_where_the_lease_cannot_be_read_that_is_said_and_nothing_is_done_without_force() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    cluster.install(&["--exit-image", EXIT]).await;
    cluster.lead().await;
    cluster.forbid(|rule| rule.resource("leases"));
    let other = ["--exit-image", "registry.example/other/exit:v2"];
    let ran = cluster.rescue(&other).await.exits(2);
    for words in [
        "the Lease default/swaplet cannot be read (",
        "that is forbidden for jane",
        "--force",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert_eq!(pod_writes(&cluster), 0);
    // With its own exit image both do the same.
    cluster.rescue(&[]).await.exits(0);
    assert_eq!(cluster.images("report"), [EXIT]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_the_jobs_of_a_cron_job_are_explained() {
    let mut nightly = job("nightly-1", "Never");
    nightly["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "CronJob",
        "name": "nightly", "uid": "c0ffee", "controller": true}]);
    let cluster = Cluster::with_stuck(&[nightly, job("other", "Never")]).await;
    let ran = cluster
        .explain(&["cronjob/nightly", "-o", "json"])
        .await
        .exits(0);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    let pods = said["pods"].as_array().unwrap();
    let names: Vec<_> = pods.iter().map(|pod| pod["name"].as_str()).collect();
    assert_eq!(names, [Some(&*cluster.pod_of("nightly-1"))], "{said}");
    let ran = cluster.explain(&["cj", "weekly"]).await.exits(2);
    assert!(ran.err.contains("CronJob default/weekly"), "{}", ran.err);
}

/// It is stopped before it makes a pod: what it would run with is told by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_takes_its_images_from_the_installation() {
    let cluster = Cluster::start().await;
    let node = || cluster.server.peek_all("nodes").len() == 1;
    cluster.eventually("the node", node).await;
    let park = "registry.example/swaplet/park:v1";
    cluster
        .install(&["--exit-image", EXIT, "--restart", "--park-image", park])
        .await;
    cluster.forbid(|rule| rule.resource("pods").verb(Verb::Create));
    let probe = async |given: &[&str]| {
        let arguments = [&["node-1"], given].concat();
        let ran = Ran::of(cluster.command("probe", &arguments).output().await.unwrap());
        ran.out + &ran.err
    };
    let of_the_installation = |said: &str, flag: &str, image: &str| {
        said.contains(&format!("--{flag} {image} comes from the installation"))
    };
    let said = probe(&[]).await;
    assert!(of_the_installation(&said, "exit-image", EXIT), "{said}");
    assert!(of_the_installation(&said, "park-image", park), "{said}");
    assert!(said.contains("that is forbidden for jane"), "{said}");

    let said = probe(&["--exit-image", "registry.example/mine:v1"]).await;
    assert!(
        !of_the_installation(&said, "exit-image", EXIT)
            && of_the_installation(&said, "park-image", park),
        "what is given by hand counts more: {said}"
    );
}

/// Whoever may make Deployments somewhere must not choose what is written to the pods of others.
#[tokio::test(flavor = "multi_thread")]
async fn flags_of_a_deployment_count_only_if_its_account_may_change_the_pods() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    cluster
        .install(&["--exit-image", "evil.example/exit:v1"])
        .await;
    cluster.server.set_webhook(|resource, object| {
        if resource == "subjectaccessreviews" {
            object["status"] = json!({"allowed": false});
        }
    });
    let ran = cluster.rescue(&[]).await.exits(2);
    assert!(ran.err.contains("may not change these pods"), "{}", ran.err);
    // Nobody who could be asked is no yes.
    cluster.forbid(|rule| rule.resource("subjectaccessreviews"));
    let ran = cluster.rescue(&[]).await.exits(2);
    assert!(ran.err.contains("--state-namespace"), "{}", ran.err);
    assert_eq!(pod_writes(&cluster), 0);
    let ran = cluster.rescue(&["--dry-run"]).await.exits(0);
    assert!(ran.out.contains("evil.example/exit:v1"), "{}", ran.out);
}
