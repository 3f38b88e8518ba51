//! `swaplet check` and `swaplet exit-image push --for`, through the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a step of a test that fails is a panic"
)]

mod ci;
mod gate;
mod hints;
mod live;
mod policies;
mod push;
mod scripts;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

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
    assert!(ran.out.contains("lies on a volume"), "{}", ran.out);
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
fn folders_are_read_with_all_that_is_in_them() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.yaml", &good());
    write(folder.path(), "deeper/b.yml", &unknown());
    write(folder.path(), "c.json", "{\"kind\": \"ConfigMap\"}");
    write(folder.path(), ".hidden/d.yaml", "{{ not yaml");
    write(folder.path(), "notes.txt", "{{ not yaml");
    let ran = swaplet(&["check", "-f", folder.path().to_str().unwrap(), "-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(verdicts(&report), ["Runnable", "NeedsImage"]);
    assert!(
        report["sidecars"][1]["file"]
            .as_str()
            .unwrap()
            .ends_with("deeper/b.yml")
    );
}

#[test]
fn several_files_follow_one_flag_as_pre_commit_passes_them() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.yaml", &good());
    write(folder.path(), "b.yaml", &good());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let ran = swaplet(&["check", "-f", &file("a.yaml"), &file("b.yaml")]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 4), "{}", ran.err);
    assert!(ran.out.contains("FILE"), "which of them is what one needs");
}

#[test]
fn what_cannot_be_read_is_exit_code_2_and_the_rest_is_still_shown() {
    let ran = check(&format!("{}---\nkind: Job\nspec: [\n", good()), &[]);
    assert_eq!(ran.code, 2);
    assert!(ran.out.contains("Job/good"), "{}", ran.out);
    assert!(ran.err.contains("-: document 2, line "), "{}", ran.err);
    let missing = swaplet(&["check", "-f", "/does/not/exist.yaml"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.err.contains("/does/not/exist.yaml: No such file"),
        "{}",
        missing.err
    );
    assert!(
        check("spec:\n  {{- toYaml . }}\n", &[])
            .err
            .contains("helm template")
    );
}

#[test]
fn nothing_to_check_is_said() {
    let ran = check("kind: Service\n", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert!(
        ran.err.contains("No pod and no pod template"),
        "{}",
        ran.err
    );
    let ran = check(&job("plain", ""), &[]);
    assert!(
        ran.code == 0 && ran.err.contains("No sidecar in 1 pod template;"),
        "{}",
        ran.err
    );
}

#[test]
fn an_unmarked_container_can_be_named() {
    let text = job(
        "injected",
        "      - {name: istio-proxy, image: \"i:1\", args: [proxy, sidecar]}\n",
    );
    let ran = check(&text, &["--sidecar", "istio-proxy"]);
    assert!(
        ran.code == 0 && ran.out.contains("Job/injected"),
        "{}",
        ran.out
    );
}

#[test]
fn marks_without_effect_are_found() {
    let marked = |entry: &str| {
        job(
            "m",
            &format!("      - {{name: side, image: \"s:1\", env: [{entry}]}}\n"),
        )
    };
    for (entry, words) in [
        (
            "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"yes\"}",
            "not the text true or false",
        ),
        (
            "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: true}",
            "write value: \"true\"",
        ),
        (
            "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, valueFrom: {configMapKeyRef: {name: c, key: k}}}",
            "valueFrom",
        ),
        (
            "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, value: \"\"}",
            "empty",
        ),
    ] {
        let ran = check(&marked(entry), &[]);
        assert!(
            ran.code == 1 && ran.out.contains("MarkInvalid") && ran.out.contains(words),
            "{}",
            ran.out
        );
    }
    assert_eq!(
        check(
            &marked("{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"false\"}"),
            &[]
        )
        .code,
        0
    );
}

#[test]
fn a_pod_of_sidecars_only_would_never_end() {
    let text = format!(
        "kind: Pod\nmetadata: {{name: p}}\nspec: {{restartPolicy: Never, containers: [{{name: a, image: \"a:1\", {MARK}}}]}}\n"
    );
    let ran = check(&text, &[]);
    assert!(
        ran.code == 1 && ran.out.contains("OnlySidecars"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("NAMESPACE"), "none is known");
}

#[test]
fn native_sidecars_and_pods_without_an_end_are_explained() {
    let native = job(
        "n",
        "      initContainers: [{name: proxy, image: \"p:1\", restartPolicy: Always}, {name: init, image: \"i:1\"}]\n",
    );
    let report = json(&native);
    assert_eq!(
        (verdicts(&report), &report["sidecars"][0]["ok"]),
        (vec!["Native"], &true.into())
    );
    let deployment = format!(
        "kind: Deployment\nmetadata: {{name: d}}\nspec: {{template: {{spec: {{containers: [{{name: m, image: \"m:1\"}}, {{name: s, image: \"s:1\", {MARK}}}]}}}}}}\n"
    );
    assert_eq!(verdicts(&json(&deployment)), ["NotAJob"]);
    assert_eq!(check(&deployment, &[]).code, 0);
    assert!(check(&good(), &[]).err.contains("native sidecar"));
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
fn wrong_usage_is_exit_code_2() {
    let ran = swaplet(&["check"]);
    assert!(
        ran.code == 2 && ran.err.contains("FILE") && ran.err.contains("--live"),
        "{}",
        ran.err
    );
    assert_eq!(swaplet(&["check", "-A", "x"]).code, 2, "-A is for --live");
}

#[test]
fn no_cluster_is_exit_code_2() {
    let ran = swaplet(&["check", "--live", "--kubeconfig", "/does/not/exist"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .contains("--kubeconfig /does/not/exist: No such file"),
        "{}",
        ran.err
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
