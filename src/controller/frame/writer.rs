//! Writes what the loops have decided: each write is guarded, has a deadline, needs the Lease and
//! returns its outcome. Methods other than the swap have files of their own.

pub mod leash;
pub mod precedence;
pub mod report;
mod undone;

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch as JsonPatch, PatchOperation, ReplaceOperation, TestOperation};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::bounds::{MESSAGE, TEXT, cut};
use swaplet_core::report::decision::{Action, Swap};
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::predownload::workload::{Workload, WorkloadKind};
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use tokio::time::timeout;

use self::report::Reporter;
pub(crate) use self::undone::Change as ImageChange;
use self::undone::undone;
use super::lease::Leadership;
use super::metrics::Metrics;
use crate::frame::isolated::isolated_task;
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::watch::Event;

/// The words of the API server about a webhook that cannot be reached.
const UNREACHED: &str = "failed calling webhook";
/// The wait after a write that was not applied, for all loops: in the end one write a minute to an
/// object that does not change.
pub(crate) const RETRY: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(60),
};

/// The name that the API server's audit log and `managedFields` show for our writes.
pub const FIELD_MANAGER: &str = "swaplet";

/// A request, or why it cannot be built.
pub(crate) type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// The pod that a write is for, or the object of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind of the object.
    pub kind: TargetKind,
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
}

/// The kinds of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A pod (`v1`), the usual target.
    Pod,
    /// A Job (`batch/v1`); never written, only reported about.
    Job,
    /// A workload; never written, only reported about.
    Workload(WorkloadKind),
    /// A job that pulls images.
    PullJob(JobKind),
}

impl Target {
    pub(crate) fn new(kind: TargetKind, namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
        }
    }

    /// Returns the target for a pod.
    pub fn of(pod: &Pod) -> Self {
        Self::new(TargetKind::Pod, &pod.namespace, &pod.name, &pod.uid)
    }

    /// Returns the target for a workload.
    pub fn of_workload(workload: &Workload) -> Self {
        let kind = TargetKind::Workload(workload.kind);
        Self::new(kind, &workload.namespace, &workload.name, &workload.uid)
    }

    /// Returns the target for a job that pulls images.
    pub fn of_pull_job(job: &PullJob) -> Self {
        let kind = TargetKind::PullJob(job.kind);
        Self::new(kind, &job.namespace, &job.name, &job.uid)
    }

    /// Returns the target for the pod's Job; `None` if it has none.
    pub fn job_of(pod: &Pod) -> Option<Self> {
        let job = pod.job.as_ref()?;
        let kind = TargetKind::Job;
        Some(Self::new(kind, &pod.namespace, &job.name, &job.uid))
    }
}

/// The outcome of a write to a pod: the image of each swapped container as the API server stored
/// it, in the order of the swaps (empty for other actions).
pub type Outcome = Result<Vec<Box<str>>, WriteError>;

/// A writer of the images and phases of pods.
#[derive(Clone)]
pub struct Writer {
    pub(crate) client: Client,
    deadline: Duration,
    leadership: Leadership,
    metrics: Option<Metrics>,
}

impl Writer {
    /// Returns a writer. `deadline` bounds each write; one that takes longer has an unknown result
    /// and counts as failed. The client must not retry by itself: a retry needs a new decision.
    pub const fn new(client: Client, deadline: Duration) -> Self {
        Self {
            client,
            deadline,
            leadership: Leadership::undisputed(),
            metrics: None,
        }
    }

    /// Makes it write only while this process leads, and count and measure its writes.
    #[must_use]
    pub fn while_leading(self, leadership: Leadership, metrics: Metrics) -> Self {
        Self {
            leadership,
            metrics: Some(metrics),
            ..self
        }
    }

    /// Makes the write that was decided, within the deadline. Unless this process leads, nothing is
    /// sent, and nothing that is observed later may be taken for it: as with a conflict.
    pub async fn write(&self, target: &Target, action: &Action) -> Outcome {
        if !self.leadership.holds() {
            return Err(WriteError::Conflict);
        }
        self.in_time(action.resource(), async {
            match action {
                Action::Swap(swaps) => self.swap(target, swaps).await,
                Action::Finish(finish) => self.finish(target, finish).await,
                Action::Recreate(containers) => self.recreate(target, containers).await,
            }
        })
        .await
    }

    /// Returns the result of a write to a resource (in the plural, with its subresource). A write
    /// that takes longer than the deadline, or whose answer was lost, has failed. Unless this
    /// process leads, nothing is written; soon after its leadership no answer is awaited.
    pub(crate) async fn in_time<T>(
        &self,
        resource: &'static str,
        written: impl Future<Output = kube::Result<Result<T, WriteError>>>,
    ) -> Result<T, WriteError> {
        if !self.leadership.holds() {
            return Err(failed("this process no longer leads"));
        }
        let under_way = self.metrics.as_ref().map(|metrics| metrics.sends(resource));
        let outcome = self.answered(resource, written).await;
        if let Some(under_way) = under_way {
            under_way.answered(outcome.as_ref().map_or_else(Into::into, |_| "applied"));
        }
        outcome
    }

