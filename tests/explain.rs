//! `swaplet explain`, through the real binary, in situations that were recorded on a real API
//! server: each file of `situations/` holds the arguments and what the server answers by path. What
//! is printed is compared with the file of `snapshots/` of the same name. Those about policies are a recorded one to which
//! policies were added; two have another container.
//!
//! To take over a change of words, look at every difference: `INSTA_UPDATE=always cargo test --test
//! integration explain`, then `git diff`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod replay;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use replay::Replay;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/explain");

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An age in seconds grows while the command runs; what it makes of it stands in the decision.
fn without_seconds(printed: &str) -> String {
    let age = printed
        .lines()
        .find(|line| line.starts_with("Main exited:") && line.ends_with("s ago"));
    age.map_or_else(
        || printed.to_owned(),
        |age| printed.replace(age, "Main exited:   some seconds ago"),
    )
}

/// The arguments of a situation, and more.
async fn explain(situation: &str, more: &[&str]) -> Output {
    explain_file(
        &Path::new(FOLDER).join(format!("situations/{situation}.json")),
        more,
    )
    .await
}

async fn explain_file(file: &Path, more: &[&str]) -> Output {
    let replay = Replay::start(file).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_swaplet"));
    command
        .arg("explain")
        .args(&replay.arguments)
        .args(more)
        // No registry is asked.
        .env("SWAPLET_EXIT_IMAGE_IS_PUBLIC", "true")
        .arg("--kubeconfig")
        .arg(replay.kubeconfig());
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    assert_eq!(replay.writes(), [""; 0], "it only reads");
    ran
}

macro_rules! situations {
    ($($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let ran = explain(stringify!($name), &[]).await;
                assert!(ran.status.success(), "{}", text(&ran.stderr));
                assert_eq!(text(&ran.stderr), "");
                insta::with_settings!({snapshot_path => "explain/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
                    insta::assert_snapshot!(stringify!($name), without_seconds(&text(&ran.stdout)));
                });
            }
        )*

        const SITUATIONS: &[&str] = &[$(stringify!($name)),*];
    };
}

situations! {
    asked_of_openkruises_daemon
    backoff_limit_0_is_finished
    backoff_limit_0_without_finish
    denied_by_another_policy
    eci_ends_it
    ended_by_a_swap
    every_container_marked
    exit_image_not_pulled
    few_rights
    headroom_wait
    inert_node_under_never
    left_to_openkruise
    mains_running
    named_by_a_policy
    native_sidecar
    needs_image
    node_that_was_proved_to_reject
    not_of_a_job
    not_swappable_is_finished
    policy_that_leaves_no_main
    stuck_and_unmarked
    swap_under_never
    tenant_with_edit
    unknown_node_under_never_without_finish
    write_denied
}

/// A file that no test reads would look like a test that passes.
#[test]
fn every_file_belongs_to_a_test() {
    let expected: BTreeSet<String> = SITUATIONS.iter().map(|name| (*name).to_owned()).collect();
    for (folder, ending) in [("situations", ".json"), ("snapshots", ".snap")] {
        let names = std::fs::read_dir(Path::new(FOLDER).join(folder))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap());
        let found: BTreeSet<String> = names
            .map(|name| name.strip_suffix(ending).unwrap_or(&name).to_owned())
            .collect();
        assert_eq!(found, expected, "{folder}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_get_the_same_as_people() {
    let ran = explain("headroom_wait", &["-o", "json"]).await;
    let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (
            &json["namespace"],
            &json["job"],
            &json["decision"]["reason"]
        ),
        (&"batch".into(), &"pack".into(), &"HeadroomWait".into())
    );
    let findings = json["findings"].as_array().unwrap();
    let restarts = findings
        .iter()
        .find(|finding| finding["subject"] == "restarts of the Job")
        .unwrap();
    assert_eq!(restarts["source"], "Kubernetes: pastBackoffLimitOnFailure");
    let yaml = explain("headroom_wait", &["-o", "yaml"]).await;
    assert_eq!(
        serde_saphyr::from_str::<Value>(&text(&yaml.stdout)).unwrap(),
        json
    );
}

/// What was denied before something else was said is past, and the denial of one kind of write, which
/// may be that of somebody else with fewer rights, is none of another kind.
#[tokio::test(flavor = "multi_thread")]
async fn b4_only_a_denial_of_the_same_write_counts_after_which_nothing_else_was_said() {
    let file = Path::new(FOLDER).join("situations/write_denied.json");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let with = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut changed = recorded.clone();
        let events = &mut changed["answers"]["/apis/events.k8s.io/v1/namespaces/batch/events"];
        change(events["items"].as_array_mut().unwrap());
        changed.to_string()
    };
    let later = with(&|events| {
        let mut later = events[0].clone();
        later["reason"] = "ExitImageNotPulled".into();
        later["eventTime"] = "2026-11-21T19:50:14.622512Z".into();
        events.push(later);
    });
    // Right after the denial it is told what else keeps the pod, and something of its Job.
    let and_why = with(&|events| {
        for (reason, time) in [("NotSwappable", "14.6"), ("JobUnknown", "15.6")] {
            let mut later = events[0].clone();
            later["reason"] = reason.into();
            later["eventTime"] = format!("2026-11-21T19:50:{time}22512Z").into();
            events.push(later);
        }
    });
    let of_the_phase = with(&|events| {
        events[0]["note"] =
            "the API server forbids to write the phase of the pod: that is forbidden".into();
    });
    let of_the_phase_too = with(&|events| {
        let mut phase = events[0].clone();
        phase["note"] = "the API server forbids to write the phase of the pod: no".into();
        phase["eventTime"] = "2026-11-21T19:50:24.622512Z".into();
        events.push(phase);
    });
    for (situation, reason) in [
        (with(&|_| {}), "WriteDenied"),
        (of_the_phase_too, "WriteDenied"),
        (and_why, "WriteDenied"),
        (later, "SidecarSwapped"),
        (of_the_phase, "SidecarSwapped"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("situation.json");
        std::fs::write(&file, situation).unwrap();
        let ran = explain_file(&file, &["-o", "json"]).await;
        let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(json["decision"]["reason"], reason, "{json:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_be_read_is_named() {
    let replay = Replay::start(&Path::new(FOLDER).join("situations/swap_under_never.json")).await;
    for (pod, namespace, code, words) in [
        (
            "other",
            "batch",
            2,
            "cannot read pod batch/other: pods \"other\" not found",
        ),
        (
            "svc/report",
            "batch",
            2,
            "only pods, and those of Jobs and CronJobs, count",
        ),
        ("pod/", "batch", 2, "the name of a pod is missing"),
        (
            "job/other",
            "batch",
            2,
            "there is no Job other in namespace batch",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_swaplet"));
        command
            .args(["explain", pod, "-n", namespace, "--kubeconfig"])
            .env("SWAPLET_EXIT_IMAGE_IS_PUBLIC", "true")
            .arg(replay.kubeconfig());
        let ran = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        assert_eq!(ran.status.code(), Some(code), "{}", text(&ran.stderr));
        assert!(
            ran.stdout.is_empty() && text(&ran.stderr).contains(words),
            "{}",
            text(&ran.stderr)
        );
    }
}
