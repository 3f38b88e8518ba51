//! What an answer means that refuses a write.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use kube::core::Status;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::report::write_error::WriteError;

use super::is_of_webhook;

/// The reason with which the API server reports that an object does not exist.
const NOT_FOUND: &str = "NotFound";
/// The longest wait that an answer can ask for: a proxy may ask for hours, and meanwhile nothing
/// would be done for the object.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Parses a refusal: proxies and the API server's own flow control answer in plain text.
pub(crate) fn refusal(code: u16, body: &[u8]) -> Status {
    let text = || Status::failure(String::from_utf8_lossy(body).trim(), "");
    serde_json::from_slice(body)
        .unwrap_or_else(|_| text())
        .with_code(code)
}

/// Classifies a refusal of a request to this path. A failed `test` and a denial by an admission
/// policy are both 422; only the second has details about the object (`docs/measured.md`,
/// "Denials"). A 404 that names no object of the path is a failure: a proxy, or an API that is not
/// served at the moment, says nothing of the object.
pub(crate) fn classify(status: &Status, path: &str, headers: &HeaderMap) -> WriteError {
    match status.code {
        // A webhook chooses the code, reason and details of its answer. One that cannot be reached
        // denies as well: that is 500, for as long as its configuration is there.
        _ if is_of_webhook(&status.message) => denied(status),
        404 if names_object_of(path, status) => WriteError::Gone,
        409 => WriteError::Conflict,
        422 if is_failed_test(status) => WriteError::Conflict,
        400 | 403 | 422 => denied(status),
        code => WriteError::Failed {
            error: format!("{code} {}", cut(&status.message, MESSAGE)),
            retry_after: retry_after(status, headers),
        },
    }
}

fn denied(status: &Status) -> WriteError {
    WriteError::Denied(cut(&status.message, MESSAGE))
}

/// Returns true if the API server reports that an object of the path does not exist: the one to
/// write, or the namespace of a new one. It names the resource and the object (Kubernetes:
/// `NewNotFound` in `apimachinery/pkg/api/errors`).
fn names_object_of(path: &str, status: &Status) -> bool {
    let has = |word: &str| !word.is_empty() && path.split('/').any(|part| part == word);
    let details = status.details.as_ref();
    status.reason == NOT_FOUND
        && details.is_some_and(|details| has(&details.kind) && has(&details.name))
}

fn is_failed_test(status: &Status) -> bool {
    status
        .message
        .starts_with("the server rejected our request due to an error in our request")
}

fn retry_after(status: &Status, headers: &HeaderMap) -> Option<Duration> {
    let in_body = status
        .details
        .as_ref()
        .map(|details| u64::from(details.retry_after_seconds));
    let in_header = || headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok();
    let seconds = in_body.filter(|seconds| *seconds > 0).or_else(in_header)?;
    (seconds > 0).then(|| Duration::from_secs(seconds).min(LONGEST_ASKED))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const POD: &str = "/api/v1/namespaces/batch/pods/job-x7k2p";

    fn of_404(path: &str, body: &str) -> WriteError {
        classify(&refusal(404, body.as_bytes()), path, &HeaderMap::new())
    }

    fn not_found(message: &str, details: Value) -> String {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "NotFound", "details": details, "code": 404})
        .to_string()
    }

    #[test]
    fn nobody_can_ask_for_more_than_a_minute() {
        let waits = |seconds: &'static str, body: &[u8]| {
            let headers = [(RETRY_AFTER, seconds.parse().unwrap())];
            match classify(&refusal(429, body), POD, &headers.into_iter().collect()) {
                WriteError::Failed { retry_after, .. } => retry_after.map(|wait| wait.as_secs()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(waits("1", b"busy"), Some(1));
        assert_eq!(waits("3600", b"busy"), Some(60));
        assert_eq!(waits("18446744073709551615", b"busy"), Some(60));
        assert_eq!(waits("0", b"busy"), None);
        assert_eq!(waits("Wed, 29 Dec 9999 00:00:00 GMT", b"busy"), None);
        let body = json!({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 86400}});
        assert_eq!(waits("1", body.to_string().as_bytes()), Some(60));
    }

    #[test]
    fn an_object_or_a_namespace_that_the_server_names_is_gone() {
        let pod = not_found(
            "pods \"job-x7k2p\" not found",
            json!({"name": "job-x7k2p", "kind": "pods"}),
        );
        assert_eq!(of_404(POD, &pod), WriteError::Gone);
        assert_eq!(of_404(&format!("{POD}/status"), &pod), WriteError::Gone);
        let namespace = not_found(
            "namespaces \"batch\" not found",
            json!({"name": "batch", "kind": "namespaces"}),
        );
        assert_eq!(
            of_404("/api/v1/namespaces/batch/pods", &namespace),
            WriteError::Gone
        );
        let crd = not_found(
            "requests.apps.kruise.io \"r\" not found",
            json!({"name": "r", "group": "apps.kruise.io", "kind": "requests"}),
        );
        let path = "/apis/apps.kruise.io/v1alpha1/namespaces/batch/requests/r";
        assert_eq!(of_404(path, &crd), WriteError::Gone);
    }

    #[test]
    fn any_other_404_says_nothing_of_the_object() {
        let other = json!({"name": "other", "kind": "pods"});
        let of_kind = json!({"name": "job-x7k2p", "kind": "services"});
        for body in [
            "404 page not found\n".to_owned(),
            "<html>404 Not Found</html>".to_owned(),
            json!({"message": "no Route matched with those values"}).to_string(),
            String::new(),
            not_found(
                "the server could not find the requested resource",
                json!({}),
            ),
            not_found("not found", Value::Null),
            not_found("pods \"other\" not found", other),
            not_found("services \"job-x7k2p\" not found", of_kind),
        ] {
            let error = of_404(POD, &body);
            assert!(
                matches!(error, WriteError::Failed { .. }),
                "{body}: {error:?}"
            );
        }
    }

    #[test]
    fn a_webhook_that_answers_404_denies() {
        let message = "admission webhook \"w.example\" denied the request: not found";
        let details = json!({"name": "job-x7k2p", "kind": "pods"});
        assert_eq!(
            of_404(POD, &not_found(message, details)),
            WriteError::Denied(message.to_owned())
        );
    }

    #[test]
    fn a_webhook_that_cannot_be_reached_denies_and_a_server_in_trouble_does_not() {
        let of = |code: u16, message: &str| {
            let body = json!({"message": message, "reason": "InternalError"}).to_string();
            classify(&refusal(code, body.as_bytes()), POD, &HeaderMap::new())
        };
        let down = "Internal error occurred: failed calling webhook \"w.example\": failed to call webhook: connection refused";
        assert_eq!(of(500, down), WriteError::Denied(down.to_owned()));
        let own_code = "admission webhook \"w.example\" denied the request: busy";
        for code in [409, 429, 503] {
            assert_eq!(of(code, own_code), WriteError::Denied(own_code.to_owned()));
        }
        for (code, message) in [
            (500, "etcdserver: request timed out"),
            (503, "apiserver is shutting down"),
        ] {
            assert!(matches!(of(code, message), WriteError::Failed { .. }));
        }
    }
}
