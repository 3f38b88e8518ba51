//! The command line, through the real binary.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use swaplet_core::cluster::node_table::NodeTable;

fn swaplet(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Lines are broken by the width of the terminal.
fn in_one_line(help: &str) -> String {
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    swaplet::cli::definition().debug_assert();
}

#[test]
fn every_subcommand_explains_itself() {
    fn visit(command: &clap::Command, path: &str) {
        for sub in command.get_subcommands() {
            let path = format!("{path} {}", sub.get_name());
            assert!(
                sub.get_about().is_some(),
                "{path} says nothing about itself"
            );
            assert!(
                sub.get_arguments()
                    .all(|argument| argument.get_help().is_some()),
                "{path} has an argument without help"
            );
            visit(sub, &path);
        }
    }
    visit(&swaplet::cli::definition(), "swaplet");
}

#[test]
fn pushing_teaches_with_examples() {
    for kind in ["exit-image", "park-image", "image"] {
        let help = text(&swaplet(&[kind, "push", "--help"]).stdout);
        assert!(
            help.contains("Examples:")
                && help.contains(&format!("swaplet {kind} push registry.example/")),
            "{help}"
        );
    }
}

#[test]
fn explaining_and_rescuing_teach_with_examples() {
    for (subcommand, words) in [
        (
            "explain",
            [
                "swaplet explain report-x7k2p -n batch",
                "The flags are those of the installation",
                "Exit codes:",
            ],
        ),
        (
            "rescue",
            [
                "swaplet rescue --dry-run -A",
                "Pods that become stuck meanwhile are left alone",
                "Exit codes:",
            ],
        ),
    ] {
        let help = text(&swaplet(&[subcommand, "--help"]).stdout);
        let help = in_one_line(&help);
        assert!(words.iter().all(|words| help.contains(words)), "{help}");
    }
}

/// Command lines that are wrong, and what names the fault.
const WRONG: &[(&[&str], &str)] = &[
    (&["exit-image", "push"], "<REF>"),
    (
        &[
            "run",
            "--exit-image",
            "r.example/exit:v1",
            "--namespace",
            "a,",
        ],
        "--namespace",
    ),
    (
        &[
            "run",
            "--exit-image",
            "r.example/exit:v1",
            "--warm-exit-images",
        ],
        "--warm",
    ),
    (
        &[
            "run",
            "--warm",
            "--park-image",
            "r.example/park:v1",
            "--warm-exit-images",
            "--prefer",
            "finish",
        ],
        "--exit-image",
    ),
    (&["exit-image", "push", "Bad Reference"], "white space"),
    (&["exit-image", "push", "r.example/App:v1"], "upper-case"),
    (&["exit-image", "list", "-o", "yaml"], "wide"),
    (&["warm"], "<IMAGE>"),
    (
        &[
            "warm",
            "r.example/App:v1",
            "--park-image",
            "r.example/park:v1",
        ],
        "upper-case",
    ),
    (
        &[
            "warm",
            "r.example/app:v1",
            "--park-image",
            "r.example/park:v1",
            "--parallelism",
            "0",
        ],
        "1..=1000",
    ),
    (&["warm", "r.example/app:v1", "--wait=later"], "true, false"),
];

#[test]
fn wrong_usage_is_exit_code_2_and_says_what_is_wrong() {
    for &(args, words) in WRONG {
        let ran = swaplet(args);
        assert_eq!(ran.status.code(), Some(2));
        assert!(ran.stdout.is_empty());
        assert!(text(&ran.stderr).contains(words), "{}", text(&ran.stderr));
    }
}

#[test]
fn the_paths_are_listed_in_three_forms() {
    let names = text(&swaplet(&["exit-image", "list"]).stdout);
    assert!(names.lines().any(|line| line == "/bin/sh"));
    let wide = text(&swaplet(&["exit-image", "list", "-o", "wide"]).stdout);
    assert!(wide.starts_with("PATH ") && wide.lines().count() == names.lines().count() + 1);
    let json: Value =
        serde_json::from_slice(&swaplet(&["exit-image", "list", "-o", "json"]).stdout).unwrap();
    assert_eq!(json.as_array().unwrap().len(), names.lines().count());
    assert!(json[0]["path"].is_string() && json[0]["source"].is_string());
}

/// A container that was to be parked would end.
#[test]
fn one_image_cannot_park_containers_and_end_them() {
    let ran = swaplet(&[
        "run",
        "--restart",
        "--exit-image",
        "r.example/x:v1",
        "--park-image",
        "r.example/x:v1",
    ]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        text(&ran.stderr).contains("--park-image r.example/x:v1 is an exit image"),
        "{}",
        text(&ran.stderr)
    );
}

#[test]
fn probing_teaches_and_needs_two_images() {
    let help = text(&swaplet(&["probe", "--help"]).stdout);
    for word in [
        "Examples:",
        "swap under Never",
        "Exit codes:",
        "-l swaplet.io/probe",
        "--timeout",
        "pods/status",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let (exit, park) = (
        ["--exit-image", "r.example/exit:v1"],
        ["--park-image", "r.example/park:v1"],
    );
    for (arguments, words) in [
        (vec!["probe"], "<NODE>"),
        (
            // What is not given is looked for in the installation.
            ["probe", "n"].into_iter().chain(exit).collect(),
            "cannot find a cluster",
        ),
        (
            ["probe", "n"]
                .into_iter()
                .chain(exit)
                .chain(park)
                .chain(["--timeout", "1"])
                .collect(),
            "5..=3600",
        ),
        (
            ["probe", "n"]
                .into_iter()
                .chain(exit)
                .chain(["--park-image", exit[1]])
                .collect(),
            "the same image",
        ),
        (
            ["probe", "n", "--kubeconfig", "/nowhere"]
                .into_iter()
                .chain(exit)
                .chain(park)
                .collect(),
            "--kubeconfig /nowhere: No such file",
        ),
    ] {
        let ran = swaplet(&arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
        assert!(
            ran.stdout.is_empty() && text(&ran.stderr).contains(words),
            "{}",
            text(&ran.stderr)
        );
    }
}

#[test]
fn the_rows_that_nodes_are_recognised_by_can_be_printed_and_read_again() {
    let printed = swaplet(&["nodes", "--print-rows"]);
    assert!(printed.status.success());
    assert_eq!(
        NodeTable::read(&text(&printed.stdout)),
        Ok(NodeTable::built_in())
    );
    let help = text(&swaplet(&["nodes", "--help"]).stdout);
    for word in [
        "Examples:",
        "swaplet.io/node-class=VirtualInert",
        "--print-rows",
        "VirtualRejects",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn warming_teaches_with_examples_limits_and_exit_codes() {
    let help = in_one_line(&text(&swaplet(&["warm", "--help"]).stdout));
    for word in [
        "Examples:",
        "swaplet park-image push",
        "-l node-pool=batch",
        "--pull-secret",
        "deploy/warm.yaml",
        "Virtual nodes keep no images",
        "Exit codes: 0",
        "[default: 10m]",
        "swaplet warm status",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let help = in_one_line(&text(&swaplet(&["warm", "status", "--help"]).stdout));
    for word in [
        "Examples:",
        "swaplet warm status -n swaplet-warm",
        "Claimed",
        "lists 50 images by default",
        "Exit codes: 0",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn a_file_of_node_classes_with_an_error_stops_before_anything_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.yaml");
    std::fs::write(
        &file,
        "[{name: mine, class: Virtual, match: [{labels: [a]}]}]",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    for args in [
        &["nodes", "--node-classes", file][..],
        &[
            "run",
            "--exit-image",
            "r.example/exit:1",
            "--node-classes",
            file,
        ],
    ] {
        let ran = swaplet(args);
        let error = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{error}");
        assert!(
            error.contains(file)
                && error.contains("row \"mine\": class: \"Virtual\" is none of Kubelet"),
            "{error}"
        );
    }
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["exit-image", "list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
}

#[test]
fn u248_a_reader_of_standard_error_that_is_gone_changes_no_exit_code() {
    for (arguments, code) in [
        (&["check", "-f", "/nowhere.yaml"][..], 2),
        (&["explain"], 2),
        (&["nodes", "--kubeconfig", "/nowhere"], 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_swaplet"));
        let ended = command.args(arguments).stderr(writer).status().unwrap();
        assert_eq!(ended.code(), Some(code), "{arguments:?}");
    }
}

/// The first process of a container is not ended by a signal that it does not handle yet.
#[test]
fn a_controller_that_is_stopped_while_it_starts_ends() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    assert!(
        Command::new("mkfifo")
            .arg(&kubeconfig)
            .status()
            .unwrap()
            .success()
    );
    let child = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["run", "--exit-image", "r.example/exit:1", "--kubeconfig"])
        .arg(&kubeconfig)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // This comes back when it reads, which is before it knows a cluster.
    let mut writer = File::options().write(true).open(&kubeconfig).unwrap();
    assert!(
        Command::new("kill")
            .arg(child.id().to_string())
            .status()
            .unwrap()
            .success()
    );
    let content = "{clusters: [{name: none, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: none, user: {}}], \
        contexts: [{name: none, context: {cluster: none, user: none}}], current-context: none}";
    // It may read more than once.
    let file = folder.path().join("file");
    std::fs::write(&file, content).unwrap();
    std::fs::rename(&file, &kubeconfig).unwrap();
    writer.write_all(content.as_bytes()).unwrap();
    drop(writer);
    let ended = child.wait_with_output().unwrap();
    assert!(
        ended.status.success() && text(&ended.stderr).contains("stopped"),
        "{ended:?}"
    );
}
