//! The workflows for those who fork: what can be known of them without GitHub.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{ran, root};

/// Each step of each job of each workflow, with the name of the file.
fn steps() -> Vec<(String, Value)> {
    let mut steps = Vec::new();
    for entry in std::fs::read_dir(root().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let workflow: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            workflow["permissions"].is_object(),
            "{name}: a token may do what the workflow needs, and no more"
        );
        for job in workflow["jobs"].as_object().unwrap().values() {
            let of_job = job["steps"].as_array().unwrap().iter();
            steps.extend(of_job.map(|step| (name.clone(), step.clone())));
        }
    }
    steps
}

/// Words of a script that are programs of this repository.
fn programs(script: &str) -> Vec<&str> {
    script
        .split_whitespace()
        .filter(|word| *word == "./test" || word.starts_with("deploy/") || word.starts_with("e2e/"))
        .collect()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[test]
fn workflows_run_scripts_that_shells_can_read_and_programs_that_are_there() {
    let mut called = Vec::new();
    for (name, step) in steps() {
        let Some(script) = step["run"].as_str() else {
            let action = step["uses"].as_str().unwrap();
            let is_known = action == "./" && root().join("action.yml").exists();
            assert!(
                is_known || action == "actions/checkout@v4",
                "{name}: {action}"
            );
            continue;
        };
        assert!(
            !script.contains("${{"),
            "{name}: what is filled in would be words of the script: {script}"
        );
        ran(Command::new("bash").args(["-n", "-c", script]));
        for program in programs(script) {
            assert!(is_program(&root().join(program)), "{name}: {program}");
            called.push(program.to_owned());
        }
    }
    for wanted in ["./test", "deploy/release"] {
        assert!(
            called.iter().any(|program| program == wanted),
            "nobody calls {wanted}"
        );
    }
}

#[test]
fn flags_that_workflows_pass_to_our_programs_are_there() {
    let help = ran(Command::new("python3").args(["deploy/release", "--help"]));
    let mut passed = 0;
    for (name, step) in steps() {
        let script = step["run"].as_str().unwrap_or_default();
        for (_, call) in script
            .match_indices("deploy/release ")
            .map(|(at, _)| script.split_at(at))
        {
            let end = call.replace("\\\n", "  ").find('\n').unwrap_or(call.len());
            for flag in call[..end]
                .split_whitespace()
                .filter(|word| word.starts_with("--"))
            {
                assert!(help.contains(&format!("{flag} ")), "{name}: {flag}");
                passed += 1;
            }
        }
    }
    assert!(passed >= 5, "{passed}");
}

/// One version looks at the dependencies of every commit and of a release.
#[test]
fn a_release_is_looked_at_by_the_cargo_deny_of_the_tests() {
    let test = std::fs::read_to_string(root().join("test")).unwrap();
    let (_, version) = test.split_once("\nDENY_VERSION=").unwrap();
    let wanted = format!("cargo-deny@{}", version.lines().next().unwrap());
    let installs = |(_, step): &(String, Value)| {
        step["run"]
            .as_str()
            .is_some_and(|run| run.ends_with(&wanted))
    };
    assert!(
        steps().iter().any(installs),
        "no workflow installs {wanted}"
    );
}