    async fn answered<T>(
        &self,
        resource: &str,
        written: impl Future<Output = kube::Result<Result<T, WriteError>>>,
    ) -> Result<T, WriteError> {
        // First, because a process that was suspended must not send what it had not sent.
        let answer = tokio::select! {
            biased;
            () = self.leadership.clone().over() => {
                return Err(failed("no answer while this process led"));
            }
            answer = timeout(self.deadline, isolated_task(resource, written)) => answer,
        };
        Err(match answer {
            Ok(Ok(Ok(outcome))) => return outcome,
            Ok(Ok(Err(error))) => failed(error.to_string()),
            Ok(Err(defect)) => broken(&defect),
            Err(_) => failed(format!("no answer in {} s", self.deadline.as_secs())),
        })
    }

    /// Changes images in one patch: all of them, or none.
    async fn swap(&self, target: &Target, swaps: &[Swap]) -> kube::Result<Outcome> {
        let patch = Patch::Json::<()>(guarded_patch(&target.uid, swaps));
        let pods = requests_for::<PodWire>(&(), Some(&target.namespace));
        let built = pods.patch(&target.name, &params(), &patch);
        let stored = self.decoded(built, &[]).await?;
        Ok(stored.map(|stored| stored_images(stored, swaps)))
    }

    /// Sends a write to a resource [in time](Self::in_time). Returns the body of the answer, or why
    /// nothing was written.
    pub(crate) async fn sent(
        &self,
        resource: &'static str,
        built: Built,
    ) -> Result<Bytes, WriteError> {
        self.in_time(resource, self.send(built)).await
    }

    /// Like [`send_images`](Self::send_images), and decodes the answer; one that cannot be decoded
    /// is a failure.
    pub(crate) async fn decoded<T: DeserializeOwned>(
        &self,
        built: Built,
        images: &[ImageChange<'_>],
    ) -> kube::Result<Result<T, WriteError>> {
        Ok(match self.send_images(built, images).await? {
            Ok(body) => Ok(serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?),
            Err(refused) => Err(refused),
        })
    }

    /// Returns the body of the answer, or why nothing was written.
    pub(crate) async fn send(&self, built: Built) -> kube::Result<Result<Bytes, WriteError>> {
        self.send_images(built, &[]).await
    }

    /// Like [`send`](Self::send), for a patch that makes these changes of images. A patch that a
    /// webhook has undone is denied.
    pub(crate) async fn send_images(
        &self,
        built: Built,
        images: &[ImageChange<'_>],
    ) -> kube::Result<Result<Bytes, WriteError>> {
        let request = built.map_err(kube::Error::BuildRequest)?;
        let is_patch = request.method() == http::Method::PATCH;
        let sent = is_patch.then(|| request.body().clone());
        let body = match self.exchange(request).await? {
            Ok(body) => body,
            Err((_, refused)) => return Ok(Err(refused)),
        };
        let undone = sent.and_then(|sent| undone(&sent, images, &body));
        Ok(undone.map_or(Ok(body), |words| Err(WriteError::Denied(words))))
    }

    /// Returns the body of the answer, or the refusal and what it means. Without `kube::Api`, which
    /// drops the headers of an answer: only there a busy API server reports when to come back.
    pub(crate) async fn exchange(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> kube::Result<Result<Bytes, (Status, WriteError)>> {
        let path = request.uri().path().to_owned();
        let answer = self.client.send(request.map(Body::from)).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        if head.status.is_success() {
            return Ok(Ok(body));
        }
        let status = refusal(head.status.as_u16(), &body);
        let refused = classify(&status, &path, &head.headers);
        Ok(Err((status, refused)))
    }
}

/// Returns that a write is not known to be applied, where nobody asks to wait for the next one.
pub(crate) fn failed(error: impl Into<String>) -> WriteError {
    WriteError::Failed {
        error: error.into(),
        retry_after: None,
    }
}

/// Returns that a write has panicked, with this message.
pub(crate) fn broken(defect: &str) -> WriteError {
    failed(format!(
        "a defect in swaplet prevents this write; please report it: {defect}"
    ))
}

/// Returns the requests for objects of a kind: those of a namespace, or of the cluster.
pub(crate) fn requests_for<K: Resource>(kind: &K::DynamicType, namespace: Option<&str>) -> Request {
    Request::new(K::url_path(kind, namespace))
}

/// Returns the parameters of every patch.
pub(crate) fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Returns the parameters of a creation.
pub(crate) fn created() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

pub(crate) fn creation(objects: &Request, object: &Value) -> Built {
    objects.create(&created(), object.to_string().into_bytes())
}

/// Returns the parameters of a deletion, of the object with this uid and, if one is given, in this
/// version alone.
pub fn deleted(uid: &str, version: Option<&str>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: version.map(str::to_owned),
        }),
        ..DeleteParams::default()
    }
}

