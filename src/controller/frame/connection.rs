//! The client of the API server.
//!
//! It is built from the parts of kube's own client, for four things that this does not do: it
//! closes idle connections soon, it passes on how long a busy server asks to wait, it goes
//! through proxies as kubectl does, and it reads lists that are compressed, as streams too.

mod compressed;
pub mod discovery;
pub mod proxy;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::iter::successors;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ApiResource;
use kube::client::{AuthError, Body, ConfigExt};
use kube::config::ExecConfig;
use kube::core::DynamicResourceScope;
use kube::{Api, Client, Config, Resource};
use serde_json::json;
use swaplet_core::objects::values::bounds::cut;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::layer::layer_fn;
use tower::{BoxError, Service, ServiceBuilder};

/// The deadline of a connection: a cluster that does not answer it is not reachable.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest that an idle connection is kept. Where a network drops connections silently, each
/// idle one that is tried costs the time for an answer, and a watch that is reopened tries one
/// after the other. So none is kept that could have died while a watch was silent. hyper's own 90 s
/// let a dead network hide events for minutes.
const IDLE: Duration = Duration::from_secs(5);

/// The most bytes of what a failed credential plugin says.
const PLUGIN_SAYS: usize = 1000;

/// The start of the error that there was no connection.
pub const UNREACHABLE: &str = "cannot connect to the API server";

/// The start of rustls's error that it rejects a certificate.
const CERTIFICATE: &str = "invalid peer certificate: ";

/// The start of hyper's error that it could not connect.
const CONNECTING: &str = "client error (Connect): ";

/// The reason why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The kubeconfig or the environment names a proxy of another kind.
    #[error(
        "the proxy {0} before the API server is of a kind that is not supported: write http://HOST:PORT, https://HOST:PORT or \
         socks5://HOST:PORT as proxy-url in the kubeconfig, or in HTTPS_PROXY"
    )]
    Proxy(String),
    /// The file with the authorities that sign for the API server cannot be used.
    #[error("the file {} with the CA of the API server cannot be used: {error}", file.display())]
    Authorities {
        /// The path, as the configuration names it.
        file: PathBuf,
        /// The error of reading it.
        error: kube::Error,
    },
    /// The program that the kubeconfig names for credentials has none.
    #[error("the credential plugin {0}")]
    Plugin(String),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] kube::Error),
}

/// Returns a client over TCP that never retries by itself. A write is retried only after a new
/// decision, and kube's own layer for retries would send the old one up to 15 times.
///
/// # Errors
/// Returns a [`ConnectionError`] if the configuration cannot be used.
pub fn connect(config: Config) -> Result<Client, ConnectionError> {
    connect_within(config, None)
}

/// Like [`connect`], for a user who waits: each request fails that is not answered within `limit`.
/// A watch only has to begin within it.
///
/// # Errors
/// Like [`connect`].
pub fn connect_within(config: Config, limit: Option<Duration>) -> Result<Client, ConnectionError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    let Some(proxy) = config.proxy_url.clone() else {
        return connect_over(config, tcp, limit);
    };
    let of_other_kind = || ConnectionError::Proxy(proxy::without_credentials(&proxy));
    let way = proxy::way(&proxy).ok_or_else(of_other_kind)?;
    let at = way.uri().clone();
    match at.scheme_str() {
        Some("http") => connect_over(config, tunnel(&way, tcp), limit),
        // Who may sign for the API server may sign for it, as with kubectl. A plugin is left out:
        // it would run once more.
        Some("https") => {
            let mut of_proxy = config.clone();
            of_proxy.auth_info.exec = None;
            let tls = of_proxy.rustls_https_connector_with_connector(tcp);
            let tls = tls.map_err(|error| untrusted(&config, error))?;
            connect_over(config, tunnel(&way, tls), limit)
        }
        Some("socks5" | "socks5h") => {
            let socks = SocksV5::new(at, tcp);
            let socks = match way.raw_auth() {
                Some((user, word)) => socks.with_auth(user.to_owned(), word.to_owned()),
                None => socks,
            };
            connect_over(config, socks, limit)
        }
        _ => Err(of_other_kind()),
    }
}

