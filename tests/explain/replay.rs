//! An API server that answers what was recorded, and takes no write.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// `2026-01-01T00:00:00`
const TIME: &str = "dddd-dd-ddTdd:dd:dd";

pub struct Replay {
    pub arguments: Vec<String>,
    folder: tempfile::TempDir,
    writes: Arc<Mutex<Vec<String>>>,
}

impl Replay {
    /// Answers on a loopback port for as long as the test runs.
    pub async fn start(file: &Path) -> Self {
        let recorded = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let recorded: Value = serde_json::from_str(&as_of_now(&recorded)).unwrap();
        let arguments = recorded["arguments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        write_kubeconfig(folder.path(), &listener.local_addr().unwrap().to_string());
        let writes = Arc::default();
        tokio::spawn(serve(
            listener,
            Arc::new(recorded["answers"].clone()),
            Arc::clone(&writes),
        ));
        Self {
            arguments,
            folder,
            writes,
        }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Every request that was more than a question.
    pub fn writes(&self) -> Vec<String> {
        self.writes.lock().unwrap().clone()
    }
}

/// What was 42 minutes old when it was recorded is 42 minutes old.
fn as_of_now(recorded: &str) -> String {
    let value: Value = serde_json::from_str(recorded).unwrap();
    let then: Timestamp = value["recordedAt"].as_str().unwrap().parse().unwrap();
    let shift = then.duration_until(now());
    let mut shifted = String::with_capacity(recorded.len());
    let mut rest = recorded;
    while let Some(at) = rest.as_bytes().windows(TIME.len()).position(is_time) {
        let (before, time) = rest.split_at(at);
        let (time, after) = time.split_at(TIME.len());
        let time: Timestamp = format!("{time}Z").parse().unwrap();
        let time = Timestamp::from_second(time.as_second() + shift.as_secs())
            .unwrap()
            .to_string();
        shifted.push_str(before);
        shifted.push_str(time.trim_end_matches('Z'));
        rest = after;
    }
    shifted + rest
}

fn is_time(bytes: &[u8]) -> bool {
    bytes.iter().zip(TIME.bytes()).all(|(byte, form)| {
        if form == b'd' {
            byte.is_ascii_digit()
        } else {
            *byte == form
        }
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the recorded times are moved to the present"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn write_kubeconfig(folder: &Path, address: &str) {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "replay",
        "clusters": [{"name": "replay", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "replay", "context": {"cluster": "replay", "user": "replay"}}],
        "users": [{"name": "replay", "user": {}}],
    });
    std::fs::write(folder.join("kubeconfig"), kubeconfig.to_string()).unwrap();
}

async fn serve(listener: TcpListener, answers: Arc<Value>, writes: Arc<Mutex<Vec<String>>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (answers, writes) = (Arc::clone(&answers), Arc::clone(&writes));
        let service = service_fn(move |request: Request<Incoming>| {
            let response = answer(&request, &answers, &writes);
            async move { Ok::<_, Infallible>(response) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn answer(
    request: &Request<Incoming>,
    answers: &Value,
    writes: &Mutex<Vec<String>>,
) -> Response<String> {
    let path = request.uri().path();
    // What asks whether something is allowed is stored nowhere.
    if request.method() != Method::GET && !path.ends_with("/selfsubjectaccessreviews") {
        writes
            .lock()
            .unwrap()
            .push(format!("{} {path}", request.method()));
    }
    if request
        .uri()
        .query()
        .is_some_and(|query| query.contains("watch=true"))
    {
        // A watch that nothing happens on.
        return Response::new(String::new());
    }
    let body = answers
        .get(path)
        .cloned()
        .unwrap_or_else(|| not_found(path));
    let code = body["code"]
        .as_u64()
        .filter(|_| body["kind"] == "Status")
        .unwrap_or(200);
    let mut response = Response::new(body.to_string());
    *response.status_mut() = StatusCode::from_u16(u16::try_from(code).unwrap()).unwrap();
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}

fn not_found(path: &str) -> Value {
    let mut parts = path.rsplit('/');
    let (name, resource) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": format!("{resource} {name:?} not found")})
}
