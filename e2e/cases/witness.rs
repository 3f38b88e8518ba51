//! Between a controller and the API server: notes what is asked for, and in which form, which the
//! audit log does not have; lets one write through, so that the controller can be killed right
//! after it; and serves no watches, as some proxies do.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, HOST,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::controller::{Controller, Why};
use crate::world::{PATIENCE, World};

/// What was asked for: path with query, and the header `Accept`.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

pub struct Witness {
    /// The namespace of the case.
    namespace: String,
    asked: Asked,
    gate: Arc<Gate>,
    task: JoinHandle<()>,
}

/// Which write is meant, by its method with the path, and its body.
type Which = fn(&str, &str) -> bool;

/// What happens to writes. What changes nothing is let through always: Events, and questions about
/// rights.
#[derive(Default)]
struct Gate {
    /// `None`: all are let through.
    last: watch::Sender<Option<Last>>,
    /// Whether the next list of pods is from before a restore of etcd.
    lists_ahead: AtomicBool,
    /// `None`: watches are served.
    watches: Mutex<Option<Watches>>,
    /// What the API server answered compressed: path with query.
    compressed: Mutex<Vec<String>>,
}

/// What becomes of watches; all else is let through.
#[derive(Clone, Copy)]
pub enum Watches {
    /// 504, as from a proxy that waits for the end of the answer.
    Refused,
    /// No answer.
    Held,
}

/// The last write that is let through.
#[derive(Clone)]
enum Last {
    Awaited(Which),
    UnderWay,
    /// Method and path of what the API server has carried out.
    Written(String),
}

/// So far ahead that no test comes there.
const AHEAD: u64 = 1_000_000_000;

impl Gate {
    /// Whether this is the list of pods that is to be from before a restore.
    fn is_ahead(&self, head: &Parts) -> bool {
        let query = head.uri.query().unwrap_or_default();
        let asks = |word: &str| query.split('&').any(|part| part == word);
        let is_list = head.method == Method::GET
            && head.uri.path().ends_with("/pods")
            && !asks("watch=true")
            && !asks("limit=1");
        is_list && self.lists_ahead.swap(false, Ordering::Relaxed)
    }

    /// Whether this asks for a stream of the list that is to be from before a restore: that has to
    /// come in pages.
    fn refuses(&self, head: &Parts) -> bool {
        let query = head.uri.query().unwrap_or_default();
        query.contains("sendInitialEvents=true")
            && head.uri.path().ends_with("/pods")
            && self.lists_ahead.load(Ordering::Relaxed)
    }

    /// What becomes of this request if it is a watch that is not served.
    fn serves(&self, head: &Parts) -> Option<Watches> {
        let query = head.uri.query().unwrap_or_default();
        let is_watch = query.split('&').any(|part| part == "watch=true");
        self.watches.lock().unwrap().filter(|_| is_watch)
    }

    /// What is to be done with this request.
    fn opens(&self, head: &Parts, body: &str) -> Opened {
        let resource = head.uri.path().rsplit('/').next().unwrap_or_default();
        // What is only tried is not written.
        let is_tried = head
            .uri
            .query()
            .is_some_and(|query| query.contains("dryRun"));
        let is_write = head.method != Method::GET
            && !is_tried
            && !["events", "selfsubjectaccessreviews"].contains(&resource);
        let mut opened = Opened::Passes;
        self.last.send_if_modified(|last| {
            opened = match last {
                Some(Last::Awaited(which)) if is_write && which(&name(head), body) => {
                    Opened::IsLast(*which)
                }
                Some(Last::UnderWay | Last::Written(_)) if is_write => Opened::Waits,
                _ => Opened::Passes,
            };
            let is_last = matches!(opened, Opened::IsLast(_));
            if is_last {
                *last = Some(Last::UnderWay);
            }
            is_last
        });
        opened
    }
}

