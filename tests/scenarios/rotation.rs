//! The API server gets a certificate of another authority, and takes another token, while a
//! controller runs: over real TLS and in real time, for kube goes by the time of day.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::{Client, Config};
use prometheus_client::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use swaplet_controller::frame::connection::{ConnectionError, connect};
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::run;
use swaplet_testbed::apiserver::Verb;
use swaplet_testbed::{ApiServer, Clock};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use super::harness::{CONCURRENCY, SWAPLET, settings};

/// Kube reads tokens anew once a minute; whoever never does so is not ready after any time.
const PATIENCE: Duration = Duration::from_secs(300);

/// An authority, and what a server has that it has signed for.
struct Authority {
    pem: String,
    der: Vec<u8>,
    server: Arc<ServerConfig>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        let server_key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let server = server
            .signed_by(&server_key, &Issuer::new(params, key))
            .unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let key = PrivatePkcs8KeyDer::from(server_key.serialize_der()).into();
        let server = Arc::new(
            config
                .with_no_client_auth()
                .with_single_cert(vec![server.der().clone()], key)
                .unwrap(),
        );
        Self {
            pem: own.pem(),
            der: own.der().to_vec(),
            server,
        }
    }
}

/// An API server behind TLS.
struct Server {
    state: Arc<Mutex<State>>,
    api: ApiServer,
    port: u16,
}

struct State {
    tls: Arc<ServerConfig>,
    token: &'static str,
    connections: JoinSet<()>,
}

impl Server {
    async fn start(authority: &Authority, token: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State {
            tls: authority.server.clone(),
            token,
            connections: JoinSet::new(),
        }));
        let api = ApiServer::new(Clock::default());
        tokio::spawn(accept(listener, state.clone(), api.clone()));
        Self { state, api, port }
    }

    /// It is started anew, with a certificate of this authority, and takes no other token than
    /// this.
    fn rotate(&self, authority: &Authority, token: &'static str) {
        let mut state = self.state.lock().unwrap();
        state.connections.abort_all();
        (state.tls, state.token) = (authority.server.clone(), token);
    }

    /// As `Config::incluster` makes it.
    fn config(&self, account: &TempDir, root: &Authority) -> Config {
        let file = |name: &str| account.path().join(name);
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse().unwrap());
        config.root_cert = Some(vec![root.der.clone()]);
        config.root_cert_file = Some(file("ca.crt"));
        config.auth_info.token_file = Some(file("token").to_str().unwrap().to_owned());
        config
            .headers
            .push((USER_AGENT, HeaderValue::from_static(SWAPLET)));
        config
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>, api: ApiServer) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (api, taken) = (api.clone(), state.clone());
        let tls = TlsAcceptor::from(state.lock().unwrap().tls.clone());
        let conversation = async move {
            let Ok(stream) = tls.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let expected = format!("Bearer {}", taken.lock().unwrap().token);
                let is_known = request
                    .headers()
                    .get(AUTHORIZATION)
                    .is_some_and(|token| *token == *expected);
                let mut api = api.clone();
                async move {
                    if is_known {
                        return Ok::<_, Infallible>(
                            api.call(request).await.unwrap().map(Either::Left),
                        );
                    }
                    let nothing = Either::Right(Full::<Bytes>::default());
                    Ok(Response::builder()
                        .status(StatusCode::UNAUTHORIZED)
                        .body(nothing)
                        .unwrap())
                }
            });
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        };
        state.lock().unwrap().connections.spawn(conversation);
    }
}

/// The folder of a ServiceAccount.
fn account(authority: &Authority, token: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    renew(folder.path(), authority, token);
    folder
}

fn renew(folder: &Path, authority: &Authority, token: &str) {
    std::fs::write(folder.join("ca.crt"), &authority.pem).unwrap();
    std::fs::write(folder.join("token"), token).unwrap();
}

async fn says_version(client: &Client) -> Result<(), String> {
    client
        .apiserver_version()
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_controller_goes_on_within_a_minute_after_authority_and_token_were_rotated() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = Server::start(&old, "old").await;
    let account = account(&old, "old");
    let client = connect(server.config(&account, &old)).unwrap();
    says_version(&client).await.unwrap();
    let health = Health::default();
    let metrics = Metrics::register(&mut Registry::default());
    let controller = run(
        client.clone(),
        settings(SWAPLET, CONCURRENCY),
        metrics,
        health.clone(),
        std::future::pending(),
    );
    let controller = tokio::spawn(async move { controller.await.unwrap() });
    let is_ready = async |ready: bool| {
        while health.ready().is_ok() != ready {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, is_ready(true))
        .await
        .expect("it sees pods");

    server.rotate(&new, "new");
    timeout(PATIENCE, is_ready(false))
        .await
        .expect("it sees no pods any more");
    let error = says_version(&client).await.unwrap_err();
    let file = account.path().join("ca.crt");
    assert!(
        error.contains("invalid peer certificate") && error.contains(file.to_str().unwrap()),
        "{error}"
    );

    renew(account.path(), &new, "new");
    server.api.forget_recorded();
    timeout(PATIENCE, is_ready(true)).await.expect("it goes on");
    let has_watched = server
        .api
        .recorded()
        .iter()
        .any(|request| request.verb == Verb::Watch && request.resource == "pods");
    assert!(has_watched && !controller.is_finished());
    says_version(&client).await.unwrap();
    controller.abort();
}

#[tokio::test]
async fn a_file_of_authorities_that_cannot_be_used_is_named() {
    let authority = Authority::new("ca");
    let server = Server::start(&authority, "token").await;
    let account = account(&authority, "token");
    let file = account.path().join("ca.crt");
    for content in [None, Some("no certificate")] {
        std::fs::remove_file(&file).unwrap_or_default();
        content
            .iter()
            .for_each(|content| std::fs::write(&file, content).unwrap());
        let error = connect(server.config(&account, &authority))
            .map(drop)
            .unwrap_err();
        assert!(
            matches!(error, ConnectionError::Authorities { .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains(file.to_str().unwrap()),
            "{error}"
        );
    }
}