fn tunnel<C>(way: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(way.uri().clone(), connector);
    match way.basic_auth() {
        Some(credentials) => tunnel.with_auth(credentials.clone()),
        None => tunnel,
    }
}

/// Returns why there is no TLS.
fn untrusted(config: &Config, error: kube::Error) -> ConnectionError {
    match &config.root_cert_file {
        Some(file) => ConnectionError::Authorities {
            file: file.clone(),
            error,
        },
        None => ConnectionError::Config(error),
    }
}

/// Like [`connect_within`], over connections of another kind.
///
/// # Errors
/// Like [`connect`].
pub fn connect_over<C>(
    config: Config,
    connector: C,
    limit: Option<Duration>,
) -> Result<Client, ConnectionError>
where
    C: Service<Uri, Future: Send, Error: Into<BoxError>> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
{
    let authorities = config.root_cert_file.clone();
    let server = server_of(&config);
    let asked = server.clone();
    // First: the layer of TLS would run a plugin once more, and hide its failure.
    let auth = config.auth_layer();
    let auth = auth.map_err(|error| unauthorized(error, config.auth_info.exec.as_ref()))?;
    // A plugin that has given a token gives no certificate, and a user who types one types it once.
    let mut of_tls = config.clone();
    of_tls.auth_info.exec = of_tls.auth_info.exec.filter(|_| auth.is_none());
    let connector = of_tls
        .rustls_https_connector_with_connector(connector)
        .map_err(|error| untrusted(&config, error))?;
    let compresses = !config.disable_compression;
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(layer_fn(move |inner| {
            Limited::new(inner, limit, asked.clone())
        }))
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .layer(config.extra_headers_layer()?)
        .map_response(with_time_in_body)
        .map_err(move |error| BoxError::from(in_full(&error, &server, authorities.as_deref())))
        .map_response(compressed::decoded)
        .map_request(move |mut request: Request<Body>| {
            if compresses && compressed::is_worth_it(request.uri()) {
                let gzip = HeaderValue::from_static("gzip");
                request.headers_mut().insert(ACCEPT_ENCODING, gzip);
            }
            request
        })
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// Returns the API server as errors name it, with the proxy before it, if there is one, without its
/// credentials.
fn server_of(config: &Config) -> String {
    let server = config
        .cluster_url
        .authority()
        .map(ToString::to_string)
        .unwrap_or_default();
    let proxy = config.proxy_url.as_ref().and_then(proxy::way);
    proxy.map_or_else(
        || server.clone(),
        |way| format!("{server} through the proxy {}", way.uri()),
    )
}

/// Returns why there are no credentials; of a plugin with its program, without its arguments, which
/// may be secret, and what its kubeconfig advises where it is not installed.
fn unauthorized(error: kube::Error, plugin: Option<&ExecConfig>) -> ConnectionError {
    let (kube::Error::Auth(cause), Some(plugin)) = (&error, plugin) else {
        return error.into();
    };
    let command = plugin.command.as_deref().unwrap_or_default();
    let hint = plugin.install_hint.as_deref().map(str::trim);
    let hint = hint.map_or_else(String::new, |hint| format!("; its hint: {hint}"));
    ConnectionError::Plugin(match cause {
        AuthError::AuthExecRun { out, .. } => {
            // Empty where it has the terminal, and has said there why.
            let said = String::from_utf8_lossy(&out.stderr);
            let said = match said.trim() {
                "" => String::new(),
                said => format!(": {}", cut(said, PLUGIN_SAYS)),
            };
            format!("`{command}` has failed ({}){said}", out.status)
        }
        AuthError::AuthExecStart(error) => format!(
            "`{command}` cannot be run ({error}): install it, or correct the kubeconfig{hint}"
        ),
        other => format!("`{command}` gives no credentials: {other}"),
    })
}

/// Returns an error with its causes and the server: hyper only names a failure to connect, and
/// hides why and to whom. A rejected certificate is reported with the remedy.
fn in_full(error: &dyn Error, server: &str, authorities: Option<&Path>) -> String {
    let mut words = error.to_string();
    for cause in successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !words.ends_with(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    if let Some(why) = words.strip_prefix(CONNECTING) {
        words = format!("{UNREACHABLE} {server}: {why}");
    }
    if let Some((_, why)) = words.split_once(CERTIFICATE) {
        words = format!("{words}: {}", mended(why, authorities));
    }
    words
}

/// Returns why the certificate of the API server is rejected, and the remedy.
fn mended(why: &str, authorities: Option<&Path>) -> String {
    let is_of = |names: &[&str]| names.iter().any(|name| why.contains(name));
    if is_of(&["NotValidForName"]) {
        "the certificate of the API server is for other names: use one of them as the server, or set tls-server-name in the kubeconfig".into()
    } else if is_of(&["Expired", "NotValidYet"]) {
        "the certificate of the API server is not valid today: renew it, or correct the clock of this machine".into()
    } else if let Some(file) = authorities {
        format!(
            "the certificate of the API server is not signed by a CA of {}: put its CA there",
            file.display()
        )
    } else {
        "the certificate of the API server is not signed by a CA that is known here: name its CA in the kubeconfig, as \
         certificate-authority-data or as the file certificate-authority".into()
    }
}

/// Copies the `Retry-After` of a 429 into its body. kube reads only the body of a refusal, and an
/// overloaded API server reports only in a header when to come back (Kubernetes: `tooManyRequests`
/// in `filters/maxinflight.go`), in plain text. A `Status` has the time already, and says who asks
/// for it: a webhook may.
fn with_time_in_body<B>(response: Response<B>) -> Response<Either<B, Full<Bytes>>> {
    let seconds = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    let media_type = response
        .headers()
        .get(CONTENT_TYPE)
        .map(HeaderValue::as_bytes);
    let is_json = media_type.is_some_and(|name| name.starts_with(b"application/json"));
    let (StatusCode::TOO_MANY_REQUESTS, Some(seconds), false) =
        (response.status(), seconds, is_json)
    else {
        return response.map(Either::Left);
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "the server has too many requests; try again later", "details": {"retryAfterSeconds": seconds},
    });
    let mut response = response.map(|_| Either::Right(Full::from(status.to_string())));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    response
}

// The namespaces that the controller works in: all of them, or some.

/// The namespaces that the controller works in; all of them where none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(BTreeSet<String>);

impl Namespaces {
    /// Returns one API of a kind for each namespace, or one for all.
    pub fn apis<K>(&self, client: &Client) -> Vec<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        let one = |namespace: &str| Api::namespaced(client.clone(), namespace);
        self.each(|| Api::all(client.clone()), one)
    }

    /// Like [`apis`](Self::apis), for a kind that is known only at run time.
    pub fn dynamic_apis<K>(&self, client: &Client, resource: &ApiResource) -> Vec<Api<K>>
    where
        K: Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
    {
        let one = |namespace: &str| Api::namespaced_with(client.clone(), namespace, resource);
        self.each(|| Api::all_with(client.clone(), resource), one)
    }

    /// Returns one of something for each namespace, or one for all.
    fn each<T>(&self, all: impl Fn() -> T, one: impl Fn(&str) -> T) -> Vec<T> {
        if self.0.is_empty() {
            return vec![all()];
        }
        self.0.iter().map(|namespace| one(namespace)).collect()
    }

    /// Returns true if `namespace` is one of them.
    pub fn contain(&self, namespace: &str) -> bool {
        self.0.is_empty() || self.0.contains(namespace)
    }

    /// Returns their names; a single empty name means all namespaces.
    pub fn places(&self) -> Vec<Box<str>> {
        self.each(Box::default, |name| name.into())
    }

    /// Returns these namespaces and another one; all namespaces stay all.
    pub fn and(&self, namespace: &str) -> Self {
        if self.0.is_empty() {
            Self::default()
        } else {
            self.0
                .iter()
                .cloned()
                .chain([namespace.to_owned()])
                .collect()
        }
    }
}

