//! What the controller logs, in both forms.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use swaplet_testbed::{ApiServer, Clock};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use super::{EXIT, Folder};

/// A cluster, and a controller of which the log is read.
struct Cluster {
    client: Client,
    _folder: Folder,
    log: Lines<BufReader<ChildStderr>>,
    _controller: Child,
}

impl Cluster {
    async fn start(config: &str, log_format: &str) -> Self {
        let server = ApiServer::new(Clock::default());
        let client = server.client_as("user");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = Folder::with(config);
        let kubeconfig = folder.0.path().join("kubeconfig");
        std::fs::write(
            &kubeconfig,
            ApiServer::kubeconfig(listener.local_addr().unwrap()),
        )
        .unwrap();
        let served = server.clone();
        tokio::spawn(async move { served.serve(listener).await });
        let flags = [
            "--coexist=own",
            "--finish=never",
            "--log-format",
            log_format,
            "--listen=127.0.0.1:0",
            "--kubeconfig",
        ];
        let command = folder.command(&flags, &[]);
        let mut command = Command::from(command);
        let mut controller = command
            .arg(kubeconfig)
            .kill_on_drop(true)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(controller.stderr.take().unwrap()).lines();
        let cluster = Self {
            client,
            _folder: folder,
            log,
            _controller: controller,
        };
        cluster
            .post(
                "/api/v1/nodes",
                &json!({"metadata": {"name": "node-1", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}}),
            )
            .await;
        cluster
    }

    async fn send(&self, method: Method, path: &str, form: &str, body: &Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, form);
        self.client
            .request::<Value>(request.body(body.to_string().into_bytes()).unwrap())
            .await
            .unwrap();
    }

    async fn post(&self, path: &str, body: &Value) {
        self.send(Method::POST, path, "application/json", body)
            .await;
    }

    async fn create_pod(&self, name: &str, exit_image: &str) {
        let env = json!([
            {"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"},
            {"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE", "value": exit_image},
        ]);
        let pod = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"restartPolicy": "OnFailure", "nodeName": "node-1", "containers": [
                {"name": "main", "image": "main:1"}, {"name": "side", "image": "side:1", "env": env},
            ]},
        });
        self.post("/api/v1/namespaces/default/pods", &pod).await;
        let state = |name: &str, state: Value| json!({"name": name, "image": name, "imageID": "", "ready": false, "restartCount": 0, "state": state});
        let statuses = [
            state("main", json!({"terminated": {"exitCode": 0}})),
            state(
                "side",
                json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
            ),
        ];
        let status = json!({"status": {"phase": "Running", "containerStatuses": statuses}});
        let path = format!("/api/v1/namespaces/default/pods/{name}/status");
        self.send(
            Method::PATCH,
            &path,
            "application/merge-patch+json",
            &status,
        )
        .await;
    }

    /// Reads the log up to a line with these words, which it has to have.
    async fn logs(&mut self, words: &str) -> String {
        let mut before = Vec::new();
        let found = async {
            while let Some(line) = self.log.next_line().await.unwrap() {
                if line.contains(words) {
                    return line;
                }
                before.push(line);
            }
            panic!("the controller has ended")
        };
        let found = timeout(Duration::from_secs(300), found).await;
        found.unwrap_or_else(|_| panic!("nothing of {words:?} in {before:#?}"))
    }
}

/// The names of the fields of a line of text, `name=value` each; values with spaces are in quotes.
fn fields_of_text(line: &str) -> BTreeSet<&str> {
    let outside_quotes = line.split('"').step_by(2);
    outside_quotes
        .flat_map(str::split_whitespace)
        .filter_map(|word| Some(word.split_once('=')?.0))
        .collect()
}

#[tokio::test]
async fn the_log_has_the_same_fields_in_both_forms() {
    let mut lines = Vec::new();
    for format in ["text", "json"] {
        let mut cluster = Cluster::start(&format!("exit-images: ['{EXIT}']"), format).await;
        cluster.create_pod("p", EXIT).await;
        lines.push(cluster.logs("main containers are done").await);
    }
    assert!(
        !lines[0].contains('\u{1b}'),
        "no colours where nobody looks: {:?}",
        lines[0]
    );
    assert!(
        lines[0].contains("  INFO main containers are done; ending side (image side:1 -> "),
        "{}",
        lines[0]
    );
    let json: BTreeMap<&str, Value> = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(
        (&json["level"], &json["pod"]),
        (&json!("INFO"), &json!("p"))
    );
    let of_every_line = ["timestamp", "level", "message"];
    let fields: BTreeSet<_> = json
        .keys()
        .copied()
        .filter(|field| !of_every_line.contains(field))
        .collect();
    assert_eq!(fields, ["namespace", "pod", "reason", "uid"].into());
    assert_eq!(fields_of_text(&lines[0]), fields);
}
