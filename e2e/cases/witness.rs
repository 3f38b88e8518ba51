//! Between a controller and the API server: notes what is asked for, and in which form, which the audit log does not have; and lets one write
//! through, so that the controller can be killed right after it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::world::{PATIENCE, World};

/// What was asked for: path with query, and the header `Accept`.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

pub struct Witness {
    asked: Asked,
    gate: Arc<Gate>,
    task: JoinHandle<()>,
}

/// What happens to writes. What changes nothing is let through always: Events, and questions about rights.
#[derive(Default)]
struct Gate {
    /// `None`: all are let through.
    only: watch::Sender<Option<One>>,
}

#[derive(Clone, PartialEq)]
enum One {
    Awaited,
    UnderWay,
    /// Method and path of what the API server has carried out.
    Written(String),
}

impl Gate {
    /// Whether this request may pass, and whether it is the one write that is let through.
    fn opens(&self, head: &Parts) -> (bool, bool) {
        let resource = head.uri.path().rsplit('/').next().unwrap_or_default();
        let is_write = head.method != Method::GET && !["events", "selfsubjectaccessreviews"].contains(&resource);
        let mut opened = (true, false);
        self.only.send_if_modified(|only| match only {
            Some(one) if is_write => {
                let is_the_one = *one == One::Awaited;
                opened = (is_the_one, is_the_one);
                *one = if is_the_one { One::UnderWay } else { one.clone() };
                is_the_one
            }
            _ => false,
        });
        opened
    }
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
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        // A watch may be silent for long.
        config.read_timeout = None;
        let client = Client::try_from(config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        world.kubeconfig = write_kubeconfig(world.kubeconfig.parent().unwrap(), &listener.local_addr().unwrap().to_string());
        let (asked, gate) = (Asked::default(), Arc::default());
        let task = tokio::spawn(serve(listener, client, Arc::clone(&asked), Arc::clone(&gate)));
        Self { asked, gate, task }
    }

    /// From now on one write reaches the API server, and gets no answer; those after it do not even reach it.
    pub fn one_write(&self) {
        self.gate.only.send_replace(Some(One::Awaited));
    }

    /// From now on all writes are let through again, but for those that wait.
    pub fn all_writes(&self) {
        self.gate.only.send_replace(None);
    }

    /// Waits for the one write: `PATCH /api/v1/...`.
    pub async fn written(&self) -> String {
        let mut only = self.gate.only.subscribe();
        let one = timeout(PATIENCE, only.wait_for(|one| matches!(one, Some(One::Written(_))))).await;
        match one.expect("a write").unwrap().clone() {
            Some(One::Written(write)) => write,
            _ => unreachable!("it was waited for"),
        }
    }

    /// The forms in which objects of this resource were asked for.
    pub fn forms(&self, resource: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let is_of = |path: &str| path.split('?').next().unwrap().split('/').any(|part| part == resource);
        asked.iter().filter(|(path, _)| is_of(path)).map(|(_, accept)| accept.clone()).collect()
    }
}

async fn serve(listener: TcpListener, client: Client, asked: Asked, gate: Arc<Gate>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (client, asked, gate) = (client.clone(), Arc::clone(&asked), Arc::clone(&gate));
        tokio::spawn(async move {
            let service = service_fn(move |request| pass(client.clone(), Arc::clone(&asked), Arc::clone(&gate), request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn pass(client: Client, asked: Asked, gate: Arc<Gate>, request: Request<Incoming>) -> Result<Response<Body>, kube::Error> {
    let (mut head, body) = request.into_parts();
    let (may_pass, is_the_one) = gate.opens(&head);
    if !may_pass {
        // Not even when the gate opens again: its sender is killed before that.
        return std::future::pending().await;
    }
    let write = format!("{} {}", head.method, head.uri.path());
    let accept = head.headers.get(ACCEPT).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    asked.lock().unwrap().push((head.uri.path_and_query().unwrap().to_string(), accept));
    // The client has its own.
    head.headers.remove(HOST);
    head.headers.remove(AUTHORIZATION);
    let body = body.collect().await.map_err(|error| kube::Error::Service(error.into()))?.to_bytes();
    let answer = client.send(Request::from_parts(head, Body::from(body.to_vec()))).await;
    if !is_the_one {
        return answer;
    }
    if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
        gate.only.send_replace(Some(One::Written(write)));
        return std::future::pending().await;
    }
    // One that was refused is none.
    gate.only.send_replace(Some(One::Awaited));
    answer
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