impl<N: Into<String>> FromIterator<N> for Namespaces {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Namespaces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return out.write_str("all namespaces");
        }
        out.write_str(
            &self
                .0
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", "),
        )
    }
}

// A time limit of requests, for programs whose user waits for the answer.

/// A service that limits the time of its requests: of the head of each answer and, except for a
/// watch, of its body.
#[derive(Clone, Debug)]
struct Limited<S> {
    inner: S,
    limit: Option<Duration>,
    /// The server that has not answered, for the error.
    server: String,
}

impl<S> Limited<S> {
    /// Returns the service; without a `limit` it waits as long as it takes.
    const fn new(inner: S, limit: Option<Duration>, server: String) -> Self {
        Self {
            inner,
            limit,
            server,
        }
    }
}

impl<S, R, B> Service<Request<R>> for Limited<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<LimitedBody<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let is_watch = is_watch(request.uri().query().unwrap_or_default());
        let answer = self.inner.call(request);
        let Some(limit) = self.limit else {
            return Box::pin(async move {
                let response = answer.await.map_err(Into::into)?;
                Ok(response.map(|body| LimitedBody { body, late: None }))
            });
        };
        let words = format!(
            "the API server {} has not answered within {} s (--request-timeout)",
            self.server,
            limit.as_secs_f64()
        );
        Box::pin(async move {
            let deadline = Instant::now() + limit;
            let response = timeout_at(deadline, answer)
                .await
                .map_err(|_| BoxError::from(words.as_str()))?
                .map_err(Into::into)?;
            let late = (!is_watch).then(|| (Box::pin(sleep_until(deadline)), words));
            Ok(response.map(|body| LimitedBody { body, late }))
        })
    }
}

