//! The demo serves, and plain kubectl works against it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{JOB, demo, manifest, text};

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

/// While the Jobs still run, too.
#[test]
fn a14_u62_no_kubeconfig_is_left_behind() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut serving = Serving::start(&[]);
        assert!(Path::new(&serving.kubeconfig).exists());
        let id = serving.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success());
        serving.child.wait().unwrap();
        assert!(!Path::new(&serving.kubeconfig).exists(), "{signal}");
    }
}

#[test]
fn kubectl_reaches_the_demo_by_ipv6() {
    let serving = Serving::start(&["[::1]:0"]);
    let config = std::fs::read_to_string(&serving.kubeconfig).unwrap();
    assert!(config.contains("http://[::1]:"), "{config}");
    serving.eventually(&["get", "jobs"], "load");
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
