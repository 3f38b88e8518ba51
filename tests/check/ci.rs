//! `swaplet check` in CI: as annotations, as a hook of pre-commit, as an action of GitHub.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{Ran, good, job, swaplet, unknown, write};

fn yaml(file: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "good.yaml", &good());
    write(folder.path(), "own.yaml", &unknown());
    let logs = "      - {name: logs, image: \"fluent/fluent-bit:3\"}\n";
    write(folder.path(), "logs.yaml", &job("logs", logs));
    write(folder.path(), "comments.yaml", "# nothing\n");
    folder
}

/// What GitHub would take for commands: level, file and text of each.
fn annotations(out: &str, folder: &Path) -> Vec<(String, String, String)> {
    let folder = format!("file={}/", folder.display());
    let commands = out.lines().filter_map(|line| line.strip_prefix("::"));
    commands
        .map(|command| {
            let (head, text) = command.split_once("::").unwrap();
            let (level, properties) = head.split_once(' ').unwrap();
            let file = properties
                .split(',')
                .find_map(|part| part.strip_prefix(&folder));
            (level.into(), file.unwrap_or_default().into(), text.into())
        })
        .collect()
}

#[test]
fn c_annotations_name_the_file_of_each_sidecar_that_does_not_end() {
    let folder = folder();
    let ran = swaplet(&["check", folder.path().to_str().unwrap(), "-o", "github"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let told = annotations(&ran.out, folder.path());
    let short: Vec<_> = told
        .iter()
        .map(|(level, file, _)| (&**level, &**file))
        .collect();
    assert_eq!(short, [("error", "own.yaml"), ("warning", "logs.yaml")]);
    assert!(
        told[0]
            .2
            .contains("push an exit image that has /opt/own/server"),
        "{told:?}"
    );
    assert!(
        ran.err
            .contains("2 sidecars in 3 pod templates: 1 ends, 1 does not"),
        "{}",
        ran.err
    );
}

#[test]
fn c_the_hook_of_pre_commit_runs_as_pre_commit_calls_it() {
    let folder = folder();
    let hook = &yaml(".pre-commit-hooks.yaml")[0];
    assert_eq!(
        (&hook["id"], &hook["language"]),
        (&"swaplet-check".into(), &"rust".into())
    );
    // Else it is called with a part of the files at a time, which lack each other's policies.
    assert_eq!(hook["require_serial"], true);
    let mut words = hook["entry"].as_str().unwrap().split(' ');
    assert_eq!(words.next(), Some("swaplet"));
    let run = |names: &[&str]| {
        let files = names
            .iter()
            .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
        let args: Vec<String> = words.clone().map(str::to_owned).chain(files).collect();
        swaplet(&args.iter().map(String::as_str).collect::<Vec<_>>()).code
    };
    assert_eq!(run(&["comments.yaml"]), 0);
    assert_eq!(run(&["comments.yaml", "good.yaml"]), 0);
    assert_eq!(run(&["good.yaml", "own.yaml"]), 1);
    // It is called with all files of YAML that there are.
    let playbook = "- hosts: all\n  tasks: [{name: a, debug: {msg: hello}}]\n";
    write(folder.path(), "playbook.yaml", playbook);
    write(folder.path(), "jobs.yaml", "- {kind: Job}\n");
    assert_eq!(run(&["playbook.yaml"]), 0, "u238");
    assert_eq!(run(&["playbook.yaml", "own.yaml"]), 1);
    assert_eq!(run(&["playbook.yaml", "jobs.yaml"]), 2);
}

/// Runs the last step of the action, with this program on the PATH.
fn action(folder: &Path, files: &str, args: &str) -> Ran {
    let action = yaml("action.yml");
    let steps = action["runs"]["steps"].as_array().unwrap();
    let step = steps.last().unwrap();
    assert_eq!(
        (&step["env"]["FILES"], &step["env"]["ARGS"]),
        (&"${{ inputs.files }}".into(), &"${{ inputs.args }}".into())
    );
    let program = Path::new(env!("CARGO_BIN_EXE_swaplet")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    // As GitHub runs `shell: bash`.
    Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
        .arg(step["run"].as_str().unwrap())
        .current_dir(folder)
        .env("PATH", path)
        .env("FILES", files)
        .env("ARGS", args)
        .output()
        .unwrap()
        .into()
}

#[test]
fn c_the_action_checks_files_and_takes_no_input_for_a_command() {
    let folder = folder();
    let default = yaml("action.yml")["inputs"]["files"]["default"]
        .as_str()
        .unwrap()
        .to_owned();
    let ran = action(folder.path(), &default, "");
    assert!(
        ran.code == 1 && ran.out.contains("::error file=./own.yaml,"),
        "{} {}",
        ran.out,
        ran.err
    );
    let ran = action(folder.path(), "good.yaml\nown.yaml\n", "--allow-derived\n");
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let hostile = action(folder.path(), "$(touch made); touch made\n--version", "");
    assert_eq!(hostile.code, 2, "{}", hostile.out);
    assert!(!folder.path().join("made").exists());
}

#[test]
fn u65_the_action_takes_the_program_of_a_release_on_linux_alone() {
    let folder = TempDir::new().unwrap();
    let tools = folder.path().join("tools");
    let stub = |name: &str, script: &str| {
        write(&tools, name, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(tools.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    stub(
        "uname",
        "[ \"$1\" = -sm ] && echo \"$SYSTEM\" || echo x86_64",
    );
    stub("curl", "echo \"$@\" >> \"$RUNNER_TEMP/asked\"; exit 22");
    stub("cargo", "echo \"$@\" >> \"$RUNNER_TEMP/built\"");
    let script = yaml("action.yml")["runs"]["steps"][0]["run"].clone();
    for (system, platform) in [
        ("Linux x86_64", "linux-amd64"),
        ("Linux aarch64", "linux-arm64"),
        ("Darwin x86_64", "linux-none"),
        ("MINGW64_NT-10.0 x86_64", "linux-none"),
    ] {
        let temporary = folder.path().join(system);
        fs::create_dir(&temporary).unwrap();
        let ran = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
            .arg(script.as_str().unwrap())
            .env("PATH", format!("{}:/usr/bin:/bin", tools.display()))
            .env("SYSTEM", system)
            .env("RUNNER_TEMP", &temporary)
            .env("GITHUB_PATH", temporary.join("path"))
            .env("GITHUB_SERVER_URL", "https://git.example")
            .env("GITHUB_ACTION_PATH", "/action")
            .envs([("REPOSITORY", "o/swaplet"), ("TAG", "v1")])
            .output()
            .unwrap();
        if system.starts_with("MINGW") {
            let words = String::from_utf8_lossy(&ran.stdout);
            assert!(!ran.status.success() && words.contains("use a runner with Linux"));
            continue;
        }
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        let asked = fs::read_to_string(temporary.join("asked")).unwrap();
        assert!(
            asked.contains(&format!("swaplet-v1-{platform}.tar.gz")),
            "{system}: {asked}"
        );
        assert!(temporary.join("built").exists(), "{system}");
    }
}
