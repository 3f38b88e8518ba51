//! Connections that die without a word, and what a busy server says in headers: seen through the
//! client that `swaplet run` has, with its pool of connections, over lines in memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_compression::tokio::write::GzipEncoder;
use futures::TryStreamExt as _;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, USER_AGENT,
};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use kube::{Api, Config};
use prometheus_client::registry::Registry;
use serde_json::json;
use swaplet_controller::frame::connection::{connect, connect_over};
use swaplet_controller::frame::list::{list, words};
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::run;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_testbed::ApiServer;
use swaplet_testbed::apiserver::{Effect, Verb};
use tokio::io::{
    AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, copy_bidirectional, duplex,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, Service, ServiceBuilder};

use super::crowds::{create, main_ends};
use super::harness::{CONCURRENCY, SWAPLET, World, settings};
use super::node::Kubelet;
use super::objects::{EXIT, pod};

/// A network with the API server at its other end.
#[derive(Clone)]
struct Network(Arc<Wires>);

struct Wires {
    server: ApiServer,
    /// Connections that are older than this number carry nothing any more, and nobody tells.
    dead: watch::Sender<usize>,
    opened: AtomicUsize,
    compressed: AtomicUsize,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Network {
    fn to(server: ApiServer) -> Self {
        Self(Arc::new(Wires {
            server,
            dead: watch::Sender::new(0),
            opened: AtomicUsize::new(0),
            compressed: AtomicUsize::new(0),
            tasks: Mutex::default(),
        }))
    }

    /// Every connection that there is dies; the next ones live.
    fn dies(&self) {
        self.0.dead.send_replace(self.opened());
    }

    fn opened(&self) -> usize {
        self.0.opened.load(Ordering::Relaxed)
    }

    fn connect(&self) -> DuplexStream {
        let number = self.0.opened.fetch_add(1, Ordering::Relaxed);
        let (near, mut near_end) = duplex(1 << 16);
        let (mut far_end, far) = duplex(1 << 16);
        let mut dead = self.0.dead.subscribe();
        let carries = tokio::spawn(async move {
            tokio::select! {
                _ = copy_bidirectional(&mut near_end, &mut far_end) => return,
                _ = dead.wait_for(|dead| *dead > number) => {}
            }
            std::future::pending::<()>().await;
        });
        let (server, wires) = (self.0.server.clone(), Arc::clone(&self.0));
        let service = ServiceBuilder::new()
            .layer_fn(move |server| Compressing(server, Arc::clone(&wires)))
            .service(server);
        let service = TowerToHyperService::new(service);
        let serves = tokio::spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(far), service)
                .await;
        });
        self.0.tasks.lock().unwrap().extend([carries, serves]);
        near
    }
}

impl Service<Uri> for Network {
    type Response = TokioIo<Wire>;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(Ok(TokioIo::new(Wire(self.connect()))))
    }
}

/// Compresses what is asked for so, each piece by itself, as Kubernetes 1.37 does with lists that are
/// streams.
#[derive(Clone)]
struct Compressing(ApiServer, Arc<Wires>);

impl Service<Request<Incoming>> for Compressing {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let encoding = request.headers().get(ACCEPT_ENCODING);
        let is_asked = encoding.is_some_and(|encoding| encoding == "gzip");
        let (answer, wires) = (self.0.call(request), Arc::clone(&self.1));
        Box::pin(async move {
            let (mut head, body) = answer.await?.into_parts();
            let body = body.map_err(BoxError::from);
            if !is_asked {
                return Ok(Response::from_parts(head, body.boxed_unsync()));
            }
            wires.compressed.fetch_add(1, Ordering::Relaxed);
            head.headers.remove(CONTENT_LENGTH);
            head.headers
                .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            let pieces = body.into_data_stream().and_then(async |piece| {
                let mut member = GzipEncoder::new(Vec::new());
                member.write_all(&piece).await?;
                member.shutdown().await?;
                Ok(Frame::data(Bytes::from(member.into_inner())))
            });
            Ok(Response::from_parts(
                head,
                StreamBody::new(pieces).boxed_unsync(),
            ))
        })
    }
}

