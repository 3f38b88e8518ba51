//! The machine's own `kubectl` against the loopback port. Without one these tests say so and pass.

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use serde_json::json;
use swaplet_testbed::{ApiServer, Clock};

const JOB: &str = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'm:1'}]}}}}";

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: 'main:1'}
  - {name: side, image: 'side:1'}
";

/// A server on a port, with a kubeconfig for it.
struct Served {
    server: ApiServer,
    home: tempfile::TempDir,
    task: JoinHandle<std::io::Result<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Served {
    /// None, with a line that says so, where there is no kubectl.
    async fn start() -> Option<Self> {
        if Command::new("kubectl")
            .args(["version", "--client"])
            .output()
            .await
            .is_err()
        {
            eprintln!("SKIPPED: no kubectl on this machine");
            return None;
        }
        let server = ApiServer::new(Clock::default());
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(
            home.path().join("config"),
            ApiServer::kubeconfig(listener.local_addr().unwrap()),
        )
        .unwrap();
        let task = tokio::spawn({
            let server = server.clone();
            async move { server.serve(listener).await }
        });
        Some(Self { server, home, task })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(line.split(' '))
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs kubectl; gives what it prints, whatever it says.
    async fn run(&self, line: &str, input: &str) -> Output {
        let mut child = self.command(line).spawn().unwrap();
        // The dashes tell kubectl that this is YAML, even if it begins with a brace.
        child
            .stdin
            .take()
            .unwrap()
            .write_all(format!("---\n{input}").as_bytes())
            .await
            .unwrap();
        timeout(Duration::from_secs(120), child.wait_with_output())
            .await
            .unwrap()
            .unwrap()
    }

    /// Runs kubectl, which must succeed.
    async fn kubectl(&self, line: &str, input: &str) -> String {
        let output = self.run(line, input).await;
        assert!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes an event of the pod.
    async fn tell_of_the_pod(&self) {
        let pod = self.server.peek("pods", "default", "p").unwrap();
        let reference = json!({"kind": "Pod", "namespace": "default", "name": "p", "uid": pod["metadata"]["uid"]});
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Warning", "reason": "Swapped",
            "message": "it was time", "involvedObject": reference, "lastTimestamp": "2026-01-01T00:00:00Z", "count": 2});
        self.kubectl("create -f -", &event.to_string()).await;
    }

    /// Runs kubectl, which must fail.
    async fn refused(&self, line: &str, input: &str) -> String {
        let output = self.run(line, input).await;
        assert!(!output.status.success(), "{line}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[tokio::test]
async fn applies_changes_and_deletes() {
    let Some(served) = Served::start().await else {
        return;
    };
    let changed = PODS.replace("side:1", "side:2");
    for (line, input, says) in [
        ("apply -f -", JOB, "job.batch/j created\n"),
        ("apply -f -", PODS, "pod/p created\n"),
        ("apply -f -", PODS, "pod/p unchanged\n"),
        ("apply -f -", &changed, "pod/p configured\n"),
        ("set image pod/p side=side:3", "", "pod/p image updated\n"),
        ("label pod p a=b", "", "pod/p labeled\n"),
        ("annotate pod p c=d", "", "pod/p annotated\n"),
    ] {
        assert_eq!(served.kubectl(line, input).await, says);
    }
    let patch = r#"patch pod p --type=json -p [{"op":"test","path":"/spec/containers/1/image","value":"other"}]"#;
    assert!(
        served
            .refused(patch, "")
            .await
            .contains("the server rejected our request due to an error in our request")
    );
    let stored = served.server.peek("pods", "default", "p").unwrap();
    assert_eq!(
        (
            &stored["spec"]["containers"][1]["image"],
            &stored["metadata"]["labels"]["a"]
        ),
        (&"side:3".into(), &"b".into())
    );
    assert_eq!(
        served
            .kubectl(
                "wait --for=jsonpath={.status.phase}=Pending pod/p --timeout=5s",
                ""
            )
            .await,
        "pod/p condition met\n"
    );
    let bad = PODS
        .replace("name: p,", "name: q,")
        .replace("image: 'main:1'", "imagee: 'main:1'");
    let unknown = "unknown field \"spec.containers[0].imagee\"";
    for (line, input, says) in [
        ("apply -f -", &*bad, unknown),
        ("logs p -c main", "", "runs no containers"),
    ] {
        assert!(served.refused(line, input).await.contains(says));
    }
    for (line, says) in [
        ("delete pod p", "pod \"p\" deleted"),
        ("delete job j", "job.batch \"j\" deleted"),
    ] {
        assert!(served.kubectl(line, "").await.starts_with(says));
    }
    let is_empty = |resource| served.server.peek_all(resource).is_empty();
    assert!(is_empty("pods") && is_empty("jobs.batch"));
}

#[tokio::test]
async fn shows_tables_descriptions_and_events() {
    let Some(served) = Served::start().await else {
        return;
    };
    served.kubectl("create -f -", PODS).await;
    served.kubectl("create -f -", JOB).await;
    served.tell_of_the_pod().await;
    let columns = |text: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let pods = columns(&served.kubectl("get pods", "").await);
    assert_eq!(pods[0], "NAME READY STATUS RESTARTS AGE");
    assert!(pods[1].starts_with("p 0/2 Pending 0 "), "{}", pods[1]);
    let wide = columns(&served.kubectl("get pods -o wide", "").await);
    assert!(
        wide[0].ends_with("IP NODE NOMINATED NODE READINESS GATES")
            && wide[1].ends_with("<none> <none> <none> <none>")
    );
    let jobs = columns(&served.kubectl("get jobs", "").await);
    assert_eq!(jobs[0], "NAME STATUS COMPLETIONS DURATION AGE");
    assert!(jobs[1].starts_with("j Running 0/1 "));
    let events = columns(&served.kubectl("get events", "").await);
    assert!(
        events[0] == "LAST SEEN TYPE REASON OBJECT MESSAGE"
            && events[1].ends_with("Warning Swapped pod/p it was time"),
        "{events:?}"
    );
    let description = served.kubectl("describe pod p", "").await;
    assert!(
        description.contains("Image:        side:1")
            && description.contains("Swapped")
            && description.contains("it was time"),
        "{description}"
    );
    assert!(
        served
            .kubectl("describe job j", "")
            .await
            .contains("0 Active")
    );
    assert!(
        served
            .kubectl(
                "get pods -o jsonpath={.items[*].metadata.name} -l app=x",
                ""
            )
            .await
            .contains('p')
    );
    assert!(
        served
            .kubectl("api-resources", "")
            .await
            .contains("containerrecreaterequests")
    );
}

/// kubectl sends protobuf, and no JSON where that is refused.
#[tokio::test]
async fn a17_what_kubectl_creates_by_name_is_created_or_refused_with_what_to_do() {
    let Some(served) = Served::start().await else {
        return;
    };
    for (line, created) in [
        ("create ns reports", "namespace/reports created\n"),
        (
            "create configmap c -n reports --from-literal=a=b",
            "configmap/c created\n",
        ),
        (
            "create sa runner -n reports",
            "serviceaccount/runner created\n",
        ),
    ] {
        assert_eq!(served.kubectl(line, "").await, created);
    }
    let map = served.server.peek("configmaps", "reports", "c").unwrap();
    assert_eq!(map["data"], json!({"a": "b"}));
    let said = served.refused("create deployment d --image=i", "").await;
    assert!(
        said.contains("--dry-run=client -o yaml | kubectl create -f -"),
        "{said}"
    );
}

#[tokio::test]
async fn follows_changes() {
    let Some(served) = Served::start().await else {
        return;
    };
    served.kubectl("create -f -", PODS).await;
    let mut child = served.command("get pods -w").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        timeout(Duration::from_secs(120), lines.next_line())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    };
    assert!(next().await.starts_with("NAME"));
    assert!(next().await.contains("Pending"));
    let patch =
        r#"patch pod p --subresource=status --type=merge -p {"status":{"phase":"Running"}}"#;
    served.kubectl(patch, "").await;
    assert!(next().await.contains("Running"));
    child.kill().await.unwrap();
}

#[tokio::test]
async fn custom_resources_come_with_their_definition() {
    let Some(served) = Served::start().await else {
        return;
    };
    let crd = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: policies.x.io}, spec: {group: x.io, scope: Namespaced,
        names: {plural: policies, kind: Policy, shortNames: [pol]}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}},
        subresources: {status: {}}, additionalPrinterColumns: [{name: Mode, type: string, jsonPath: .spec.mode}]}]}}";
    served.kubectl("apply -f -", crd).await;
    served
        .kubectl(
            "wait --for=condition=established crd/policies.x.io --timeout=5s",
            "",
        )
        .await;
    served
        .kubectl(
            "apply -f -",
            "{apiVersion: x.io/v1, kind: Policy, metadata: {name: a}, spec: {mode: fast}}",
        )
        .await;
    let table = served.kubectl("get pol", "").await;
    assert!(table.contains("MODE") && table.contains("fast"), "{table}");
}

#[tokio::test]
async fn refuses_to_listen_beyond_this_machine() {
    let server = ApiServer::new(Clock::default());
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    assert!(server.serve(listener).await.is_err());
}
