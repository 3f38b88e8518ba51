//! Passwords and tokens for registries, from the docker configuration.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::fake::{Answer, FakeRegistry, Request};
use super::{docker_config, push_exit, push_with_password, swaplet, swaplet_with};

#[test]
fn a_password_from_the_docker_configuration_is_shown_to_its_host_only() {
    let registry = FakeRegistry::start(|request, _| match &request.authorization {
        None => Answer::status(401).header("www-authenticate", "Basic realm=\"test\""),
        Some(_) if request.is_upload() => Answer::status(403),
        Some(_) => Answer::status(404),
    });
    push_with_password(&registry).must_fail_with(&["403"]);
    assert!(
        registry
            .seen()
            .iter()
            .any(|request| request.authorization.as_deref() == Some("Basic dTpw"))
    );
    let before = registry.seen().len();
    let others = docker_config(r#"{"auths": {"other.example": {"auth": "dTpw"}}}"#);
    let reference = format!("{}/a:v1", registry.host);
    swaplet(others.path(), &["exit-image", "push", &reference]).must_fail_with(&["401"]);
    assert!(
        registry.seen()[before..]
            .iter()
            .all(|request| request.authorization.is_none())
    );
}

#[test]
fn a_token_is_fetched_where_the_registry_asks_for_one() {
    let registry =
        FakeRegistry::start(
            |request, _| match (&request.authorization, request.path.as_str()) {
                (Some(basic), path) if path.starts_with("/token") => {
                    Answer::status(200).body(format!(r#"{{"token": "for-{}"}}"#, basic.len()))
                }
                (None, "/v2/") => Answer::status(401).header(
                    "www-authenticate",
                    "Bearer realm=\"http://HOST/token\",service=\"test\"",
                ),
                (Some(token), _) if token.starts_with("Bearer for-") => {
                    Answer::status(if request.is_upload() { 403 } else { 404 })
                }
                _ => Answer::status(401),
            },
        );
    push_with_password(&registry).must_fail_with(&["403"]);
    assert!(
        registry
            .seen()
            .iter()
            .any(|request| request.path.contains("pull%2Cpush")
                || request.path.contains("pull,push"))
    );
}

/// A registry whose tokens are good for so many requests; it takes blobs, and no manifest.
fn issues_tokens_for(requests: usize) -> FakeRegistry {
    let issued = AtomicUsize::new(0);
    let valid = Mutex::new((String::new(), 0));
    FakeRegistry::start(move |request, _| {
        let mut valid = valid.lock().unwrap();
        if request.path.starts_with("/token") {
            let token = format!("t{}", issued.fetch_add(1, Ordering::Relaxed));
            *valid = (format!("Bearer {token}"), requests);
            return Answer::status(200)
                .body(format!(r#"{{"token": "{token}", "expires_in": 60}}"#));
        }
        if valid.1 == 0 || request.authorization.as_ref() != Some(&valid.0) {
            return Answer::status(401)
                .header("www-authenticate", "Bearer realm=\"http://HOST/token\"");
        }
        valid.1 -= 1;
        match &*request.method {
            "POST" => Answer::status(202).header("location", "/v2/a/blobs/uploads/7"),
            "PUT" if request.path.contains("/blobs/") => Answer::status(201),
            "PUT" => Answer::status(403),
            _ => Answer::status(404),
        }
    })
}

fn is_for_token(request: &&Request) -> bool {
    request.path.starts_with("/token")
}

/// Tokens are valid for minutes, and a push over a slow uplink takes longer.
#[test]
fn a_token_that_expires_during_a_push_is_fetched_again() {
    let registry = issues_tokens_for(1);
    push_with_password(&registry).must_fail_with(&["403"]);
    let seen = registry.seen();
    assert!(seen.iter().filter(is_for_token).count() > 5, "{seen:?}");
    for request in &seen {
        let has_password = request.authorization.as_deref() == Some("Basic dTpw");
        assert_eq!(has_password, is_for_token(&request), "{request:?}");
    }
    // The token was used up by the beginning of the upload.
    let puts: Vec<_> = seen
        .iter()
        .filter(|request| request.method == "PUT" && request.path.contains("/blobs/"))
        .collect();
    assert_eq!(puts.len(), 4, "two blobs, each sent twice: {puts:?}");
    for twice in puts.chunks(2) {
        assert_eq!(twice[0].length, twice[1].length);
        assert_ne!(twice[0].authorization, twice[1].authorization);
    }
}

#[test]
fn a_token_that_is_never_good_is_fetched_again_once() {
    let registry = issues_tokens_for(0);
    push_with_password(&registry).must_fail_with(&["401", "docker login"]);
    let seen = registry.seen();
    assert_eq!(seen.iter().filter(is_for_token).count(), 2, "{seen:?}");
    assert_eq!(seen.len(), 5, "the first request twice: {seen:?}");
}

#[test]
fn credential_helpers_are_not_run() {
    let config = docker_config(r#"{"auths": {"r.example": {}}, "credsStore": "trap"}"#);
    swaplet(config.path(), &["exit-image", "push", "r.example/a:v1"])
        .must_fail_with(&["credential helper \"trap\"", "does not execute helpers"]);
}

#[test]
fn u52_a_registry_that_everybody_may_read_gets_the_password_for_writes() {
    let registry =
        FakeRegistry::start(
            |request, _| match (&*request.method, &request.authorization) {
                ("GET" | "HEAD", _) if request.path == "/v2/" => Answer::status(200),
                ("GET" | "HEAD", _) => Answer::status(404),
                (_, None) => {
                    Answer::status(401).header("www-authenticate", "Basic realm=\"writers\"")
                }
                _ => Answer::status(403),
            },
        );
    push_with_password(&registry).must_fail_with(&["403"]);
    let uploads = || registry.seen().into_iter().filter(Request::is_upload);
    let sent: Vec<_> = uploads().map(|upload| upload.authorization).collect();
    assert_eq!(sent, [None, Some("Basic dTpw".to_owned())]);
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["401"]);
    assert_eq!(uploads().count(), 3, "without a password it is asked once");
}

#[test]
fn u52_a_place_to_which_the_registry_sends_us_cannot_ask_for_the_password() {
    let other = FakeRegistry::start(|_, _| {
        Answer::status(401).header("www-authenticate", "Bearer realm=\"http://HOST/token\"")
    });
    let place = format!("http://{}/elsewhere", other.host);
    let registry = FakeRegistry::start(move |request, _| match request.path.as_str() {
        "/v2/" => Answer::status(200),
        _ => Answer::status(307).header("location", place.clone()),
    });
    push_with_password(&registry).must_fail_with(&["401"]);
    let is_without = |request: &Request| request.authorization.is_none();
    assert!(other.seen().iter().all(is_without), "{:?}", other.seen());
}

#[test]
fn u58_a_helper_that_may_have_the_credentials_is_named_where_none_are_accepted() {
    let registry = FakeRegistry::start(|request, _| {
        Answer::status(if request.path == "/v2/" { 200 } else { 401 })
    });
    let config = docker_config(r#"{"credsStore": "ecr-login"}"#);
    let reference = format!("{}/a:v1", registry.host);
    let push = ["exit-image", "push", &reference];
    swaplet(config.path(), &push).must_fail_with(&[
        "401",
        "credential helper \"ecr-login\"",
        "DOCKER_CONFIG=DIR",
    ]);
}

#[test]
fn u59_a_registry_on_this_machine_is_asked_without_the_proxy() {
    let refuses = || {
        FakeRegistry::start(|request, _| match &request.authorization {
            None => Answer::status(401).header("www-authenticate", "Basic realm=\"test\""),
            Some(_) => Answer::status(403),
        })
    };
    let (registry, proxy) = (refuses(), refuses());
    let config = docker_config(&format!(
        r#"{{"auths": {{"{}": {{"auth": "dTpw"}}}}}}"#,
        registry.host
    ));
    let address = format!("http://{}", proxy.host);
    let variables = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, &*address));
    let reference = format!("{}/a:v1", registry.host);
    let push = ["exit-image", "push", &reference];
    swaplet_with(&variables, config.path(), &push).must_fail_with(&["403"]);
    assert!(proxy.seen().is_empty(), "{:?}", proxy.seen());
    assert!(!registry.seen().is_empty());
}

/// As kubectl: `NO_PROXY` has ports, `ALL_PROXY` says nothing, and what cannot be used is an error.
#[test]
fn u99_registries_are_reached_by_the_proxy_by_which_kubectl_would_reach_them() {
    let proxy = FakeRegistry::start(|_, _| Answer::status(418));
    let address = format!("http://{}", proxy.host);
    let config = TempDir::new().unwrap();
    let host = "registry.invalid:5000";
    let reference = format!("{host}/a:v1");
    let push = ["exit-image", "push", &reference, "--plain-http", host];
    for (variables, asked) in [
        (vec![("HTTP_PROXY", &*address)], true),
        (vec![("HTTP_PROXY", &*address), ("NO_PROXY", host)], false),
        (
            vec![("HTTP_PROXY", &*address), ("NO_PROXY", "*.invalid")],
            false,
        ),
        (vec![("ALL_PROXY", &*address)], false),
    ] {
        let before = proxy.seen().len();
        swaplet_with(&variables, config.path(), &push).must_fail_with(&[]);
        assert_eq!(proxy.seen().len() > before, asked, "{variables:?}");
    }
    swaplet_with(&[("HTTP_PROXY", "http://a b")], config.path(), &push)
        .must_fail_with(&["HTTP_PROXY is no address of a proxy"]);
    swaplet_with(&[("HTTP_PROXY", "ftp://p:3128")], config.path(), &push)
        .must_fail_with(&["ftp://p"]);
}