/// Returns true for a watch, whose answer has no end.
fn is_watch(query: &str) -> bool {
    asks(query, &["watch=true", "watch=1"])
}

/// Returns true if a query has one of these pairs.
fn asks(query: &str, pairs: &[&str]) -> bool {
    query.split('&').any(|pair| pairs.contains(&pair))
}

/// The body of an answer, which fails when the time of its request is over.
struct LimitedBody<B> {
    body: B,
    /// The rest of the time of a request, and the error after it.
    late: Option<(Pin<Box<Sleep>>, String)>,
}

impl<B> hyper::body::Body for LimitedBody<B>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some((sleep, words)) = &mut self.late else {
            return Poll::Pending;
        };
        ready!(sleep.as_mut().poll(context));
        Poll::Ready(Some(Err(BoxError::from(words.as_str()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a13_a_certificate_that_is_not_taken_is_told_with_what_to_do() {
        let file = Path::new("/ca.crt");
        for (why, authorities, wanted) in [
            ("UnknownIssuer", None, "certificate-authority-data"),
            ("UnknownIssuer", Some(file), "a CA of /ca.crt"),
            (
                "Other(OtherError(CaUsedAsEndEntity))",
                None,
                "certificate-authority-data",
            ),
            ("certificate NotValidForName: a", None, "tls-server-name"),
            ("Expired", Some(file), "the clock of this machine"),
        ] {
            let error = std::io::Error::other(format!("{CONNECTING}{CERTIFICATE}{why}"));
            let words = in_full(&error, "a:1", authorities);
            assert!(
                words.starts_with(&format!("{UNREACHABLE} a:1: ")),
                "{words}"
            );
            assert!(words.contains(wanted), "{words}");
        }
    }
}
