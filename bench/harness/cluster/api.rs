//! Connections to the API server, with one request at a time on each.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request as HttpRequest, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The type of a JSON body.
pub const JSON: &str = "application/json";
/// The type of a patch with tests.
pub const JSON_PATCH: &str = "application/json-patch+json";
/// The type of the patches that kubelets send.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Longer than the API server takes for any answer, however busy it is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the API server is, and as whom to speak to it.
#[derive(Clone)]
pub struct Endpoint {
    address: SocketAddr,
    tls: TlsConnector,
    token: String,
    agent: &'static str,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which pod it is about.
    pub id: usize,
    /// The verb of HTTP.
    pub method: Method,
    /// The path, with its query.
    pub path: String,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request that makes an object.
    pub fn create(id: usize, path: impl Into<String>, body: &Value) -> Self {
        let body = body.to_string().into_bytes();
        Self {
            id,
            method: Method::POST,
            path: path.into(),
            content_type: JSON,
            body,
        }
    }

    /// A request that changes an object.
    pub fn patch(id: usize, path: String, content_type: &'static str, body: &Value) -> Self {
        let body = body.to_string().into_bytes();
        Self {
            id,
            method: Method::PATCH,
            path,
            content_type,
            body,
        }
    }

    /// A request that reads.
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            id: 0,
            method: Method::GET,
            path: path.into(),
            content_type: JSON,
            body: Vec::new(),
        }
    }
}

impl Endpoint {
    /// Trusts the certificates of this file and speaks with this token.
    ///
    /// # Errors
    /// Where the file has no certificate.
    pub fn new(port: u16, certificates: &Path, token: &str, agent: &'static str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(certificates)? {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            tls: TlsConnector::from(Arc::new(config)),
            token: token.to_owned(),
            agent,
        })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// Where nobody answers.
    pub async fn connect(&self) -> Result<Connection> {
        timeout(PATIENCE, self.begin())
            .await
            .context("nobody answers to a connection")?
    }

    async fn begin(&self) -> Result<Connection> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let tls = self.tls.connect(name, tcp).await?;
        let (sender, connection) = handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        Ok(Connection {
            endpoint: self.clone(),
            sender,
        })
    }

    /// Sends one request on a connection of its own, and reads the answer as JSON.
    ///
    /// # Errors
    /// Where the answer is no success, or no JSON.
    pub async fn once(&self, request: &Request) -> Result<Value> {
        let (status, body) = self.connect().await?.send(request).await?;
        if !status.is_success() {
            bail!(
                "{} {}: {status}: {}",
                request.method,
                request.path,
                String::from_utf8_lossy(&body)
            );
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

/// An open connection.
pub struct Connection {
    endpoint: Endpoint,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Sends a request, and reads the whole answer.
    ///
    /// # Errors
    /// Where the connection breaks.
    pub async fn send(&mut self, request: &Request) -> Result<(StatusCode, Bytes)> {
        let read = async {
            let answer = self.open(request).await?;
            let status = answer.status();
            Ok((status, answer.into_body().collect().await?.to_bytes()))
        };
        let late = || format!("{} {}: no answer", request.method, request.path);
        timeout(PATIENCE, read).await.with_context(late)?
    }

    /// Sends a request; the body of the answer is still to come.
    ///
    /// # Errors
    /// Where the connection breaks.
    pub async fn open(&mut self, request: &Request) -> Result<http::Response<Incoming>> {
        let message = HttpRequest::builder()
            .method(request.method.clone())
            .uri(&request.path)
            .header(HOST, self.endpoint.address.to_string())
            .header(USER_AGENT, self.endpoint.agent)
            .header(AUTHORIZATION, format!("Bearer {}", self.endpoint.token))
            .header(CONTENT_TYPE, request.content_type)
            .body(Full::new(Bytes::from(request.body.clone())))?;
        self.sender
            .ready()
            .await
            .context("the connection is closed")?;
        Ok(self.sender.send_request(message).await?)
    }
}
