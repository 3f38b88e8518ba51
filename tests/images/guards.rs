//! What a registry, or what stands in its place, must not be able to do: make swaplet wait for
//! ever, read without end, or show credentials to somebody else.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::images::fake::{Answer, FakeRegistry, Request};
use crate::images::{push_exit, push_with_password};

/// Where a machine or a cluster keeps credentials.
const SECRET_PLACES: [&str; 3] = [
    "http://169.254.169.254/latest",
    "http://metadata.google.internal/",
    "http://secrets.vault.svc/",
];

fn is_probe(request: &Request) -> bool {
    request.path == "/v2/"
}

fn uploads(registry: &FakeRegistry) -> usize {
    registry
        .seen()
        .iter()
        .filter(|request| request.is_upload())
        .count()
}

/// Nothing is there; what `answer` does not know is answered so.
fn empty(request: &Request) -> Answer {
    Answer::status(if is_probe(request) { 200 } else { 404 })
}

#[test]
fn a_registry_that_names_a_time_gets_it() {
    let registry = FakeRegistry::start(|request, before| match request {
        _ if before == 1 => Answer::status(429).header("retry-after", "2"),
        upload if upload.is_upload() => Answer::status(403),
        other => empty(other),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&[
        "429",
        "retry in 2 s",
        "trying again in 2.0 s",
        "403",
    ]);
}

#[test]
fn a_registry_that_names_a_time_for_writes_gets_it_too() {
    let tries = AtomicUsize::new(0);
    let registry = FakeRegistry::start(move |request, _| match request {
        upload if upload.is_upload() && tries.fetch_add(1, Ordering::Relaxed) == 0 => {
            Answer::status(503).header("retry-after", "2")
        }
        upload if upload.is_upload() => Answer::status(403),
        other => empty(other),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&[
        "503",
        "retry in 2 s",
        "trying again in 2.0 s",
        "403",
    ]);
    assert_eq!(uploads(&registry), 2);
}

/// A registry that says where a blob is to be uploaded.
fn uploads_to(place: String) -> FakeRegistry {
    FakeRegistry::start(move |request, _| match request {
        probe if is_probe(probe) && probe.authorization.is_none() => {
            Answer::status(401).header("www-authenticate", "Basic realm=\"test\"")
        }
        upload if upload.is_upload() => Answer::status(202).header("location", place.clone()),
        manifest if manifest.method == "PUT" && manifest.path.contains("/manifests/") => {
            Answer::status(403)
        }
        blob if blob.method == "PUT" => Answer::status(201),
        other => empty(other),
    })
}

#[test]
fn an_upload_goes_where_the_registry_says_and_keeps_what_it_has_added() {
    let registry = uploads_to("/v2/a/blobs/uploads/7?state=x%3Dy".to_owned());
    push_with_password(&registry).must_fail_with(&["403"]);
    let seen = registry.seen();
    let writes = |request: &&Request| ["POST", "PUT"].contains(&request.method.as_str());
    let mut written = seen.iter().filter(writes);
    assert!(
        written.all(|request| request.length.is_some()),
        "some registries refuse the beginning of an upload without a length: {seen:?}"
    );
    let puts = seen.iter().filter(|request| request.method == "PUT");
    let blobs: Vec<_> = puts.filter(|put| put.path.contains("/blobs/")).collect();
    assert!(!blobs.is_empty());
    for put in blobs {
        assert!(
            put.path
                .starts_with("/v2/a/blobs/uploads/7?state=x%3Dy&digest=sha256%3A"),
            "{put:?}"
        );
        assert!(put.authorization.is_some());
    }
}

#[test]
fn an_upload_takes_no_credentials_to_another_host() {
    let other = FakeRegistry::start(|_, _| Answer::status(201));
    let registry = uploads_to(format!("http://{}/storage?signature=1", other.host));
    push_with_password(&registry).must_fail_with(&["403"]);
    let seen = other.seen();
    assert!(
        !seen.is_empty()
            && seen
                .iter()
                .all(|request| request.method == "PUT" && request.authorization.is_none()),
        "{seen:?}"
    );
}

#[test]
fn an_upload_goes_to_no_place_that_is_refused() {
    for place in SECRET_PLACES {
        push_with_password(&uploads_to(place.to_owned()))
            .must_fail_with(&["not tried", "the registry sends us to"]);
    }
    push_with_password(&uploads_to("http://[".to_owned()))
        .must_fail_with(&["no valid address for the upload"]);
}

#[test]
fn of_a_refused_upload_the_beginning_is_read() {
    let registry = FakeRegistry::start(|request, _| match request {
        upload if upload.is_upload() => Answer::status(400).body("no ".repeat(2 << 20)),
        other => empty(other),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["refused", "no no no"]);
}

#[test]
fn a_registry_that_wants_to_be_left_alone_for_long_is_left_alone() {
    let registry = FakeRegistry::start(|request, _| match request {
        probe if is_probe(probe) => Answer::status(200),
        _ => Answer::status(429).header("retry-after", "3600"),
    });
    let ran =
        push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["429", "retry in 3600 s"]);
    assert!(!ran.err.contains("trying again"), "{}", ran.err);
    assert_eq!(registry.seen().len(), 2);
}

#[test]
fn nothing_is_read_beyond_4_mib() {
    let registry = FakeRegistry::start(|request, _| match request.method.as_str() {
        "GET" if !is_probe(request) => Answer::status(200).body("x".repeat(5 << 20)),
        _ => Answer::status(200),
    });
    push_exit(&format!("{}/a:v1", registry.host))
        .must_fail_with(&["larger than swaplet ever reads"]);
    assert!(
        registry
            .seen()
            .iter()
            .all(|request| ["GET", "HEAD"].contains(&request.method.as_str()))
    );
}

#[test]
fn of_a_refusal_the_beginning_is_read() {
    let registry = FakeRegistry::start(|request, _| match request.method.as_str() {
        "GET" if !is_probe(request) => Answer::status(403).body("no ".repeat(2 << 20)),
        _ => Answer::status(200),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["403", "no no no"]);
}

#[test]
fn a_manifest_does_not_choose_the_path_of_the_next_request() {
    let registry = FakeRegistry::start(|request, _| match request {
        probe if is_probe(probe) => Answer::status(200),
        _ => Answer::status(200).body(r#"{"config": {"digest": "../../../../elsewhere"}}"#),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["swaplet did not make"]);
    assert!(
        registry
            .seen()
            .iter()
            .all(|request| !request.path.contains("elsewhere"))
    );
}

#[test]
fn a_redirect_takes_no_credentials_to_another_host() {
    let other = FakeRegistry::start(|_, _| Answer::status(404));
    let place = format!("http://{}/elsewhere", other.host);
    let registry = FakeRegistry::start(move |request, _| match request {
        probe if is_probe(probe) => {
            Answer::status(401).header("www-authenticate", "Basic realm=\"test\"")
        }
        upload if upload.is_upload() => Answer::status(403),
        _ => Answer::status(307).header("location", place.clone()),
    });
    push_with_password(&registry).must_fail_with(&["403"]);
    assert!(
        registry
            .seen()
            .iter()
            .any(|request| request.authorization.is_some())
    );
    assert!(
        !other.seen().is_empty()
            && other
                .seen()
                .iter()
                .all(|request| request.authorization.is_none())
    );
}

#[test]
fn a_registry_cannot_send_us_to_the_credentials_of_the_machine() {
    for place in SECRET_PLACES {
        let registry = FakeRegistry::start(move |request, _| match request {
            probe if is_probe(probe) => Answer::status(200),
            _ => Answer::status(307).header("location", place),
        });
        push_exit(&format!("{}/a:v1", registry.host))
            .must_fail_with(&["not tried", "the registry sends us to"]);
    }
}

#[test]
fn a_password_is_not_sent_to_just_any_place_for_tokens() {
    let registry = FakeRegistry::start(|_, _| {
        Answer::status(401).header(
            "www-authenticate",
            "Bearer realm=\"http://169.254.169.254/token\",service=\"test\"",
        )
    });
    push_with_password(&registry).must_fail_with(&["not tried", "169.254.169.254"]);
    assert_eq!(registry.seen().len(), 1);
}

#[test]
fn a_place_for_tokens_in_trouble_is_no_wrong_password() {
    let registry = FakeRegistry::start(|request, before| match request {
        probe if is_probe(probe) => {
            Answer::status(401).header("www-authenticate", "Bearer realm=\"http://HOST/token\"")
        }
        _ if before < 2 => Answer::status(503),
        _ => Answer::status(403)
            .body(r#"{"errors": [{"code": "DENIED", "message": "not this account"}]}"#),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&[
        "503",
        "trying again",
        "403",
        "not this account",
    ]);
}

#[test]
fn what_is_no_token_is_told() {
    for body in ["<html>", r#"{"token": ""}"#, r#"{"token": "a\nb"}"#, "[]"] {
        let registry = FakeRegistry::start(move |request, _| match request {
            probe if is_probe(probe) => {
                Answer::status(401).header("www-authenticate", "Bearer realm=\"http://HOST/token\"")
            }
            _ => Answer::status(200).body(body),
        });
        push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["no valid token"]);
    }
}

#[test]
fn a_token_that_no_header_has_room_for_is_none() {
    let registry = FakeRegistry::start(|request, _| match request {
        probe if is_probe(probe) => {
            Answer::status(401).header("www-authenticate", "Bearer realm=\"http://HOST/token\"")
        }
        _ => Answer::status(200).body(format!(r#"{{"token": "{}"}}"#, "a".repeat(1 << 20))),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["it returned no valid token"]);
    assert_eq!(registry.seen().len(), 2, "it is not sent");
}

#[test]
fn a_registry_in_the_cluster_is_asked_because_the_user_has_named_it() {
    push_exit("registry.invalid.svc:5000/a:v1").must_fail_with(&["no connection"]);
}

#[test]
fn a_name_that_the_registry_does_not_take_is_told() {
    let registry = FakeRegistry::start(|request, _| match request {
        upload if upload.is_upload() => Answer::status(400)
            .body(r#"{"errors": [{"code": "NAME_INVALID", "message": "two parts at most"}]}"#),
        other => empty(other),
    });
    push_exit(&format!("{}/a/b/c:v1", registry.host))
        .must_fail_with(&["accepts no such name", "two parts at most"]);
}

#[test]
fn bytes_that_are_not_those_of_the_digest_are_not_believed() {
    let claimed = format!("sha256:{}", "a".repeat(64));
    let registry = FakeRegistry::start(move |request, _| match request {
        probe if is_probe(probe) => Answer::status(200),
        _ => Answer::status(200)
            .header("docker-content-digest", claimed.clone())
            .body("{}"),
    });
    push_exit(&format!("{}/a:v1", registry.host)).must_fail_with(&["other bytes"]);
}
