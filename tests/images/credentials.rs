//! Passwords and tokens for registries, from the docker configuration.

use super::fake::{Answer, FakeRegistry};
use super::{docker_config, swaplet};

#[test]
fn a_password_from_the_docker_configuration_is_shown_to_its_host_only() {
    let registry = FakeRegistry::start(|request, _| match &request.authorization {
        None => Answer::status(401).header("www-authenticate", "Basic realm=\"test\""),
        Some(_) if request.is_upload() => Answer::status(403),
        Some(_) => Answer::status(404),
    });
    let reference = format!("{}/a:v1", registry.host);
    let ours = docker_config(&format!(
        r#"{{"auths": {{"{}": {{"auth": "dTpw"}}}}}}"#,
        registry.host
    ));
    swaplet(ours.path(), &["exit-image", "push", &reference]).must_fail_with(&["403"]);
    assert!(
        registry
            .seen()
            .iter()
            .any(|request| request.authorization.as_deref() == Some("Basic dTpw"))
    );
    let before = registry.seen().len();
    let others = docker_config(r#"{"auths": {"other.example": {"auth": "dTpw"}}}"#);
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
    let reference = format!("{}/a:v1", registry.host);
    let config = docker_config(&format!(
        r#"{{"auths": {{"{}": {{"auth": "dTpw"}}}}}}"#,
        registry.host
    ));
    swaplet(config.path(), &["exit-image", "push", &reference]).must_fail_with(&["403"]);
    assert!(
        registry
            .seen()
            .iter()
            .any(|request| request.path.contains("pull%2Cpush")
                || request.path.contains("pull,push"))
    );
}

#[test]
fn credential_helpers_are_not_run() {
    let config = docker_config(r#"{"auths": {"r.example": {}}, "credsStore": "trap"}"#);
    swaplet(config.path(), &["exit-image", "push", "r.example/a:v1"])
        .must_fail_with(&["credential helper \"trap\"", "does not execute helpers"]);
}
