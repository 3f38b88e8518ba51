//! A proxy in front of the registry of the cluster, which does what registries do on bad days, to
//! one case and to nobody else. It listens on loopback, where containerd speaks plain HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONNECTION, HOST, TRANSFER_ENCODING, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::world::variable;

/// How it answers.
#[derive(Clone, Copy)]
pub enum Manner {
    /// As the registry does.
    Serve,
    /// With this status, whatever it is asked for.
    Answer(StatusCode),
    /// As the registry does, to this user with this password; 401 to all others.
    Login(&'static str, &'static str),
    /// Never.
    Hang,
}

/// The proxy; dropped, it listens no more.
pub struct RegistryProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
    /// Keeps the port from others while nobody listens.
    reserved: Option<TcpSocket>,
}

struct Shared {
    manner: Mutex<Manner>,
    asked: AtomicUsize,
    client: reqwest::Client,
    registry: String,
}

impl RegistryProxy {
    pub async fn start(manner: Manner) -> Self {
        Self::before(&variable("SWAPLET_E2E_REGISTRY"), manner).await
    }

    /// In front of this registry.
    pub async fn before(registry: &str, manner: Manner) -> Self {
        let shared = Arc::new(Shared {
            manner: Mutex::new(manner),
            asked: AtomicUsize::new(0),
            client: reqwest::Client::new(),
            registry: registry.to_owned(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self {
            address,
            server: tokio::spawn(serve(listener, Arc::clone(&shared))),
            shared,
            reserved: None,
        }
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// From now on it answers like this.
    pub fn now(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    /// How many requests have come in.
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Nobody listens any more, and all connections are cut.
    pub async fn stop(&mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        self.reserved = Some(socket);
    }

    /// Listens again, at the same address.
    pub fn start_again(&mut self) {
        let reserved = self.reserved.take().expect("it was stopped");
        let listener = reserved.listen(1024).unwrap();
        self.server = tokio::spawn(serve(listener, Arc::clone(&self.shared)));
    }
}

impl Drop for RegistryProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // Connections end with the server.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => { connections.spawn(converse(stream, Arc::clone(&shared))); }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    // containerd tries TLS first, which is no HTTP.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let manner = *self.manner.lock().unwrap();
        match manner {
            Manner::Serve => self.pass_on(request).await,
            Manner::Answer(status) => empty(status),
            Manner::Login(user, password) if !is_from(request.headers(), user, password) => {
                let mut answer = empty(StatusCode::UNAUTHORIZED);
                answer
                    .headers_mut()
                    .insert(WWW_AUTHENTICATE, "Basic realm=\"e2e\"".parse().unwrap());
                answer
            }
            Manner::Login(..) => self.pass_on(request).await,
            Manner::Hang => std::future::pending().await,
        }
    }

    /// A node only reads, so there is no body to pass on.
    async fn pass_on(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let url = format!("http://{}{}", self.registry, request.uri());
        let mut headers = request.headers().clone();
        [HOST, CONNECTION, AUTHORIZATION]
            .iter()
            .for_each(|name| drop(headers.remove(name)));
        let answer = self
            .client
            .request(request.method().clone(), url)
            .headers(headers)
            .send()
            .await
            .unwrap();
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        [CONNECTION, TRANSFER_ENCODING]
            .iter()
            .for_each(|name| drop(headers.remove(name)));
        let mut passed = Response::new(Full::new(answer.bytes().await.unwrap()));
        *passed.status_mut() = status;
        *passed.headers_mut() = headers;
        passed
    }
}

fn is_from(headers: &HeaderMap, user: &str, password: &str) -> bool {
    let expected = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
    headers
        .get(AUTHORIZATION)
        .is_some_and(|given| *given == *expected)
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::new()));
    *answer.status_mut() = status;
    answer
}
