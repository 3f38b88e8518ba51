//! No swap is written that cannot work: what the exit image would execute is looked at first, and
//! told where it is nothing.

mod derived;
mod listed;
mod stuck;

use serde_json::json;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::objects::command::Obstacle;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::explain::explain;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life, assert_silent, rules, swaps, warns};

const OWN: &str = "/opt/own/server";
const DERIVED: &str = "registry.example/swaplet/derived@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn ready(policy: &str, sidecar: ContainerBuilder) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar.running())
}

fn calls(container: ContainerBuilder, command: &str) -> ContainerBuilder {
    container.spec("command", json!([command]))
}

/// Its program lies on an emptyDir.
fn on_volume(container: ContainerBuilder) -> ContainerBuilder {
    calls(container, "/work/tool").spec(
        "volumeMounts",
        json!([{"name": "work", "mountPath": "/work"}]),
    )
}

fn with_work_volume(pod: PodBuilder) -> PodBuilder {
    pod.set("/spec/volumes", json!([{"name": "work", "emptyDir": {}}]))
}

#[test]
fn what_the_exit_image_has_is_swapped() {
    for command in ["/bin/sh", "sh", "filebeat", "/usr/bin/fluent-bit"] {
        swaps(&ready("Never", calls(sidecar("side"), command)), &["side"]);
    }
}

/// It is not read, so its interpreter may be any.
#[test]
fn a_script_of_a_config_map_is_in_doubt() {
    let script = sidecar("side")
        .spec("command", json!(["/scripts/run.sh"]))
        .spec(
            "volumeMounts",
            json!([{"name": "work", "mountPath": "/scripts"}]),
        );
    let note = warns(
        &ready("Never", script).set(
            "/spec/volumes",
            json!([{"name": "work", "configMap": {"name": "scripts"}}]),
        ),
        Reason::ExitImageDoubtful,
    );
    assert!(
        note.contains("/scripts/run.sh is a file of a ConfigMap"),
        "{note}"
    );
}

#[test]
fn what_the_exit_image_does_not_have_is_told_with_the_command_that_pushes_it() {
    for policy in ["Never", "OnFailure"] {
        let note = warns(
            &ready(policy, calls(sidecar("side"), OWN)),
            Reason::NeedsImage,
        );
        assert!(
            note.contains("container side") && note.contains(EXIT),
            "{note}"
        );
        assert!(
            note.contains("swaplet exit-image push REF --path /opt/own/server"),
            "{note}"
        );
        assert!(note.len() <= 1024, "the API server refuses more");
    }
}

/// Somebody will paste it into a shell.
#[test]
fn the_command_that_is_told_is_one_command_whatever_the_path() {
    for (path, flag) in [
        ("/opt/x; rm -rf ~", "--path '/opt/x; rm -rf ~';"),
        ("/opt/$(id)'", r"--path '/opt/$(id)'\''';"),
        ("/opt/a\u{1b}[2Jb", "--path '/opt/a?[2Jb';"),
    ] {
        // `$$` is how Kubernetes is told not to expand.
        let note = warns(
            &ready("Never", calls(sidecar("side"), &path.replace('$', "$$"))),
            Reason::NeedsImage,
        );
        assert!(note.contains(flag), "{note}");
        assert!(!note.contains(char::is_control), "{note:?}");
    }
}

#[test]
fn a_program_on_a_volume_leaves_the_pod_as_it_is() {
    for policy in ["Never", "OnFailure"] {
        let note = warns(
            &with_work_volume(ready(policy, on_volume(sidecar("side")))),
            Reason::NotSwappable,
        );
        assert!(
            note.contains("container side") && note.contains("/work/tool"),
            "{note}"
        );
        assert!(
            note.contains(Obstacle::ProgramOnVolume.problem())
                && note.contains(Obstacle::ProgramOnVolume.fix()),
            "{note}"
        );
    }
}

#[test]
fn each_obstacle_is_told_with_its_fix() {
    let side = || sidecar("side");
    for (pod, obstacle) in [
        (
            ready("Never", side().spec("imagePullPolicy", "Never")),
            Obstacle::PullPolicyNever,
        ),
        (
            ready(
                "Never",
                calls(side(), "$(TOOL)")
                    .env_entry(json!({"name": "TOOL", "valueFrom": {"fieldRef": {}}})),
            ),
            Obstacle::CommandUnknown,
        ),
        (
            ready("Never", calls(side(), "..")),
            Obstacle::CommandInvalid,
        ),
        (
            ready("Never", side()).set("/spec/os", json!({"name": "windows"})),
            Obstacle::Windows,
        ),
        (
            ready("Never", side().spec("volumeMounts", json!([{"name": "v"}]))),
            Obstacle::Malformed,
        ),
        (
            ready(
                "Never",
                side().spec(
                    "restartPolicyRules",
                    json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [0]}}]),
                ),
            ),
            Obstacle::RestartRuleOnSuccess,
        ),
    ] {
        let note = warns(&pod, Reason::NotSwappable);
        assert!(
            note.contains(obstacle.problem()) && note.contains(obstacle.fix()),
            "{note}"
        );
    }
}

#[test]
fn e1_19_a_sidecar_that_cannot_be_swapped_keeps_no_other_from_being_swapped() {
    let pod =
        with_work_volume(ready("Never", sidecar("good")).with(on_volume(sidecar("bad")).running()));
    swaps(&pod, &["good"]);
    assert!(
        warns(
            &pod.clone().but("good", |good| good.ended(0)),
            Reason::NotSwappable
        )
        .contains("container bad")
    );
    swaps(&pod.but("bad", |bad| bad.ended(0)), &["good"]);
}

#[test]
fn nothing_is_told_while_a_main_runs() {
    assert_silent(
        &ready("Never", calls(sidecar("side"), OWN)).but("main", ContainerBuilder::running),
        Reason::MainsRunning,
    );
}

#[test]
fn an_explanation_says_what_was_looked_at() {
    let life = Life::new();
    let pod = ready("Never", calls(sidecar("own"), OWN))
        .with(sidecar("other").running())
        .read();
    let findings = explain(&pod, &life.memory, &life.around(), "").findings;
    let seen = |subject: &str| {
        findings
            .iter()
            .find(|finding| finding.subject == subject)
            .map(|finding| &*finding.seen)
    };
    assert_eq!(seen("exit image for own"), Some("none (NeedsImage)"));
    assert_eq!(
        seen("exit image for other"),
        Some(format!("{EXIT} would end it").as_str())
    );
}

fn deriving() -> ExitImages {
    rules().with_derived(DerivedImages::new(
        "registry.example/swaplet/derived".parse().unwrap(),
    ))
}

fn own_path() -> Vec<String> {
    vec![OWN.to_owned()]
}
