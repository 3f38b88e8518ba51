//! Between a controller and the API server: notes what is asked for, and in which form. The audit log does not have the form.

use std::path::Path;
use std::sync::{Arc, Mutex};

use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::{Request, Response};
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
use tokio::task::JoinHandle;

use crate::world::World;

/// What was asked for: path with query, and the header `Accept`.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

pub struct Witness {
    asked: Asked,
    task: JoinHandle<()>,
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
        let asked = Asked::default();
        let task = tokio::spawn(serve(listener, client, Arc::clone(&asked)));
        Self { asked, task }
    }

    /// The forms in which objects of this resource were asked for.
    pub fn forms(&self, resource: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let is_of = |path: &str| path.split('?').next().unwrap().split('/').any(|part| part == resource);
        asked.iter().filter(|(path, _)| is_of(path)).map(|(_, accept)| accept.clone()).collect()
    }
}

async fn serve(listener: TcpListener, client: Client, asked: Asked) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (client, asked) = (client.clone(), Arc::clone(&asked));
        tokio::spawn(async move {
            let service = service_fn(move |request| pass(client.clone(), Arc::clone(&asked), request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn pass(client: Client, asked: Asked, request: Request<Incoming>) -> Result<Response<Body>, kube::Error> {
    let (mut head, body) = request.into_parts();
    let accept = head.headers.get(ACCEPT).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    asked.lock().unwrap().push((head.uri.path_and_query().unwrap().to_string(), accept));
    // The client has its own.
    head.headers.remove(HOST);
    head.headers.remove(AUTHORIZATION);
    let body = body.collect().await.map_err(|error| kube::Error::Service(error.into()))?.to_bytes();
    client.send(Request::from_parts(head, Body::from(body.to_vec()))).await
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
