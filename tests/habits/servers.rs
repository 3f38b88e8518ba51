//! Kubeconfigs and servers as they go wrong: missing files, credentials that are not given, and
//! answers that are none of an API server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;

use super::{Home, closed};

/// A server that answers everything with this.
fn answering(status: &'static str, kind: &'static str, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 8192];
            let _ = stream.read(&mut request);
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

#[test]
fn a2_a_missing_file_of_the_variable_is_left_out() {
    let address = closed();
    let home = Home::of(address);
    let config = home.0.path().join("config");
    let list = |files: &[&str]| files.join(":");
    for (files, words) in [
        (
            list(&[config.to_str().unwrap(), "/nosuch"]),
            "cannot connect to the API server",
        ),
        (
            list(&["/nosuch", config.to_str().unwrap()]),
            "cannot connect to the API server",
        ),
        (
            list(&["/nosuch", "/none"]),
            "KUBECONFIG=/nosuch:/none: no file of this list exists",
        ),
    ] {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_swaplet"));
        let mut command = home.command(program, &["nodes"]);
        let ran = command.env("KUBECONFIG", files).output().unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert!(err.contains(words), "{words}: {err}");
    }
}

#[test]
fn a3_a_credential_plugin_runs_once_and_is_named_if_it_fails() {
    let home = Home::of(closed());
    let plugin = home.0.path().join("tok.sh");
    std::fs::write(
        &plugin,
        "#!/bin/sh\necho 'The session has expired' >&2\nexit 255\n",
    )
    .unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let with = |command: &str, mode: &str| {
        let exec = format!(
            "{{apiVersion: client.authentication.k8s.io/v1, interactiveMode: {mode}, command: '{command}', args: [get-token], installHint: 'see https://example'}}"
        );
        let config = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}], users: [{{name: u, user: {{exec: {exec}}}}}], \
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}], current-context: c}}"
        );
        std::fs::write(home.0.path().join("config"), config).unwrap();
        home.run(&["nodes"])
    };
    for mode in ["IfAvailable", "Never"] {
        let (code, _, err) = with(plugin.to_str().unwrap(), mode);
        assert_eq!(code, Some(2));
        assert_eq!(err.matches("The session has expired").count(), 1, "{err}");
        assert!(
            err.contains("error: the credential plugin `")
                && err.contains("tok.sh` has failed (exit status: 255)"),
            "{err}"
        );
    }
    let runs = home.0.path().join("runs");
    let token = "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}";
    std::fs::write(
        &plugin,
        format!("#!/bin/sh\necho one >>{}\necho '{token}'\n", runs.display()),
    )
    .unwrap();
    let (_, _, err) = with(plugin.to_str().unwrap(), "Never");
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "one\n", "{err}");
    let (_, _, err) = with("/nosuch/aws", "Never");
    assert!(
        err.contains("`/nosuch/aws` cannot be run") && err.contains("see https://example"),
        "{err}"
    );
    assert!(!err.contains("KUBERNETES_EXEC_INFO"), "{err}");
}

#[test]
fn a4_an_answer_that_is_none_of_an_api_server_is_called_so() {
    const FOREIGN: &str = "the answer is not one of an API server";
    let not_found = "{\"type\":\"error\",\"status\":404,\"code\":\"NotFound\"}";
    for (status, kind, body) in [
        ("404 Not Found", "text/html", "<html>default backend</html>"),
        ("404 Not Found", "text/html", ""),
        ("404 Not Found", "text/plain", "404 page not found\n"),
        ("404 Not Found", "application/json", not_found),
        ("403 Forbidden", "text/html", "<html>not from here</html>"),
        (
            "503 Service Unavailable",
            "text/html",
            "<html>no upstream</html>",
        ),
        ("200 OK", "text/html", "<html>please log in</html>"),
    ] {
        let home = Home::of(answering(status, kind, body));
        let number = status.split(' ').next().unwrap();
        for words in [
            &["status"][..],
            &["protect", "--list"],
            &["nodes"],
            &["rescue", "-A", "--dry-run"],
        ] {
            // An API server too has a line of text for what it does not serve.
            if kind == "text/plain" && matches!(words[0], "nodes" | "rescue") {
                continue;
            }
            let (code, out, err) = home.run(words);
            assert_eq!(code, Some(2), "{status} {words:?}: {out}{err}");
            assert!(err.contains(FOREIGN), "{status} {words:?}: {err}");
            assert!(
                number == "200" || err.contains(&format!("HTTP {number}")),
                "{status} {words:?}: {err}"
            );
            let is_misled = [
                "not installed",
                "your rights",
                "-n NAMESPACE",
                "Nothing has",
            ];
            let said = format!("{out}{err}");
            assert!(
                !is_misled.iter().any(|words| said.contains(words)),
                "{said}"
            );
        }
    }
}

/// Of a proxy that denies in plain text nobody knows what the user may do.
#[test]
fn a_proxy_that_denies_says_nothing_about_rights() {
    let home = Home::of(answering("403 Forbidden", "text/plain", "Access denied"));
    for words in [
        &["status"][..],
        &["rescue", "-A", "--dry-run"],
        &["protect", "--list"],
    ] {
        let (code, out, err) = home.run(words);
        let said = format!("{out}{err}");
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains("HTTP 403"), "{words:?}: {said}");
        assert!(
            !said.contains("your rights") && !said.contains("-n NAMESPACE"),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn a5_hints_for_missing_rights_are_for_missing_rights() {
    let unauthorized = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}";
    let rejecting = Home::of(answering(
        "401 Unauthorized",
        "application/json",
        unauthorized,
    ));
    for home in [Home::of(closed()), rejecting] {
        for words in [&["status"][..], &["rescue", "-A", "--dry-run"]] {
            let (code, _, err) = home.run(words);
            assert_eq!(code, Some(2), "{words:?}: {err}");
            assert!(
                !err.contains("-n NAMESPACE") && !err.contains("with -n"),
                "{words:?}: {err}"
            );
            assert!(
                !err.contains("Unauthorized") || err.contains("log in again"),
                "{words:?}: {err}"
            );
        }
    }
}

#[test]
fn a9_no_shell_offers_files_or_programs_for_what_is_none() {
    let home = Home::of(closed());
    let (_, zsh, _) = home.run(&["completion", "zsh"]);
    let (_, bash, _) = home.run(&["completion", "bash"]);
    let (_, restart) = zsh.split_once("\n(restart)\n").unwrap();
    let (restart, _) = restart.split_once("\n;;\n").unwrap();
    let line = |starts: &str| {
        let mut lines = restart.lines().map(str::trim_start);
        lines.find(|line| line.starts_with(starts)).unwrap()
    };
    assert!(!line("'*::").contains(":_default'"), "{}", line("'*::"));
    let (_, namespace) = bash.split_once("--namespace)\n").unwrap();
    let (namespace, _) = namespace.split_once("return 0").unwrap();
    assert!(!namespace.contains("compgen -f"), "{namespace}");
    // Files stay files.
    let (_, kubeconfig) = bash.split_once("--kubeconfig)\n").unwrap();
    assert!(
        kubeconfig
            .split_once("return 0")
            .unwrap()
            .0
            .contains("compgen -f"),
        "{kubeconfig}"
    );
}
