//! The demo, through the real binary and with the real kubectl.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn demo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swaplet-demo"));
    command.arg("demo");
    command
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn manifest(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("job.yaml");
    std::fs::File::create(&path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    path
}

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: mine}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
        - {name: main, image: registry.example/app:v1, args: [run=500ms]}
        - name: log
          image: registry.example/log:v1
          env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: 'true'}]
";

#[test]
fn the_jobs_of_the_demo_complete_and_the_story_is_told() {
    let output = demo().output().unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for job in ["extract", "transform", "load"] {
        assert!(
            text.lines().any(|line| line.starts_with(job)
                && line.contains("Complete")
                && line.ends_with('1')),
            "{job}: {text}"
        );
    }
    assert_eq!(text.matches("  swaps ").count(), 3, "{text}");
    assert_eq!(text.matches("SidecarEnded").count(), 3, "{text}");
    assert!(!text.contains("SidecarSwapped"), "{text}");
    assert!(
        text.contains("its own program with 143") && text.contains("its own program with 137"),
        "{text}"
    );
}

/// That of the README.
#[test]
fn a_users_own_job_completes() {
    let readme = include_str!("../README.md");
    let (_, job) = readme.split_once("```yaml\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = demo()
        .arg("-f")
        .arg(manifest(folder.path(), job.split_once("```").unwrap().0))
        .output()
        .unwrap();
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.lines()
            .any(|line| line.starts_with("report") && line.contains("Complete")),
        "{text}"
    );
    assert!(text.contains("SidecarEnded"), "{text}");
}

/// Sidecars that nobody has marked.
#[test]
fn the_examples_of_policies_end() {
    for (file, ending, ended) in [
        ("cronjob-collector", "report", 1),
        ("job-injected-proxy", "import", 1),
        ("indexed-job", "train", 2),
        ("bare-pod", "migrate", 1),
        ("custom-owner", "flow-main-1234", 1),
    ] {
        let path = format!(
            "{}/../../docs/examples/{file}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let output = demo().args(["-f", &path]).output().unwrap();
        let text = text(&output);
        assert!(output.status.success(), "{file}: {text}");
        assert!(
            text.lines()
                .any(|line| line.contains(ending) && line.contains(" Succeeded ")),
            "{file}: {text}"
        );
        assert_eq!(
            text.matches("SidecarEnded").count(),
            ended,
            "{file}: {text}"
        );
    }
}

/// Its main runs for ever.
#[test]
fn a_job_that_does_not_end_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let file = manifest(folder.path(), &JOB.replace("run=500ms", "run=forever"));
    let output = demo()
        .args(["--timeout", "6", "-f"])
        .arg(file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("giving up"), "{}", text(&output));
}

const ALL_SORTS: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: nightly, namespace: reports}
  spec:
    schedule: '0 3 * * *'
    jobTemplate:
      spec:
        template:
          spec:
            restartPolicy: Never
            containers: [{name: main, image: registry.example/app:v1, args: [run=500ms]}]
            volumes: [{name: scripts, configMap: {name: scripts, defaultMode: 0755}}]
- apiVersion: batch/v1
  kind: Job
  metadata: {name: train}
  spec:
    completionMode: Indexed
    completions: 2
    parallelism: 2
    template:
      spec:
        restartPolicy: Never
        containers: [{name: main, image: registry.example/app:v1, args: [run=500ms]}]
- apiVersion: batch/v1
  kind: Job
  metadata: {name: queued}
  spec:
    managedBy: kueue.x-k8s.io/multikueue
    template: {spec: {restartPolicy: Never, containers: [{name: main, image: registry.example/app:v1}]}}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: reader}
";

/// Nothing is marked, nothing is skipped without a word.
#[test]
fn a3_a4_what_kubectl_takes_runs_in_the_demo_or_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo()
        .args(["--timeout", "30", "-f"])
        .arg(manifest(folder.path(), ALL_SORTS))
        .output()
        .unwrap();
    let text = text(&output);
    for said in [
        "created once, now, from cronjob/nightly",
        "job/nightly-1",
        "it is left alone: spec.managedBy names another controller, kueue.x-k8s.io/multikueue",
        "Role reader is left out",
        "No container is marked as a sidecar",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    for pod in ["train-0-", "train-1-", "nightly-1-"] {
        let row = text.lines().rfind(|line| line.contains(pod)).unwrap();
        assert!(
            row.contains("Complete") && row.contains("Succeeded"),
            "{text}"
        );
    }
    assert!(!text.contains("giving up"), "{text}");
}

