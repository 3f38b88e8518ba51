//! The configuration of `swaplet run`: flags, variables and the file of --config, through the real
//! binary; and a file that changes while it runs, and what it logs, against the embedded API
//! server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod log;

use std::path::PathBuf;
use std::process::Output;

const EXIT: &str = "registry.example/exit:v1";

/// A folder with a configuration file.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::write(folder.file(), text).unwrap();
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("config.yaml")
    }

    /// `swaplet run` with this file, these further flags and variables, and none of the variables
    /// of whoever runs the test.
    fn command(&self, flags: &[&str], variables: &[(&str, &str)]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_swaplet"));
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SWAPLET_"))
        {
            command.env_remove(name);
        }
        command
            .arg("run")
            .arg("--config")
            .arg(self.file())
            .args(flags)
            .envs(variables.iter().copied());
        command
    }

    fn run(&self, flags: &[&str], variables: &[(&str, &str)]) -> Output {
        self.command(flags, variables).output().unwrap()
    }

    /// What `--print-config` prints.
    fn printed(&self, flags: &[&str], variables: &[(&str, &str)]) -> String {
        let ran = self.run(&[flags, &["--print-config"]].concat(), variables);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        text(&ran.stdout)
    }

    /// Why a file is refused.
    fn refusal(text_of_file: &str) -> String {
        let ran = Self::with(text_of_file).run(&["--print-config"], &[]);
        assert_eq!(ran.status.code(), Some(2), "{text_of_file}");
        assert!(ran.stdout.is_empty());
        text(&ran.stderr)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn line<'a>(printed: &'a str, key: &str) -> &'a str {
    let start = format!("{key}:");
    printed
        .lines()
        .find(|line| line.trim_start_matches("# ").starts_with(&start))
        .unwrap_or_else(|| panic!("no {key} in {printed}"))
}

#[test]
fn every_flag_of_run_is_also_a_variable() {
    let command = swaplet::cli::definition();
    let run = command
        .get_subcommands()
        .find(|command| command.get_name() == "run")
        .unwrap();
    for flag in run
        .get_arguments()
        .filter(|flag| !["help", "print-config"].contains(&flag.get_long().unwrap()))
    {
        let expected = format!(
            "SWAPLET_{}",
            flag.get_long().unwrap().to_uppercase().replace('-', "_")
        );
        assert_eq!(
            flag.get_env().unwrap_or_default().to_str(),
            Some(&*expected),
            "--{}",
            flag.get_long().unwrap()
        );
    }
}

#[test]
fn a_flag_counts_more_than_its_variable_and_that_more_than_the_file_and_that_more_than_the_default()
{
    let folder = Folder::with(&format!(
        "exit-image: {EXIT}\nexit-images: [a.example/a:1, a.example/b:1]\nconcurrency: 3\nwrite-timeout: 4\nrestart: true\nterminate: true\nfinish: never\n"
    ));
    let file = folder.file().display().to_string();
    let printed = folder.printed(
        &["--concurrency", "5"],
        &[
            ("SWAPLET_CONCURRENCY", "6"),
            ("SWAPLET_WRITE_TIMEOUT", "7"),
            ("SWAPLET_RESTART", "false"),
        ],
    );
    assert_eq!(
        line(&printed, "concurrency"),
        "concurrency: 5 # --concurrency"
    );
    assert_eq!(
        line(&printed, "write-timeout"),
        "write-timeout: 7 # SWAPLET_WRITE_TIMEOUT"
    );
    assert_eq!(
        line(&printed, "restart"),
        "restart: false # SWAPLET_RESTART"
    );
    assert_eq!(
        line(&printed, "finish"),
        format!("finish: \"never\" # {file}")
    );
    assert!(
        printed.contains(&format!(
            "exit-images: # {file}\n  - \"a.example/a:1\"\n  - \"a.example/b:1\"\n"
        )),
        "{printed}"
    );
    assert_eq!(line(&printed, "coexist"), "coexist: \"auto\" # default");
    assert_eq!(
        line(&printed, "predownload"),
        "predownload: false # default"
    );
    assert_eq!(line(&printed, "park-image"), "# park-image: not set");

    let printed = folder.printed(&["--exit-images", "c.example/c:1"], &[]);
    assert!(
        printed.contains("exit-images: # --exit-images\n  - \"c.example/c:1\"\n"),
        "a list is not added to: {printed}"
    );
    assert_eq!(
        line(&printed, "concurrency"),
        format!("concurrency: 3 # {file}")
    );
}

