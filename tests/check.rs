//! `swaplet check` and `swaplet exit-image push --for`, through the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a step of a test that fails is a panic"
)]

mod ci;
mod gate;
mod hints;
mod input;
mod live;
mod marks;
mod policies;
mod pulled;
mod push;
mod scripts;
mod sources;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const MARK: &str = "env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"true\"}]";

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl Ran {
    /// What was printed, without the breaks of its lines.
    fn flat(&self) -> String {
        self.out.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn swaplet(args: &[&str]) -> Ran {
    Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(args)
        .env_remove("KUBECONFIG")
        .env_remove("CI")
        .output()
        .unwrap()
        .into()
}

fn with_stdin(args: &[&str], text: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(args)
        .env_remove("CI")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap().into()
}

fn check(text: &str, more: &[&str]) -> Ran {
    with_stdin(&[&["check", "-f", "-"], more].concat(), text)
}

fn json(text: &str) -> Value {
    let ran = check(text, &["-o", "json"]);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

/// A Job with a main container and these other ones.
fn job(name: &str, containers: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: batch}}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      \
         volumes: [{{name: work, emptyDir: {{}}}}]\n      containers:\n      - {{name: main, image: \"app:1\"}}\n{containers}"
    )
}

fn sidecar(name: &str, fields: &str) -> String {
    format!("      - {{name: {name}, image: \"side:1\", {MARK}, {fields}}}\n")
}

fn good() -> String {
    job("good", &sidecar("proxy", "command: [/usr/local/bin/envoy]"))
}

/// A JobSet with these fields of its own, of the Job and of the pods.
fn job_set(own: &str, of_job: &str, of_pods: &str) -> String {
    format!(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: set, namespace: batch}}\nspec: {{{own}replicatedJobs: [{{name: a, template: {{spec: {{{of_job}{}}}}}}}]}}\n",
        template(of_pods)
    )
}

/// A ScaledJob of KEDA with these fields of the Job and of the pods.
fn scaled_job(of_job: &str, of_pods: &str) -> String {
    format!(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nmetadata: {{name: scaled, namespace: batch}}\nspec: {{jobTargetRef: {{{of_job}{}}}}}\n",
        template(of_pods)
    )
}

fn template(of_pods: &str) -> String {
    format!(
        "template: {{spec: {{{of_pods}containers: [{{name: main, image: \"app:1\"}}, {{name: istio-proxy, image: \"side:1\", command: [sh], {MARK}}}]}}}}"
    )
}

fn unknown() -> String {
    job("unknown", &sidecar("own", "command: [/opt/own/server]"))
}

fn on_a_volume() -> String {
    job(
        "volume",
        &sidecar(
            "tool",
            "command: [/work/tool], volumeMounts: [{name: work, mountPath: /work}]",
        ),
    )
}

fn verdicts(report: &Value) -> Vec<&str> {
    report["sidecars"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["verdict"].as_str().unwrap())
        .collect()
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_table_has_a_line_for_each_sidecar_and_the_exit_code_is_the_verdict() {
    let ran = check(&good(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<Vec<&str>> = ran
        .out
        .lines()
        .map(|line| {
            line.split("   ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        lines[0],
        ["NAMESPACE", "NAME", "CONTAINER", "VERDICT", "EXECUTES"]
    );
    assert_eq!(
        lines[1],
        [
            "batch",
            "Job/good",
            "proxy",
            "Runnable",
            "/usr/local/bin/envoy"
        ]
    );
    assert_eq!(
        lines[2..],
        [["1 sidecar in 1 pod template: 1 ends, 0 do not"]]
    );
    let ran = check(
        &format!("{}---\n{}---\n{}", good(), unknown(), on_a_volume()),
        &[],
    );
    assert_eq!(ran.code, 1);
    let summary = ran.out.lines().last();
    assert_eq!(
        summary,
        Some("3 sidecars in 3 pod templates: 1 ends, 2 do not")
    );
    assert!(
        ran.out.contains("exit-image push REF --for")
            && ran.out.contains("/opt/own/server")
            && ran.out.contains("ProgramOnVolume").eq(&false)
    );
    assert!(ran.out.contains("is on a volume"), "{}", ran.out);
}

#[test]
fn a_derived_image_can_be_promised() {
    assert_eq!(check(&unknown(), &["--allow-derived"]).code, 0);
    assert_eq!(check(&on_a_volume(), &["--allow-derived"]).code, 1);
}

#[test]
fn programs_read_json_or_yaml() {
    let report = json(&format!("{}---\n{}", unknown(), on_a_volume()));
    assert_eq!(verdicts(&report), ["NeedsImage", "NotSwappable"]);
    let row = &report["sidecars"][0];
    assert_eq!(
        (&row["kind"], &row["name"], &row["place"]),
        (
            &"Job".into(),
            &"unknown".into(),
            &"spec.template.spec".into()
        )
    );
    assert_eq!(row["paths"], serde_json::json!(["/opt/own/server"]));
    assert_eq!(report["sidecars"][1]["reason"], "ProgramOnVolume");
    assert_eq!(report["summary"]["notOk"], 2);
    let yaml = check(&unknown(), &["-o", "yaml"]).out;
    assert_eq!(
        serde_saphyr::from_str::<Value>(&yaml).unwrap(),
        json(&unknown())
    );
}

#[test]
fn values_of_variables_are_not_shown() {
    let text = job(
        "s",
        &sidecar("side", "command: [sh]")
            .replace("env: [", "env: [{name: PASSWORD, value: hunter2}, "),
    );
    for output in ["table", "wide", "json", "yaml"] {
        assert!(
            !check(&text, &["-o", output]).out.contains("hunter2"),
            "{output}"
        );
    }
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let text = job("c", &sidecar("side", "command: [\"/opt/\\e[31mred\"]"));
    let ran = check(&text, &[]);
    assert!(
        ran.out.contains("/opt/?[31mred") && !ran.out.contains('\u{1b}'),
        "{}",
        ran.out
    );
}

#[test]
fn check_teaches_with_examples() {
    let help = swaplet(&["check", "--help"]).out;
    for words in [
        "Examples:",
        "pre-commit",
        "gate in CI",
        "Exit codes:",
        "NeedsImage",
        "helm template",
    ] {
        assert!(help.contains(words), "{words}");
    }
}