/// The near end of a connection.
struct Wire(DuplexStream);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// A controller at the near end, until it is dropped.
struct Life {
    health: Health,
    task: JoinHandle<()>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn config() -> Config {
    let mut config = Config::new(Uri::from_static("http://swaplet.example"));
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(SWAPLET)));
    config
}

fn start(network: &Network) -> Life {
    let client = connect_over(config(), network.clone(), None).unwrap();
    let (metrics, health) = (
        Metrics::register(&mut Registry::default()),
        Health::default(),
    );
    let controller = run(
        client,
        settings(SWAPLET, CONCURRENCY),
        metrics,
        health.clone(),
        std::future::pending(),
    );
    Life {
        health,
        task: tokio::spawn(async move { controller.await.unwrap() }),
    }
}

/// The worst case: the connections of writes that were just made are idle, and die with those of
/// the watches.
#[tokio::test(start_paused = true)]
async fn t13_dead_connections_hide_events_for_less_than_a_minute_also_where_idle_ones_died_with_them()
 {
    let world = World::new();
    let names: Vec<_> = (0..8).map(|number| format!("p{number}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "OnFailure")).await;
    }
    let network = Network::to(world.server.clone());
    let life = start(&network);
    world.start_kubelet(Kubelet::default());
    world.wait(3).await;
    for name in &names[1..] {
        world.ends(name, "main", 0).await;
    }
    world.wait(3).await;
    assert!(
        names[1..]
            .iter()
            .all(|name| world.phase(name) == "Succeeded")
    );
    assert!(
        network.opened() > 5,
        "{} connections: several are idle beside the watches",
        network.opened()
    );

    network.dies();
    world.ends("p0", "main", 0).await;
    let dead_since = Instant::now();
    while world.image("p0") != EXIT {
        assert!(
            dead_since.elapsed() < Duration::from_secs(60),
            "it is blind for more than a minute"
        );
        world.wait(1).await;
    }
    world.wait(5).await;
    assert_eq!(
        (world.phase("p0").as_str(), world.image_changes("p0")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p0"), ["SidecarEnded"]);
    assert_eq!(life.health.ready(), Ok("ok".to_owned()));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn lists_are_read_as_they_were_before_they_were_compressed() {
    let world = World::new();
    let names: Vec<_> = (0..40).map(|number| format!("p{number}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "OnFailure")).await;
    }
    let network = Network::to(world.server.clone());
    let life = start(&network);
    world.start_kubelet(Kubelet::default());
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(5).await;
    assert!(names.iter().all(|name| world.phase(name) == "Succeeded"));
    assert!(network.0.compressed.load(Ordering::Relaxed) >= 1);
    assert_eq!(life.health.ready(), Ok("ok".to_owned()));
    world.assert_quiet().await;
}

/// An API server that is overloaded says so in plain text, and when to come back only in a header.
#[tokio::test(start_paused = true)]
async fn t6_lists_and_watches_come_back_when_a_busy_server_wants_them_to() {
    for verb in [Verb::List, Verb::Watch] {
        let world = World::new();
        world.run_pod(&pod("p", "OnFailure")).await;
        let busy = world.fault(Effect::reply(429).retry_after(20), |rule| {
            rule.verb(verb).resource("pods")
        });
        let life = start(&Network::to(world.server.clone()));
        world.wait(110).await;
        let asked = world
            .requests()
            .iter()
            .filter(|sent| sent.verb == verb && sent.resource == "pods")
            .count();
        assert!(
            (5..=6).contains(&asked),
            "{verb:?}: asked {asked} times in 110 s"
        );
        assert!(
            life.health
                .ready()
                .unwrap_err()
                .contains("too many requests"),
            "{verb:?}"
        );

        world.end_fault(busy);
        world.start_kubelet(Kubelet::default());
        world.wait(25).await;
        assert_eq!(life.health.ready(), Ok("ok".to_owned()), "{verb:?}");
        world.ends("p", "main", 0).await;
        world.wait(5).await;
        assert_eq!(
            (world.phase("p").as_str(), world.image_changes("p")),
            ("Succeeded", 1),
            "{verb:?}"
        );
        world.assert_quiet().await;
    }
}

/// The API server passes on what a webhook answers, as it does everything else: in JSON, with the
/// time in the body and in a header.
#[tokio::test(start_paused = true)]
async fn u210_a_pause_that_a_webhook_asks_for_holds_up_its_own_namespace_alone() {
    let words = "admission webhook \"w.example\" denied the request: busy";
    let world = World::new();
    for namespace in ["a", "b"] {
        world.create_namespace(namespace).await;
        create(&world, namespace, &format!("of-{namespace}")).await;
    }
    world.fault(Effect::reply(429).retry_after(30).message(words), |rule| {
        rule.verb(Verb::Patch).resource("pods").namespace("a")
    });
    let _life = start(&Network::to(world.server.clone()));
    world.wait(1).await;
    main_ends(&world, "a", "of-a").await;
    world.wait(1).await;
    main_ends(&world, "b", "of-b").await;
    world.wait(5).await;
    let image = |namespace: &str| {
        let pod = world.find(namespace, &format!("of-{namespace}")).unwrap();
        pod["spec"]["containers"][1]["image"].clone()
    };
    assert_eq!((image("a"), image("b")), (json!("side:1"), json!(EXIT)));
    world.wait(30).await;
    let notes = world.notes("of-a");
    assert!(
        matches!(&*notes, [(reason, note)] if reason == "WriteDenied" && note.contains(words)),
        "{notes:?}"
    );
}

/// Whoever waits longer for a slow server, or without end, is answered.
#[tokio::test(start_paused = true)]
async fn u237_a_list_has_as_long_as_its_client_and_no_less() {
    let world = World::new();
    world.run_pod(&pod("p", "OnFailure")).await;
    world.fault(Effect::Delay(Duration::from_secs(40)), |rule| {
        rule.verb(Verb::List).resource("pods")
    });
    let listed = async |limit: Option<u64>| {
        let limit = limit.map(Duration::from_secs);
        let client = connect_over(config(), Network::to(world.server.clone()), limit).unwrap();
        let pods: Api<PodWire> = Api::all(client);
        let listed = list(&pods, "", Some).await;
        listed.map(|pods| pods.len()).map_err(|error| words(&error))
    };
    assert_eq!(
        (listed(Some(120)).await, listed(None).await),
        (Ok(1), Ok(1))
    );
    let late = listed(Some(35)).await.unwrap_err();
    assert!(
        late.contains("has not answered within 35 s (--request-timeout)"),
        "{late}"
    );
}

/// As the kubelet renews the token of a pod: the file changes, and after a while the old token is
/// not taken any more. In real time, for kube goes by the time of day.
#[tokio::test]
async fn t31_a_token_that_is_renewed_in_its_file_is_used_within_a_minute() {
    let accepted = Arc::new(Mutex::new("Bearer old"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_version_to(listener, Arc::clone(&accepted)));
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "old").unwrap();
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    config.auth_info.token_file = Some(token.to_str().unwrap().to_owned());
    let client = connect(config).unwrap();
    client.apiserver_version().await.unwrap();

    std::fs::write(&token, "new").unwrap();
    *accepted.lock().unwrap() = "Bearer new";
    let renewed = async {
        while client.apiserver_version().await.is_err() {
            sleep(Duration::from_millis(200)).await;
        }
    };
    // Whoever never reads it again does not do so on a busy machine either.
    timeout(Duration::from_secs(300), renewed)
        .await
        .expect("the new token is used");
}

/// Tells its version to whoever has this token.
async fn serve_version_to(listener: TcpListener, accepted: Arc<Mutex<&'static str>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let accepted = Arc::clone(&accepted);
        let service = service_fn(move |request: Request<Incoming>| {
            let is_known = request
                .headers()
                .get(AUTHORIZATION)
                .is_some_and(|token| token == *accepted.lock().unwrap());
            let version = json!({
                "major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "",
                "compiler": "", "platform": "",
            });
            let status = if is_known {
                StatusCode::OK
            } else {
                StatusCode::UNAUTHORIZED
            };
            async move {
                Ok::<_, Infallible>(
                    Response::builder()
                        .status(status)
                        .body(version.to_string())
                        .unwrap(),
                )
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