/// The scheduler has said why.
#[test]
fn a3_who_gives_up_says_what_pods_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let windows = JOB.replace(
        "restartPolicy: Never",
        "restartPolicy: Never\n      nodeSelector: {kubernetes.io/os: windows}",
    );
    let output = demo()
        .args(["--timeout", "2", "-f"])
        .arg(manifest(folder.path(), &windows))
        .output()
        .unwrap();
    let text = text(&output);
    let why =
        "is Pending: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector";
    assert!(text.contains(why), "{text}");
}

/// In words, once, without the insides of the client.
#[test]
fn a4_a_refusal_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = JOB.replace("restartPolicy: Never", "restartPolicy: Always");
    let output = demo()
        .arg("-f")
        .arg(manifest(folder.path(), &wrong))
        .output()
        .unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("error: Job mine: "), "{text}");
    assert_eq!(text.matches("is invalid").count(), 1, "{text}");
    assert!(
        !text.contains("Status {") && !text.contains("ApiError"),
        "{text}"
    );
}

/// While the Jobs still run, too.
#[test]
fn a14_no_kubeconfig_is_left_behind() {
    for signal in ["-INT", "-TERM"] {
        let mut serving = Serving::start(&[]);
        assert!(Path::new(&serving.kubeconfig).exists());
        let id = serving.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success());
        serving.child.wait().unwrap();
        assert!(!Path::new(&serving.kubeconfig).exists(), "{signal}");
    }
}

/// Nobody knows what these nodes do with a swap, and a pod under Never does not find out.
#[test]
fn a_job_completes_on_virtual_nodes_that_would_lose_it() {
    for profile in ["inert", "rejects"] {
        let folder = tempfile::tempdir().unwrap();
        let output = demo()
            .args(["--profile", profile, "-f"])
            .arg(manifest(folder.path(), JOB))
            .output()
            .unwrap();
        let text = text(&output);
        assert!(output.status.success(), "{text}");
        assert!(
            text.contains("PhaseWritten") && !text.contains("  swaps "),
            "{text}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let output = demo().args(["-f", "/no/such/file.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("/no/such/file.yaml"),
        "{}",
        text(&output)
    );
    let output = demo().args(["--serve", "192.0.2.1:80"]).output().unwrap();
    assert!(text(&output).contains("loopback"), "{}", text(&output));
}

/// A demo that serves, ended by its id when it is dropped.
struct Serving {
    child: Child,
    kubeconfig: String,
    told: Arc<Mutex<Vec<String>>>,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut child = demo()
            .arg("--serve")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let kubeconfig = first
            .strip_prefix("export KUBECONFIG=")
            .unwrap_or_else(|| panic!("{first}"))
            .to_owned();
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = told.clone();
        // The demo goes on telling; a closed pipe must not end it.
        std::thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            lines.for_each(|line| telling.lock().unwrap().push(line));
        });
        Self {
            child,
            kubeconfig,
            told,
        }
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new("kubectl")
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .expect("kubectl");
        text(&output)
    }

    fn eventually(&self, arguments: &[&str], wanted: &str) -> String {
        let mut seen = String::new();
        for _ in 0..100 {
            seen = self.kubectl(arguments);
            if seen.contains(wanted) {
                return seen;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        panic!("kubectl {arguments:?} never showed {wanted}: {seen}");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

/// As docs/install/billing.md shows it: the sidecar runs on, and kubectl looks at containers.
#[test]
fn kubectl_calls_a_succeeded_pod_of_a_virtual_node_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let file = manifest(folder.path(), JOB);
    let serving = Serving::start(&["--profile", "inert", "-f", file.to_str().unwrap()]);
    let phase = "jsonpath={.items[*].status.phase}";
    serving.eventually(
        &["get", "pods", "-l", "job-name=mine", "-o", phase],
        "Succeeded",
    );
    let pods = serving.kubectl(&["get", "pods", "-l", "job-name=mine", "--no-headers"]);
    let columns: Vec<_> = pods.split_whitespace().take(3).collect();
    assert_eq!(columns[1..], ["1/2", "NotReady"], "{pods}");
}

/// What whoever installs swaplet looks at: the end of `kubectl describe`, and the events by time.
fn events_are_in_their_order(serving: &Serving, described: &str) {
    let events = described.split("Events:").nth(1).unwrap();
    let place = |reason: &str| {
        let found = events.lines().position(|line| line.contains(reason));
        found.unwrap_or_else(|| panic!("a5: {reason}: {events}"))
    };
    assert!(
        place("Started container main") < place("SidecarEnded"),
        "a5: {events}"
    );
    assert!(
        events
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .contains("SidecarEnded"),
        "a5: {events}"
    );
    let sorted = serving.kubectl(&["get", "events", "--sort-by=.lastTimestamp"]);
    let last = sorted.trim_end().lines().rev().take(12);
    assert!(
        last.into_iter().any(|line| line.contains("SidecarEnded")),
        "a5: {sorted}"
    );
    let all = serving.kubectl(&["get", "events"]);
    assert!(
        !all.contains("FailedScheduling"),
        "a3: the node was there first: {all}"
    );
}

const REQUESTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: app, image: registry.example/web:v1, args: [run=forever]}]
---
apiVersion: apps.kruise.io/v1alpha1
kind: ImageListPullJob
metadata: {name: pull}
spec: {images: [registry.example/next:v2], completionPolicy: {type: Always}}
";