#[test]
fn what_is_printed_is_a_file_that_says_the_same() {
    let folder = Folder::with(
        "namespace: ['1e3', \"a\"]\nwarm: true\npark-image: r.example/park:v1\nfinish: never\n",
    );
    let without_sources = |printed: &str| {
        printed
            .lines()
            .map(|line| line.split(" #").next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let printed = folder.printed(&["--exit-image", EXIT, "--concurrency=9"], &[]);
    let again = Folder::with(&printed).printed(&[], &[]);
    assert_eq!(without_sources(&again), without_sources(&printed));
    assert!(printed.contains("  - \"1e3\"\n"), "{printed}");
}

#[test]
fn the_file_may_be_named_by_a_variable_and_may_be_empty() {
    let folder = Folder::with("# nothing yet\n");
    assert!(
        folder
            .printed(&["--exit-image", EXIT], &[])
            .contains("terminate: true # default\n")
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_swaplet"));
    std::fs::write(folder.file(), "concurrency: 3\n").unwrap();
    let ran = command
        .args(["run", "--print-config"])
        .env("SWAPLET_CONFIG", folder.file())
        .output()
        .unwrap();
    assert!(
        text(&ran.stdout).contains("concurrency: 3 #"),
        "{}",
        text(&ran.stderr)
    );
}

/// Files that cannot be used, and what is said of them.
const UNUSABLE: &[(&str, &str)] = &[
    (
        "concurency: 3",
        "config.yaml: there is no key concurency: did you mean concurrency?",
    ),
    (
        "exit_image: r.example/exit:v1",
        "there is no key exit_image: did you mean exit-image?",
    ),
    (
        "qwertz: 3",
        "there is no key qwertz; the keys are the flags of `swaplet run --help`",
    ),
    ("config: other.yaml", "there is no key config"),
    ("print-config: true", "there is no key print-config"),
    (
        "concurrency: many",
        "config.yaml: concurrency: invalid value 'many' for '--concurrency <CONCURRENCY>'",
    ),
    (
        "concurrency: 5000",
        "concurrency: invalid value '5000' for '--concurrency <CONCURRENCY>': 5000 is not in 1..=1000",
    ),
    (
        "concurrency: [1, 2]",
        "concurrency: it takes one value, not a list",
    ),
    (
        "namespace: reports",
        "namespace: it is a list: write `namespace: [reports]`",
    ),
    (
        "namespace: [[a]]",
        "namespace: each entry of the list is one plain value, without commas",
    ),
    (
        "namespace: ['a,b']",
        "namespace: each entry of the list is one plain value, without commas",
    ),
    (
        "exit-image: [r.example/Exit:v1",
        "it has to be a YAML mapping",
    ),
    (
        "exit-image: r.example/Exit:v1",
        "exit-image: invalid value 'r.example/Exit:v1'",
    ),
    (
        "exit-image:",
        "exit-image: it has no value: give it one, or leave the key out",
    ),
    (
        "exit-image: {name: a}",
        "exit-image: it is a mapping, and the flag takes none",
    ),
    ("restart: maybe", "restart: it is true or false"),
    (
        "finish: always",
        "finish: invalid value 'always' for '--finish <FINISH>' [possible values: allowed, never]",
    ),
    ("warm: true", "--park-image"),
    ("- a", "it has to be a YAML mapping"),
    ("concurrency: 1\nconcurrency: 2", "duplicate"),
];

#[test]
fn a_file_that_cannot_be_used_is_refused_with_the_key_and_the_fix() {
    for &(file, words) in UNUSABLE {
        let refusal = Folder::refusal(file);
        assert!(refusal.contains(words), "{file}: {refusal}");
    }
    let ran = Folder(tempfile::tempdir().unwrap()).run(&[], &[]);
    assert!(
        text(&ran.stderr).contains("config.yaml: No such file"),
        "{}",
        text(&ran.stderr)
    );
}

#[test]
fn a8_a_file_that_is_too_long_is_refused_before_it_is_understood() {
    let refusal = Folder::refusal(&"#".repeat((1 << 20) + 1));
    assert!(
        refusal.contains("config.yaml: it is longer than 1048576 bytes"),
        "{refusal}"
    );
}

const HOSTS: &str = "the registry that you name is asked wherever it is";
const TAGS: &str = "tags are no longer pinned: write digests into the images";
const SHAPES: &str = "the node decides what warmer pods are";

/// The flags that `run` had, and what is said of them.
const GONE_OF_RUN: [(&str, &str); 5] = [
    ("allow-host", HOSTS),
    ("pin-credentials", TAGS),
    ("pin-private-registries", TAGS),
    (
        "sidecar-log-bytes",
        "the last lines of sidecars are no longer read: collect logs on the node, or read them with `kubectl logs` before the pod ends",
    ),
    ("warm-shape", SHAPES),
];

#[track_caller]
fn refused(ran: &Output, name: &str, words: &str) {
    let said = text(&ran.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{name} is gone: {words}")), "{said}");
}

/// Ignoring it would hide that it has no effect.
#[test]
fn a_flag_that_is_gone_is_refused_with_what_to_use_instead() {
    let folder = Folder::with(&format!("exit-image: {EXIT}\n"));
    for (flag, words) in GONE_OF_RUN {
        let name = format!("--{flag}");
        refused(&folder.run(&[&format!("{name}=1")], &[]), &name, words);
        refused(&folder.run(&[&name], &[]), &name, words);
        let variable = format!("SWAPLET_{}", flag.to_uppercase().replace('-', "_"));
        refused(&folder.run(&[], &[(&variable, "1")]), &variable, words);
        assert!(!folder.printed(&[], &[(&variable, "")]).contains(flag));
        let in_file = Folder::with(&format!("exit-image: {EXIT}\n{flag}: 1\n"));
        refused(&in_file.run(&[], &[]), &name, words);
    }
    // What others had for themselves is no variable that `run` knows.
    let others = [("SWAPLET_PIN", "1"), ("SWAPLET_SHAPE", "Auto")];
    folder.printed(&[], &others);
}

/// The usage that is shown is that of the subcommand that was called.
#[test]
fn a_flag_that_is_gone_is_refused_by_each_subcommand_that_had_it() {
    let calls: [(&[&str], &str, &str); 7] = [
        (&["exit-image", "push"], "--allow-host", HOSTS),
        (&["park-image", "push"], "--allow-host", HOSTS),
        (&["image", "push"], "--allow-host", HOSTS),
        (&["rescue"], "--allow-host", HOSTS),
        (&["status"], "--allow-host", HOSTS),
        (&["warm"], "--pin", TAGS),
        (&["warm"], "--shape", SHAPES),
    ];
    for (subcommand, flag, words) in calls {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_swaplet"))
            .args(subcommand)
            .arg(flag)
            .output()
            .unwrap();
        refused(&ran, flag, words);
        let usage = format!("Usage: swaplet {} ", subcommand.join(" "));
        let said = text(&ran.stderr);
        assert!(said.contains(&usage), "{usage}: {said}");
    }
}

#[test]
fn u63_a_wrong_flag_or_variable_is_not_blamed_on_the_file() {
    let folder = Folder::with("concurrency: 4\n");
    let flag = folder.run(&["--concurrency", "many"], &[]);
    let variable = folder.run(&[], &[("SWAPLET_CONCURRENCY", "many")]);
    for ran in [flag, variable] {
        let said = text(&ran.stderr);
        assert!(
            said.contains("many") && !said.contains("config.yaml:"),
            "{said}"
        );
    }
    assert!(Folder::refusal("concurrency: many\n").contains("config.yaml: concurrency"));
}
