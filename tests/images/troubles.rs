//! Registries that refuse, fail, are silent or not there: what is told, and what is tried again.

use std::net::TcpListener;

use tempfile::TempDir;

use super::fake::{Answer, FakeRegistry};
use super::{push, push_exit, swaplet_with};

#[test]
fn each_refusal_of_a_registry_is_told_with_its_remedy() {
    for (status, words) in [
        (401, "docker login"),
        (403, "right to push"),
        (404, "create the repository"),
        (400, "refused the request"),
    ] {
        let registry = FakeRegistry::start(move |request, _| match request {
            upload if upload.is_upload() => Answer::status(status).body("the registry's own words"),
            probe if probe.path == "/v2/" => Answer::status(200),
            _ => Answer::status(404),
        });
        push_exit(&format!("{}/a:v1", registry.host))
            .must_fail_with(&[words, "the registry's own words"]);
        assert_eq!(
            registry
                .seen()
                .iter()
                .filter(|request| request.is_upload())
                .count(),
            1,
            "{status} is not tried again"
        );
    }
}

#[test]
fn reading_is_refused_before_anything_is_written() {
    for (status, words) in [(401, "docker login"), (403, "403")] {
        let registry = FakeRegistry::start(move |request, _| {
            Answer::status(if request.path == "/v2/" { 200 } else { status })
        });
        push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["reading", words]);
        assert!(
            registry
                .seen()
                .iter()
                .all(|request| matches!(request.method.as_str(), "GET" | "HEAD"))
        );
    }
}

#[test]
fn a_registry_in_trouble_is_tried_again_and_then_told() {
    let told = |status: u16| {
        let registry = FakeRegistry::start(move |request, _| {
            Answer::status(if request.path == "/v2/" { 200 } else { status })
        });
        let ran = push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&[
            &status.to_string(),
            "trying again in",
            "later",
        ]);
        assert_eq!(ran.err.matches("trying again").count(), 3, "{}", ran.err);
    };
    // Each takes the seconds of its three pauses.
    std::thread::scope(|scope| {
        [429, 503]
            .map(|status| scope.spawn(move || told(status)))
            .map(|thread| thread.join().unwrap())
    });
}

#[test]
fn the_words_of_a_registry_do_not_control_the_terminal() {
    let registry = FakeRegistry::start(|request, before| match request.method.as_str() {
        _ if request.path == "/v2/" => Answer::status(200),
        // An answer to HEAD has no words.
        "HEAD" => Answer::status(404),
        _ if before < 5 => Answer::status(503).body("\u{1b}[2Jgone"),
        _ => Answer::status(403),
    });
    let ran = push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&[
        "?[2Jgone",
        "trying again",
        "403",
    ]);
    assert!(!ran.err.contains('\u{1b}'), "{}", ran.err);
}

#[test]
fn a_registry_that_recovers_is_used() {
    let registry = FakeRegistry::start(|request, before| match request {
        probe if probe.path == "/v2/" => Answer::status(200),
        // The three further tries of the first reading.
        _ if before < 4 => Answer::status(503),
        upload if upload.is_upload() => Answer::status(403),
        _ => Answer::status(404),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["503", "trying again", "403"]);
}

#[test]
fn silence_ends_in_time_with_a_word_in_between() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let reference = format!("{}/a:v1", silent.local_addr().unwrap());
    push("exit-image", &reference, &["--timeout", "2"]).must_fail_with(&[
        "no answer within 2 s",
        "--timeout",
        "still pushing",
    ]);
}

#[test]
fn a_closed_port_and_an_unknown_host_are_told() {
    push_exit("127.0.0.1:1/a:v1").must_fail_with(&["connecting to 127.0.0.1:1", "no connection"]);
    push_exit("registry.invalid/a:v1")
        .must_fail_with(&["connecting to registry.invalid", "no connection"]);
}

#[test]
fn an_answer_that_makes_no_sense_is_told() {
    let registry = FakeRegistry::start(|_, _| Answer::status(200).body("<html>hello</html>"));
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["swaplet did not make"]);
}

#[test]
fn u51_without_authorities_plain_http_works_and_tls_says_what_is_missing() {
    let registry = FakeRegistry::start(|_, _| Answer::status(403));
    let push = |reference: &str| {
        let folder = TempDir::new().unwrap();
        let variables = [
            ("SSL_CERT_FILE", "/dev/null"),
            ("SSL_CERT_DIR", "/dev/null"),
        ];
        swaplet_with(
            &variables,
            folder.path(),
            &["exit-image", "push", reference],
        )
    };
    push(&format!("{}/a:v1", registry.host)).must_fail_with(&["403"]);
    push("registry.invalid/a:v1").must_fail_with(&["not tried", "install ca-certificates"]);
}

#[test]
fn u63_a_host_without_tls_is_no_url() {
    for host in ["http://registry:5000", "registry:5000/"] {
        let ran = push("exit-image", "registry:5000/a:v1", &["--plain-http", host]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("write the host alone"), "{}", ran.err);
    }
}
