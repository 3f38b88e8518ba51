//! Whether an image can be pulled without credentials: what registries answer, and that none are
//! sent.

use std::fs;
use std::path::Path;

use swaplet::image::ImageReference;
use swaplet::image::registry::{RegistryOptions, is_public};
use tempfile::TempDir;

use crate::images::fake::{Answer, FakeRegistry, Request};
use crate::images::swaplet;

const DIGEST: &str = "sha256:7173b809ca12ec5dee4506cd86be934c4596dd234ee82c0662eac04a8c2c71dc";

fn found() -> Answer {
    Answer::status(200).header("docker-content-digest", DIGEST)
}

fn wants_token() -> Answer {
    Answer::status(401).header(
        "www-authenticate",
        "Bearer realm=\"http://HOST/token\",service=\"r\"",
    )
}

async fn ask(registry: &FakeRegistry) -> Result<bool, String> {
    let image = format!("{}/swaplet/exit:v1", registry.host);
    let image = ImageReference::parse(&image).unwrap();
    let answer = is_public(&image, RegistryOptions::default()).await;
    answer.map_err(|error| error.to_string())
}

/// A registry that issues tokens to everybody, and answers this to them.
fn issuing(answer: fn(&Request) -> Answer) -> FakeRegistry {
    FakeRegistry::start(move |request, _| match &*request.path {
        "/v2/" => wants_token(),
        path if path.starts_with("/token") => Answer::status(200).body(r#"{"token": "anybody"}"#),
        _ => answer(request),
    })
}

#[tokio::test]
async fn l3_what_everybody_gets_is_public() {
    let open = FakeRegistry::start(|request, _| match &*request.path {
        "/v2/" => Answer::status(200),
        _ => found(),
    });
    assert_eq!(ask(&open).await, Ok(true));
    let issuing = issuing(|_| found());
    assert_eq!(ask(&issuing).await, Ok(true));
    let seen = issuing.seen();
    assert!(
        seen.iter().any(|request| request
            .path
            .contains("scope=repository%3Aswaplet%2Fexit%3Apull")),
        "no more than to pull: {seen:?}"
    );
}

#[tokio::test]
async fn l3_what_wants_credentials_is_not() {
    let basic = FakeRegistry::start(|_, _| {
        Answer::status(401).header("www-authenticate", "Basic realm=\"r\"")
    });
    let no_token = FakeRegistry::start(|request, _| match &*request.path {
        "/v2/" => wants_token(),
        _ => Answer::status(403),
    });
    for registry in [
        basic,
        no_token,
        issuing(|_| wants_token()),
        issuing(|_| Answer::status(403)),
    ] {
        assert_eq!(ask(&registry).await, Ok(false), "{:?}", registry.seen());
    }
}

/// A registry may say of what it hides that it is not there.
#[tokio::test]
async fn l3_other_answers_are_not_clear() {
    let page = || Answer::status(200).body("<html>log in</html>");
    for status in [200, 404, 429, 500, 503, 418] {
        let registry = FakeRegistry::start(move |request, _| match &*request.path {
            "/v2/" => Answer::status(200),
            _ if status == 200 => page(),
            _ => Answer::status(status),
        });
        let error = ask(&registry).await.unwrap_err();
        assert!(error.contains("exit:v1"), "{error}");
        assert!(
            registry.seen().len() <= 3,
            "asked once: {:?}",
            registry.seen()
        );
    }
    let image = ImageReference::parse("127.0.0.1:1/x:v1").unwrap();
    assert!(is_public(&image, RegistryOptions::default()).await.is_err());
}

/// The credentials are there, and would open it.
#[test]
fn l3_the_question_never_sends_the_credentials_that_are_there() {
    let registry = FakeRegistry::start(|request, _| match &request.authorization {
        Some(_) => found(),
        None => Answer::status(401).header("www-authenticate", "Basic realm=\"r\""),
    });
    let folder = TempDir::new().unwrap();
    let auth = serde_json::json!({"auths": {&registry.host: {"auth": "dTpodW50ZXIy"}}});
    fs::write(folder.path().join("config.json"), auth.to_string()).unwrap();
    let job = folder.path().join("job.yaml");
    fs::write(&job, JOB).unwrap();
    let image = format!("{}/swaplet/exit:v1", registry.host);
    let ran = check(
        folder.path(),
        &["--exit-image", &image, job.to_str().unwrap()],
    );
    let said = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ran.code, 0, "{said}{}", ran.err);
    assert!(said.contains("wants credentials"), "{said}");
    let seen = registry.seen();
    assert!(!seen.is_empty());
    assert!(
        seen.iter().all(|request| request.authorization.is_none()),
        "{seen:?}"
    );
}

fn check(docker_config: &Path, more: &[&str]) -> crate::images::Ran {
    swaplet(docker_config, &[&["check"], more].concat())
}

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "app:1"}
      - {name: side, image: "proxy:1", env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: "true"}]}
"#;