enum Opened {
    Passes,
    /// For ever.
    Waits,
    /// Others of this kind would be the last if this one were refused.
    IsLast(Which),
}

/// `PATCH /api/v1/...`
fn name(head: &Parts) -> String {
    format!("{} {}", head.method, head.uri.path())
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Witness {
    /// From now on the controllers of this world speak through it, with the same rights.
    pub async fn of(world: &mut World) -> Self {
        let kubeconfig = Kubeconfig::read_from(&world.kubeconfig).unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        // A watch may be silent for long.
        config.read_timeout = None;
        let client = Client::try_from(config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        world.kubeconfig = write_kubeconfig(
            world.kubeconfig.parent().unwrap(),
            &listener.local_addr().unwrap().to_string(),
        );
        let (asked, gate) = (Asked::default(), Arc::default());
        let task = tokio::spawn(serve(
            listener,
            client,
            Arc::clone(&asked),
            Arc::clone(&gate),
        ));
        let namespace = world.namespace.clone();
        Self {
            namespace,
            asked,
            gate,
            task,
        }
    }

    /// A controller that is killed right after the first write for which `which` holds: the API
    /// server has carried it out, the controller got no answer, and what it has sent after that has
    /// reached nobody. The method and path of the write.
    pub async fn life_until(&self, which: Which, world: &World, arguments: &[&str]) -> String {
        self.gate.last.send_replace(Some(Last::Awaited(which)));
        let controller = Controller::process(world, arguments, Why::Witnessed).await;
        let written = self.written().await;
        controller.kill().await;
        println!("a life ended after {written}");
        written
    }

    /// As [`life_until`](Self::life_until), of the first write at all.
    pub async fn life_of_one_write(&self, world: &World, arguments: &[&str]) -> String {
        self.life_until(|_, _| true, world, arguments).await
    }

    /// The next list of pods is told at a version that the API server is far from, as one from
    /// before a restore of etcd is.
    pub fn next_list_is_ahead(&self) {
        self.gate.lists_ahead.store(true, Ordering::Relaxed);
    }

    /// From now on no watch is served; those that are open stay so.
    pub fn serves_no_watch(&self, watches: Watches) {
        *self.gate.watches.lock().unwrap() = Some(watches);
    }

    /// How often the pods of the case were listed, in pages or as a stream, without the questions for
    /// one of them. Where another case has installed the CRDs of OpenKruise, its daemons are listed
    /// too.
    pub fn lists_of_pods(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        let pods = format!("/namespaces/{}/pods?", self.namespace);
        let is_list = |path: &str| {
            path.contains(&pods)
                && (!path.contains("watch=true") || path.contains("sendInitialEvents=true"))
                && !path.contains("limit=1&")
                && !path.ends_with("limit=1")
        };
        asked.iter().filter(|(path, _)| is_list(path)).count()
    }

    /// The lists of the pods of the case that came compressed, as streams or in pages.
    pub fn compressed_lists_of_pods(&self, as_streams: bool) -> usize {
        let compressed = self.gate.compressed.lock().unwrap();
        let pods = format!("/namespaces/{}/pods?", self.namespace);
        let is_of = |path: &&String| {
            path.contains(&pods) && path.contains("sendInitialEvents=true") == as_streams
        };
        compressed.iter().filter(is_of).count()
    }

    /// From now on all writes are let through again, but for those that wait.
    pub fn all_writes(&self) {
        self.gate.last.send_replace(None);
    }

    async fn written(&self) -> String {
        let mut last = self.gate.last.subscribe();
        let write = timeout(
            PATIENCE,
            last.wait_for(|last| matches!(last, Some(Last::Written(_)))),
        )
        .await;
        match write.expect("a write").unwrap().clone() {
            Some(Last::Written(write)) => write,
            _ => unreachable!("it was waited for"),
        }
    }

    /// The forms in which objects of this resource were asked for.
    pub fn forms(&self, resource: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let is_of = |path: &str| {
            path.split('?')
                .next()
                .unwrap()
                .split('/')
                .any(|part| part == resource)
        };
        asked
            .iter()
            .filter(|(path, _)| is_of(path))
            .map(|(_, accept)| accept.clone())
            .collect()
    }
}

async fn serve(listener: TcpListener, client: Client, asked: Asked, gate: Arc<Gate>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (client, asked, gate) = (client.clone(), Arc::clone(&asked), Arc::clone(&gate));
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                pass(
                    client.clone(),
                    Arc::clone(&asked),
                    Arc::clone(&gate),
                    request,
                )
            });
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn pass(
    client: Client,
    asked: Asked,
    gate: Arc<Gate>,
    request: Request<Incoming>,
) -> Result<Response<Body>, kube::Error> {
    let (mut head, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_err(|error| kube::Error::Service(error.into()))?
        .to_bytes();
    let opened = gate.opens(&head, &String::from_utf8_lossy(&body));
    if matches!(opened, Opened::Waits) {
        // Not even when the gate opens again: its sender is killed before that.
        return std::future::pending().await;
    }
    let (write, is_ahead) = (name(&head), gate.is_ahead(&head));
    let accept = head
        .headers
        .get(ACCEPT)
        .map(|value| value.to_str().unwrap().to_owned())
        .unwrap_or_default();
    if gate.refuses(&head) {
        return Ok(streams_no_lists());
    }
    match gate.serves(&head) {
        Some(Watches::Refused) => return Ok(of_a_proxy(StatusCode::GATEWAY_TIMEOUT)),
        // The controller gives it up.
        Some(Watches::Held) => return std::future::pending().await,
        None => {}
    }
    asked
        .lock()
        .unwrap()
        .push((head.uri.path_and_query().unwrap().to_string(), accept));
    // The client has its own.
    head.headers.remove(HOST);
    head.headers.remove(AUTHORIZATION);
    if is_ahead {
        head.headers.remove(ACCEPT_ENCODING);
    }
    let asked = head.uri.path_and_query().unwrap().to_string();
    let answer = client
        .send(Request::from_parts(head, Body::from(body.to_vec())))
        .await;
    if is_ahead {
        return told_ahead(answer?).await;
    }
    if let Ok(answer) = &answer
        && answer.headers().contains_key(CONTENT_ENCODING)
    {
        gate.compressed.lock().unwrap().push(asked);
    }
    let Opened::IsLast(which) = opened else {
        return answer;
    };
    if answer
        .as_ref()
        .is_ok_and(|answer| answer.status().is_success())
    {
        gate.last.send_replace(Some(Last::Written(write)));
        return std::future::pending().await;
    }
    // One that was refused is none.
    gate.last.send_replace(Some(Last::Awaited(which)));
    answer
}

/// An answer that is no object.
fn of_a_proxy(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::from(b"<html>later</html>".to_vec()));
    *answer.status_mut() = status;
    answer
}

/// The answer of an API server without the feature gate `WatchList`.
fn streams_no_lists() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Invalid", "code": 422,
        "message": "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    answer
}

/// A list at a version that is far ahead of its own.
async fn told_ahead(answer: Response<Body>) -> Result<Response<Body>, kube::Error> {
    let (mut head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut list: Value = serde_json::from_slice(&body).expect("a list in JSON");
    let version = &mut list["metadata"]["resourceVersion"];
    let own: u64 = version.as_str().unwrap().parse().unwrap();
    *version = (own + AHEAD).to_string().into();
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(
        head,
        Body::from(list.to_string().into_bytes()),
    ))
}

fn write_kubeconfig(folder: &Path, address: &str) -> std::path::PathBuf {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "witness",
        "clusters": [{"name": "witness", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "witness", "context": {"cluster": "witness", "user": "witness"}}],
        "users": [{"name": "witness", "user": {}}],
    });
    let path = folder.join("kubeconfig-of-the-witness");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}
