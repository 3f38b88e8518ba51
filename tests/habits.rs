//! kubectl's habits: flags anywhere, times, exit codes, and servers that do not answer.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

mod kubeconfigs;
mod servers;
mod tls;
mod which_cluster;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const EXIT: [&str; 2] = ["--exit-image", "r.example/exit:v1"];
const PARK: [&str; 2] = ["--park-image", "r.example/park:v1"];

/// Every command that asks a cluster, and ends by itself.
fn asking() -> Vec<Vec<&'static str>> {
    let with = |words: &[&'static str], more: &[&'static str]| [words, more].concat();
    vec![
        vec!["explain", "x"],
        with(&["probe", "n"], &[EXIT, PARK].concat()),
        with(&["warm", "r.example/app:v1"], &PARK),
        vec!["warm", "r.example/app:v1", "--wait=false"],
        vec!["warm", "status"],
        vec!["nodes"],
        vec!["rescue", "--dry-run"],
        vec!["policy", "suggest"],
        with(&["rescue"], &EXIT),
        vec!["parked"],
        vec!["protect", "--list"],
        vec!["parked", "--restore", "--wait", "0"],
        vec!["restart", "x"],
        vec!["restart", "deployment", "x", "--direct"],
        vec!["check", "--live"],
        vec!["version"],
    ]
}

struct Home(tempfile::TempDir);

impl Home {
    /// With a kubeconfig for the API server at this address.
    fn of(server: SocketAddr) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}], current-context: c}}"
        );
        std::fs::write(home.path().join("config"), config).unwrap();
        Self(home)
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .env("KUBECONFIG", self.0.path().join("config"))
            .env("HOME", self.0.path());
        command
    }

    fn start(&self, words: &[&str]) -> Child {
        self.command(Path::new(env!("CARGO_BIN_EXE_swaplet")), words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        said(self.start(words).wait_with_output().unwrap())
    }
}

fn said(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// An address where nobody listens.
fn closed() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    // Bound, so that no server of another test gets the port.
    std::mem::forget(socket);
    address
}

/// The kernel takes connections, and nobody answers. All at once, for each waits for a second.
#[test]
fn a6_every_command_ends_within_the_request_timeout_on_a_silent_server() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap();
    let home = Home::of(address);
    let started: Vec<_> = asking()
        .into_iter()
        .map(|words| {
            // Before the subcommand, as a user would write it into an alias.
            let line = [&["--request-timeout", "1s"], &words[..]].concat();
            (words, home.start(&line))
        })
        .collect();
    for (words, child) in started {
        let (code, out, err) = said(child.wait_with_output().unwrap());
        assert_eq!(code, Some(2), "{words:?}: {err}");
        let expected =
            format!("the API server {address} has not answered within 1 s (--request-timeout)");
        assert!(err.contains(&expected), "{words:?}: {err}");
        assert_eq!(
            err.matches("has not answered").count(),
            1,
            "{words:?}: {err}"
        );
        assert!(out.is_empty() || words == ["version"], "{words:?}: {out}");
    }
}

#[test]
fn a15_an_api_server_that_cannot_be_reached_is_exit_code_2_and_named_once() {
    let address = closed();
    let home = Home::of(address);
    for words in asking() {
        let (code, _, err) = home.run(&words);
        assert_eq!(code, Some(2), "{words:?}: {err}");
        let expected = format!("cannot connect to the API server {address}: ");
        assert!(err.contains(&expected), "{words:?}: {err}");
        assert_eq!(
            err.matches("onnection refused").count(),
            1,
            "{words:?}: {err}"
        );
        assert!(!err.contains("ServiceError"), "{words:?}: {err}");
    }
}

#[test]
fn a15_what_cannot_be_is_exit_code_2() {
    let home = Home::of(closed());
    let image = ["--exit-image", "r.example/x:v1"];
    for (words, expected) in [
        (vec!["run"], "no exit image"),
        // What is not given is looked for in the installation.
        (vec!["rescue"], "cannot connect to the API server"),
        (vec!["probe", "n"], "cannot connect to the API server"),
        (
            vec!["run", "--prefer=finish", "--finish=never"],
            "exclude each other",
        ),
        (
            vec!["run", "--prefer=finish", "--finish=never", "--print-config"],
            "exclude each other",
        ),
        (vec!["run", "--print-config"], "no exit image"),
        (vec!["run", "--terminate=false"], "nothing to do"),
        (
            [
                &["run", "--restart", "--park-image", "r.example/x:v1"][..],
                &image,
            ]
            .concat(),
            "is an exit image",
        ),
        (vec!["restart"], "say what to restart"),
        (vec!["nodes", "--context", "none"], "none"),
        // As of a shell variable that is not set.
        (
            vec!["rescue", "-n", ""],
            "a value is required for '--namespace",
        ),
        (
            vec!["explain", "x", "--namespace="],
            "a value is required for '--namespace",
        ),
        (vec!["nodes", "--as-group", "g"], "--as"),
    ] {
        let (code, _, err) = home.run(&words);
        assert_eq!(code, Some(2), "{words:?}: {err}");
        assert!(err.contains(expected), "{words:?}: {err}");
    }
}

