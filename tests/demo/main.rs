//! The demo, through the real binary and with the real kubectl.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod manifests;
mod served;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

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