/// Returns a patch that tests the uid, and each container's name and image before it replaces that.
pub fn guarded_patch(uid: &str, swaps: &[Swap]) -> JsonPatch {
    let mut operations = vec![test(&["metadata", "uid"], uid)];
    for swap in swaps {
        let index = swap.index.to_string();
        let list = if swap.is_native_sidecar {
            "initContainers"
        } else {
            "containers"
        };
        operations.push(test(&["spec", list, &index, "name"], &swap.container));
        operations.push(test(&["spec", list, &index, "image"], &swap.from));
        let path = PointerBuf::from_tokens(["spec", list, &index, "image"]);
        operations.push(PatchOperation::Replace(ReplaceOperation {
            path,
            value: Value::from(&*swap.to),
        }));
    }
    JsonPatch(operations)
}

pub(crate) fn test(path: &[&str], value: &str) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: PointerBuf::from_tokens(path.iter().copied()),
        value: Value::from(value),
    })
}

/// Returns the images of the pod as the API server has stored it, where a webhook may have changed
/// them.
fn stored_images(BoundedObject { data, .. }: BoundedObject, swaps: &[Swap]) -> Vec<Box<str>> {
    let stored = swaps.iter().map(|swap| {
        let image = data["spec"]["containers"][swap.index]["image"].as_str();
        image
            .filter(|image| image.len() <= TEXT)
            .unwrap_or(&swap.to)
    });
    stored.map(Into::into).collect()
}

/// Returns true if a denial reports a missing right, which concerns every object of the kind
/// (Kubernetes: `forbiddenMessage` in `responsewriters/errors.go`). An admission policy or webhook
/// denies one object, in other words.
pub fn is_missing_right(words: &str) -> bool {
    words.contains(" is forbidden: User ") && words.contains(" cannot ")
}

/// Returns true if a webhook refused a write or did not answer, which concerns the namespaces that
/// it is for: then a pause that it asks for is none of the API server (Kubernetes: `ToStatusErr` in
/// `webhook/errors/statuserror.go`, `ErrCallingWebhook`). The words are the API server's own.
pub(crate) fn is_of_webhook(words: &str) -> bool {
    words.contains("admission webhook \"") || is_unreached(words)
}

/// Returns true if a webhook has not answered, by the words of a denial.
pub(crate) fn is_unreached(words: &str) -> bool {
    words.contains(UNREACHED)
}

/// Returns true if the API server did not answer a write, or a webhook did not answer the API
/// server, which may have waited for it as long as it could.
pub(crate) fn is_unanswered(error: &WriteError) -> bool {
    match error {
        WriteError::Failed { .. } => true,
        WriteError::Denied(words) => is_unreached(words),
        WriteError::Conflict | WriteError::Gone => false,
    }
}

/// The tools, which all loops of a process share.
#[derive(Clone)]
pub struct Tools {
    /// Writes while this process leads.
    pub writer: Writer,
    /// Reports what was written.
    pub reporter: Reporter,
    /// Counts what the loops do.
    pub metrics: Metrics,
    /// Holds what `/readyz` reports.
    pub health: Health,
}

impl Tools {
    /// Records an event of a watch that needs the right, in one namespace (empty: in all).
    pub(crate) fn note_watch<T>(&self, right: Right, namespace: &str, event: &Event<T>) {
        let [.., resource] = right.rule();
        self.health.note_watch(right, namespace, event);
        self.metrics.count_trouble(resource, event);
    }
}

// What an answer means that refuses a write.

/// The reason with which the API server reports that an object does not exist.
const NOT_FOUND: &str = "NotFound";
/// The longest wait that an answer can ask for: a proxy may ask for hours, and meanwhile nothing
/// would be done for the object.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Parses a refusal: proxies and the API server's own flow control answer in plain text.
fn refusal(code: u16, body: &[u8]) -> Status {
    let text = || Status::failure(String::from_utf8_lossy(body).trim(), "");
    serde_json::from_slice(body)
        .unwrap_or_else(|_| text())
        .with_code(code)
}

/// Classifies a refusal of a request to this path. A failed `test` and a denial by an admission
/// policy are both 422; only the second has details about the object (`docs/measured.md`,
/// "Denials"). A 404 that names no object of the path is a failure: a proxy, or an API that is not
/// served at the moment, says nothing of the object.
fn classify(status: &Status, path: &str, headers: &HeaderMap) -> WriteError {
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
mod answer_tests {
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