#[test]
fn a13_messages_say_what_is_wrong_once() {
    let home = Home::of(closed());
    let (_, _, err) = home.run(&["nodes", "--kubeconfig", "nothere"]);
    assert_eq!(
        err,
        "error: --kubeconfig nothere: No such file or directory (os error 2)\n"
    );
    let program = Path::new(env!("CARGO_BIN_EXE_swaplet"));
    let nowhere = |words: &[&str], variable: (&str, &str)| {
        let mut command = home.command(program, words);
        command.env_remove("KUBECONFIG").env(variable.0, variable.1);
        said(command.output().unwrap())
    };
    let (code, _, err) = nowhere(&["nodes"], ("A", "b"));
    assert_eq!(code, Some(2));
    assert_eq!(
        err,
        "error: cannot find a cluster: pass --kubeconfig FILE, set KUBECONFIG, or run in a pod\n"
    );
    let (_, _, err) = nowhere(&["run", "--print-config"], ("SWAPLET_RESTART", "yes"));
    assert!(
        err.contains("SWAPLET_RESTART, the variable of --restart"),
        "{err}"
    );
    let (_, _, err) = nowhere(
        &["run", "--restart=yes", "--print-config"],
        ("SWAPLET_RESTART", "yes"),
    );
    assert!(!err.contains("SWAPLET_RESTART"), "{err}");
    // As an optional variable of a container is.
    let (_, out, err) = nowhere(&["run", "--print-config"], ("SWAPLET_EXIT_IMAGE", ""));
    assert!(
        out.contains("# exit-image: not set") && err.contains("no exit image"),
        "{out}{err}"
    );
    let config = home.0.path().join("twice.yaml");
    std::fs::write(
        &config,
        "exit-image: r.example/exit:1\nexit-image: r.example/exit:2\n",
    )
    .unwrap();
    let (code, _, err) = home.run(&["run", "--config", config.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("duplicate mapping key: exit-image")
            && !err.contains("Options")
            && err.contains("Usage: swaplet run"),
        "{err}"
    );
}

#[test]
fn times_are_taken_as_kubectl_takes_them() {
    let home = Home::of(closed());
    for (words, expected) in [
        (vec!["restart", "x", "--timeout", "5m"], "cannot connect"),
        (vec!["restart", "x", "--timeout", "300"], "cannot connect"),
        (
            vec!["rescue", "--dry-run", "--timeout", "1h30m"],
            "cannot connect",
        ),
        (
            vec!["parked", "--restore", "--wait", "1m"],
            "cannot connect",
        ),
        (
            vec!["parked", "--restore", "--wait", "20"],
            "cannot connect",
        ),
        (
            vec!["restart", "x", "--timeout", "2s"],
            "2 s is not in 3..=86400",
        ),
        (
            vec!["restart", "x", "--timeout", "soon"],
            "write a time such as 90s",
        ),
        (vec!["nodes", "--request-timeout=-1"], "--request-timeout"),
    ] {
        let (code, _, err) = home.run(&words);
        assert_eq!(code, Some(2), "{words:?}: {err}");
        assert!(err.contains(expected), "{words:?}: {err}");
    }
}

#[test]
fn flags_of_the_cluster_are_taken_by_every_command_also_before_it() {
    let home = Home::of(closed());
    let alias = ["--context", "c", "-n", "batch", "--as", "me"];
    for words in [
        &["exit-image", "list"][..],
        &["nodes", "--print-rows"],
        &["version", "--client"],
        &["completion", "bash"],
    ] {
        let (code, out, err) = home.run(&[&alias[..], words].concat());
        assert!(code == Some(0) && !out.is_empty(), "{words:?}: {err}");
        let (code, _, err) = home.run(&[words, &alias[..]].concat());
        assert_eq!(code, Some(0), "{words:?}: {err}");
    }
    // What would change the answer is never ignored.
    let (code, _, err) = home.run(&["-A", "restart", "x"]);
    assert!(
        code == Some(2) && err.contains("unexpected argument '-A'"),
        "{err}"
    );
}

#[test]
fn the_program_completes_itself_and_tells_its_version() {
    let home = Home::of(closed());
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = home.run(&["completion", shell]);
        assert!(
            code == Some(0) && out.contains("swaplet") && out.contains("request-timeout"),
            "{shell}"
        );
    }
    let checked = Command::new("bash")
        .args([
            "-c",
            "source <(\"$0\" completion bash) && complete -p swaplet",
            env!("CARGO_BIN_EXE_swaplet"),
        ])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        home.run(&["version", "--client"]).1,
        format!("Client Version: {version}\n")
    );
    let (code, out, _) = home.run(&["version", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, value["clientVersion"].as_str()),
        (Some(2), Some(&*version))
    );
}

#[test]
fn examples_of_a_plugin_say_kubectl() {
    let home = Home::of(closed());
    let plugin = home.0.path().join("kubectl-swaplet");
    symlink(env!("CARGO_BIN_EXE_swaplet"), &plugin).unwrap();
    let help = said(
        home.command(&plugin, &["restart", "--help"])
            .output()
            .unwrap(),
    )
    .1;
    assert!(
        help.contains("\n  kubectl swaplet restart web-0 -c app\n"),
        "{help}"
    );
    let short = said(home.command(&plugin, &["restart", "-h"]).output().unwrap()).1;
    assert!(
        !short.contains("Examples:") && short.lines().count() < help.lines().count(),
        "{short}"
    );
}