const RECREATE: &str = "
apiVersion: apps.kruise.io/v1alpha1
kind: ContainerRecreateRequest
metadata: {name: again}
spec: {podName: web, containers: [{name: app}]}
";

fn requests_and_pull_jobs_are_done(serving: &Serving) {
    let folder = tempfile::tempdir().unwrap();
    let apply = |text| {
        let file = manifest(folder.path(), text);
        serving.kubectl(&["apply", "-f", file.to_str().unwrap()])
    };
    let applied = apply(REQUESTS);
    assert_eq!(applied.matches("created").count(), 2, "{applied}");
    serving.kubectl(&["wait", "--for=condition=Ready", "--timeout=30s", "pod/web"]);
    apply(RECREATE);
    let requests = serving.eventually(&["get", "crr"], "Completed");
    let header = requests.lines().next().unwrap();
    assert!(
        header.contains("PHASE") && header.contains("POD"),
        "{requests}"
    );
    assert!(
        requests.contains("web") && requests.contains("demo-node"),
        "{requests}"
    );
    let pod = serving.kubectl(&["get", "pod", "web"]);
    assert!(
        pod.lines().last().unwrap().contains(" 1 "),
        "restarted once: {pod}"
    );
    let path = "-o=jsonpath={.status.completionTime}";
    serving.eventually(&["get", "imagelistpulljob", "pull", path], "T");
}

/// What stays impossible says what to do; what is wrong is refused as a real server does it.
fn refusals_are_kubectls(serving: &Serving) {
    let made = serving.kubectl(&["create", "namespace", "mine"]);
    assert!(
        made.contains("created") || made.contains("--dry-run=client -o yaml"),
        "a17: {made}"
    );
    let folder = tempfile::tempdir().unwrap();
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\n";
    let file = manifest(folder.path(), role);
    let applied = serving.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    assert!(
        applied.contains("no matches for kind \"Role\""),
        "a17: {applied}"
    );
    let selected = serving.kubectl(&["get", "pods", "-l", "app in ("]);
    assert!(
        selected.contains("unable to parse requirement"),
        "a17: {selected}"
    );
}

/// Plain kubectl works against it, and shows an operator why the sidecar was stopped.
#[test]
fn kubectl_works_against_the_served_demo() {
    let serving = Serving::start(&[]);
    serving.eventually(&["get", "jobs"], "load");
    serving.kubectl(&[
        "wait",
        "--for=condition=Complete",
        "--timeout=60s",
        "job/extract",
        "job/transform",
        "job/load",
    ]);
    let jobs = serving.eventually(&["get", "jobs"], "Complete");
    assert_eq!(jobs.matches("1/1").count(), 3, "{jobs}");
    let pod = serving.eventually(
        &["describe", "pod", "-l", "job-name=extract"],
        "SidecarEnded",
    );
    assert!(
        pod.contains("ended because main containers were done: log-collector (image ")
            && !pod.contains("SidecarSwapped"),
        "{pod}"
    );
    events_are_in_their_order(&serving, &pod);
    requests_and_pull_jobs_are_done(&serving);
    refusals_are_kubectls(&serving);
    let folder = tempfile::tempdir().unwrap();
    let file = manifest(folder.path(), JOB);
    let applied = serving.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    assert!(applied.contains("job.batch/mine created"), "{applied}");
    let waited = serving.kubectl(&[
        "wait",
        "--for=condition=Complete",
        "--timeout=60s",
        "job/mine",
    ]);
    assert!(waited.contains("condition met"), "{waited}");
    let told = serving.told.lock().unwrap().join("\n");
    assert!(
        told.lines()
            .any(|line| line.contains("job/mine") && line.contains("created")),
        "the story goes on: {told}"
    );
    assert!(
        serving
            .kubectl(&["delete", "job", "mine"])
            .contains("deleted")
    );
}

/// The kernel takes its connection, and nobody answers.
#[test]
fn a6_the_mock_node_ends_within_the_request_timeout_on_a_silent_server() {
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let config = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}], current-context: c}}"
    );
    std::fs::write(&kubeconfig, config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_swaplet-demo"))
        .args(["mock-node", "--profile", "inert", "--request-timeout", "1s"])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    let expected = format!("the API server {address} has not answered within 1 s");
    assert!(error.contains(&expected), "{error}");
}
