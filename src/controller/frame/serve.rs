//! Health and metrics over HTTP: `/healthz`, `/readyz`, `/metrics`.

mod heartbeats;
pub mod rights;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::heartbeats::Heartbeat;
use self::heartbeats::Heartbeats;
use self::rights::Right;
use super::watch::age::WatchAges;
use crate::frame::watch::Event;
use crate::frame::writer::is_missing_right;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use swaplet_core::report::write_error::WriteError;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep, timeout};

/// The pause between two looks at the heartbeats of the loops.
const LOOK: Duration = Duration::from_secs(5);
/// How long a denial counts after it was last met: one that lasts is met again within 15 minutes.
const DENIED: Duration = Duration::from_secs(3600);
/// The most namespaces of which it is told that a right is missing there, or that they are hidden.
const MOST_PLACES: usize = 32;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The health of this process: what cannot be watched or done, and why.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pods: Sight,
    /// Jobs that cannot be watched do not keep other pods from ending.
    jobs: Sight,
    nodes: Option<String>,
    /// The errors of namespaces that cannot be watched, by what is watched there.
    hidden: BTreeMap<&'static str, Vec<String>>,
    /// The leader, if it is another process.
    leader: Option<String>,
    lease_trouble: Option<String>,
    watches: WatchAges,
    heartbeats: Heartbeats,
    /// The rights that are missing, each with its namespace (empty: all), the error of the API
    /// server, and when it was met last.
    lacks: BTreeMap<(Right, Box<str>), (String, Instant)>,
}

impl State {
    /// Drops the denials that nothing has met for long: their namespace may be gone. One of several
    /// namespaces that is hidden is reported once.
    fn forget_denials(&mut self) {
        self.lacks.retain(|(right, _), (_, met)| {
            *right == Right::WatchPoliciesOfNamespace || met.elapsed() <= DENIED
        });
    }

    /// Returns a remark on the watch that was heard of longest ago, if that is too long.
    fn stale(&self) -> Option<String> {
        let (resource, age) = self
            .watches
            .all()
            .into_iter()
            .max_by_key(|(_, age)| *age)
            .filter(|(_, age)| *age > STALE)?;
        Some(format!(
            "no response on the watch of {resource} for {} s, so their state may be out of date",
            age.as_secs()
        ))
    }

    /// Returns `ok`, and the exceptions to it.
    fn remarks(&self) -> String {
        let hidden = self
            .hidden
            .values()
            .flatten()
            .map(|error| format!("nothing is done in a namespace: {error}"));
        let nodes = self.nodes.iter().map(|error| {
            format!("every node counts as Unknown, because nodes cannot be read: {error}")
        });
        let lacks = self
            .lacks
            .iter()
            .map(|((right, _), (error, _))| format!("{}: {error}", right.without()));
        let remarks: Vec<_> = hidden.chain(nodes).chain(lacks).collect();
        if remarks.is_empty() {
            "ok".to_owned()
        } else {
            format!("ok, but {}", remarks.join("; "))
        }
    }
}

impl Health {
    /// Sets the ages of the watches of this process.
    pub fn watches(&self, ages: &WatchAges) {
        self.state().watches = ages.clone();
    }

    /// Begins the heartbeat of a loop, which counts until it is dropped.
    pub fn heartbeat(&self, of: &'static str) -> Heartbeat {
        self.state().heartbeats.begin(of)
    }

    /// Returns the loops that run.
    #[cfg(test)]
    pub(crate) fn loops(&self) -> Vec<&'static str> {
        self.state().heartbeats.all()
    }

    /// Checks that no loop is stuck.
    ///
    /// # Errors
    /// Returns a message with the stuck loop and for how long. Only a new process can help then,
    /// and another one may lead once this one is gone.
    pub fn alive(&self) -> Result<(), String> {
        self.state().heartbeats.late().map_or(Ok(()), Err)
    }

    /// Completes once a loop is stuck, with the message of [`alive`](Self::alive).
    pub async fn stuck(&self) -> String {
        loop {
            match self.alive() {
                Ok(()) => sleep(LOOK).await,
                Err(stuck) => return stuck,
            }
        }
    }

    /// Records an event of the watch of pods.
    pub fn note_pods<T>(&self, event: &Event<T>) {
        self.state().pods.note(event);
    }

    /// Records that nodes can be read.
    pub fn nodes_seen(&self) {
        self.state().nodes = None;
    }

    /// Records that nodes must not be read. The controller works without them, so this is a remark
    /// and does not make it unready.
    pub fn nodes_hidden(&self, error: &str) {
        self.state().nodes = Some(error.to_owned());
    }

    /// Records an event of the watch of these objects: which are hidden, until a list is complete.
    /// The work in other namespaces continues, so this is a remark and does not make it unready.
    pub fn note_hidden<T>(&self, what: &'static str, event: &Event<T>) {
        match event {
            Event::ListEnd => drop(self.state().hidden.remove(what)),
            Event::Hidden(error) => {
                let mut state = self.state();
                let errors = state.hidden.entry(what).or_default();
                // A list that is rejected is tried again and again.
                if errors.len() < MOST_PLACES && !errors.contains(error) {
                    errors.push(error.clone());
                }
            }
            _ => {}
        }
    }

    /// Records an event of the watch of Jobs; returns true for a trouble that is new.
    pub fn note_jobs<T>(&self, event: &Event<T>) -> bool {
        self.state().jobs.note(event)
    }

    /// Records that the Lease can be read and written, and the leader if it is another process.
    pub fn lease(&self, leader: Option<String>) {
        let mut state = self.state();
        state.leader = leader;
        state.lease_trouble = None;
    }

    /// Records that the Lease could not be read or written.
    pub fn lease_trouble(&self, error: &str) {
        self.state().lease_trouble = Some(error.to_owned());
    }

    /// Records that the right is missing, or that something else that lasts has its effect; returns
    /// true if this is new. All else continues, so this is a remark and does not make it unready.
    pub fn lacks(&self, right: Right, error: &str) -> bool {
        self.lacks_in(right, "", error)
    }

    /// Like [`lacks`](Self::lacks), in one namespace; of more than can be told some are left out.
    pub fn lacks_in(&self, right: Right, namespace: &str, error: &str) -> bool {
        let mut state = self.state();
        state.forget_denials();
        let place: (Right, Box<str>) = (right, namespace.into());
        let is_new = !state.lacks.contains_key(&place);
        let places = state.lacks.keys().filter(|(other, _)| *other == right);
        if is_new && places.count() >= MOST_PLACES {
            return false;
        }
        let denial = (error.to_owned(), Instant::now());
        state.lacks.insert(place, denial);
        is_new
    }

    /// Records that a request for which the right is needed was allowed.
    pub fn has(&self, right: Right) {
        self.has_in(right, "");
    }

    /// Like [`has`](Self::has), in this namespace.
    pub fn has_in(&self, right: Right, namespace: &str) {
        self.state().lacks.remove(&(right, namespace.into()));
    }

    /// Returns `ok` with remarks, if everything is watched that should be.
    ///
    /// # Errors
    /// Returns the loop that is stuck, or what keeps the controller from watching pods, Jobs or
    /// anything else, or from using the Lease, as a message.
    pub fn ready(&self) -> Result<String, String> {
        let mut state = self.state();
        state.forget_denials();
        if let Some(stuck) = state.heartbeats.late() {
            return Err(stuck);
        }
        if let Some(error) = &state.lease_trouble {
            return Err(format!("cannot read or write the Lease: {error}"));
        }
        if let Some(leader) = &state.leader {
            return Ok(format!("ok, standing by: {leader} leads"));
        }
        match (state.pods.why_not(), state.jobs.why_not()) {
            (Some(error), _) => Err(format!("cannot watch pods: {error}")),
            (None, _) if !state.pods.listed => {
                Err("the first list of pods is not complete".to_owned())
            }
            (None, Some(error)) => Err(format!(
                "cannot watch Jobs, so pods of Jobs under OnFailure may have to wait: {error}"
            )),
            (None, None) => state.stale().map_or_else(|| Ok(state.remarks()), Err),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(path: &str, registry: &Registry, health: &Health) -> Response<String> {
    match path {
        "/healthz" | "/livez" => probed(health.alive().map(|()| "ok".to_owned())),
        "/readyz" => probed(health.ready()),
        "/metrics" => {
            let mut text = String::new();
            match prometheus_client::encoding::text::encode(&mut text, registry) {
                Ok(()) => response(StatusCode::OK, OPEN_METRICS, text),
                Err(_) => response(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, String::new()),
            }
        }
        _ => response(
            StatusCode::NOT_FOUND,
            PLAIN,
            "try /healthz, /readyz or /metrics\n".to_owned(),
        ),
    }
}

fn probed(how: Result<String, String>) -> Response<String> {
    match how {
        Ok(how) => response(StatusCode::OK, PLAIN, format!("{how}\n")),
        Err(why) => response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n")),
    }
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static(content_type),
    );
    response
}

// Reports of rights that are missing, from tasks beside the loop of pods: once in the log, and by
// `/readyz` for as long as they are missing.

impl Health {
    /// Records an event of a watch that needs the right, in one namespace (empty: in all). A
    /// trouble is logged; one that lasts, once.
    pub fn note_watch<T>(&self, right: Right, namespace: &str, event: &Event<T>) {
        self.note_hidden(right.without(), event);
        match event {
            Event::Current(_) => self.has_in(right, namespace),
            Event::Hidden(error) => tracing::warn!(error, "{} in a namespace", right.without()),
            Event::Trouble(error) => self.note_trouble(right, namespace, error),
            Event::Forbidden(words) => self.says_once(right, namespace, words),
            _ => {}
        }
    }

    /// Records the outcome of a write that needs the right.
    pub fn note_write<T>(&self, right: Right, namespace: &str, outcome: &Result<T, WriteError>) {
        match outcome {
            Ok(_) => self.has_in(right, namespace),
            Err(WriteError::Denied(words)) => self.note_denial(right, namespace, words),
            Err(WriteError::Conflict | WriteError::Gone | WriteError::Failed { .. }) => {}
        }
    }

    /// Records a failure of a request that needs the right; it is retried automatically.
    pub fn note_trouble(&self, right: Right, namespace: &str, error: &str) {
        if is_missing_right(error) {
            self.says_once(right, namespace, error);
        } else {
            tracing::warn!(error, namespace, "{}; trying again", right.without());
        }
    }

    /// Records that a request that needs the right was denied. Only a missing right is recorded:
    /// any other reason is reported on the object.
    pub fn note_denial(&self, right: Right, namespace: &str, words: &str) {
        if is_missing_right(words) {
            self.says_once(right, namespace, words);
        }
    }

    fn says_once(&self, right: Right, namespace: &str, words: &str) {
        if self.lacks_in(right, namespace, words) {
            tracing::warn!(error = words, "{}", right.without());
        }
    }
}

// The state of the watch of one kind of objects.

/// The age from which what was observed counts as stale. A watch lives 45 s, a dead one is given up
/// after 55 s ([`crate::frame::watch`]), and another one is opened at once. What is older is not
/// the present cluster: the server does not answer, or a loop does not take its events.
pub(crate) const STALE: Duration = Duration::from_secs(60);

/// The watch of one kind of objects: whether it was listed, is current or in trouble.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// True if any list was complete.
    listed: bool,
    /// The time at which the watch was opened last; of several watches, the earliest.
    current: Option<Instant>,
    /// The last error, until a watch is opened.
    trouble: Option<String>,
}

impl Sight {
    /// Records an event; returns true for a trouble that is new. A list alone does not end a trouble,
    /// because it may be the watch that is forbidden.
    fn note<T>(&mut self, event: &Event<T>) -> bool {
        match event {
            Event::ListEnd => self.listed = true,
            Event::Current(since) => (self.current, self.trouble) = (Some(*since), None),
            Event::Trouble(error) | Event::Forbidden(error) => {
                let before = self.trouble.replace(error.clone());
                return before.is_none_or(|before| before != *error);
            }
            _ => {}
        }
        false
    }

    /// Returns why the objects are not observed as they are now; `None` if they are.
    pub(crate) fn why_not(&self) -> Option<String> {
        let stale = || {
            let age = self.current?.elapsed();
            (age > STALE).then(|| {
                format!(
                    "no watch was opened for {} s, so their state may be out of date",
                    age.as_secs()
                )
            })
        };
        self.trouble.clone().or_else(stale)
    }
}

#[cfg(test)]
mod sight_tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_not_renewed_is_stale_after_a_minute() {
        let mut sight = Sight::default();
        advance(STALE * 2).await;
        assert_eq!(
            sight.why_not(),
            None,
            "nothing was seen yet, so nothing is old"
        );
        sight.note(&Event::<()>::Current(Instant::now()));
        advance(STALE).await;
        assert_eq!(sight.why_not(), None);
        advance(Duration::from_secs(1)).await;
        assert_eq!(
            sight.why_not().unwrap(),
            "no watch was opened for 61 s, so their state may be out of date"
        );
        sight.note(&Event::<()>::Current(Instant::now()));
        assert_eq!(sight.why_not(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trouble_ends_when_a_watch_is_opened() {
        let mut sight = Sight::default();
        let trouble = Event::<()>::Forbidden("pods is forbidden".to_owned());
        assert!(sight.note(&trouble));
        assert!(!sight.note(&trouble));
        sight.note(&Event::<()>::ListEnd);
        assert_eq!(sight.why_not().unwrap(), "pods is forbidden");
        sight.note(&Event::<()>::Current(Instant::now()));
        assert_eq!(sight.why_not(), None);
    }
}

// The connections that are served, and for how long: the port has no authentication, so a client
// that only connects must not cost anything.

/// The most connections at once; kubelets and Prometheus need two or three. One more ends the one
/// that was accepted first: whoever keeps connections open, from however many addresses, keeps
/// nobody else waiting, for an answer takes less time than that many further connections.
const CONNECTIONS: usize = 64;
/// The deadline for the headers of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// The pause after an error, which lasts if it is a lack of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// Serves all connections, forever.
pub async fn serve(listener: TcpListener, registry: Arc<Registry>, health: Health) {
    serve_those(accepted_by(listener), HEADERS_WITHIN, registry, health).await;
}

type Accepted = std::io::Result<(TcpStream, SocketAddr)>;
type Accepting = Pin<Box<dyn Future<Output = Accepted> + Send>>;

fn accepted_by(listener: TcpListener) -> impl FnMut() -> Accepting {
    let listener = Arc::new(listener);
    move || {
        let listener = listener.clone();
        Box::pin(async move { listener.accept().await })
    }
}

/// Serves one request per connection, so that no idle client keeps one.
async fn serve_those<F>(
    mut accept: impl FnMut() -> F,
    headers_within: Duration,
    registry: Arc<Registry>,
    health: Health,
) where
    F: Future<Output = Accepted>,
{
    let mut open = VecDeque::<AbortHandle>::new();
    loop {
        let stream = match accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        if open.len() >= CONNECTIONS
            && let Some(first) = open.pop_front()
        {
            first.abort();
        }
        let (registry, health) = (registry.clone(), health.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let response = answer(request.uri().path(), &registry, &health);
            async move { Ok::<_, Infallible>(response) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(headers_within)
            .keep_alive(false);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        // A connection that reads its answer slowly is closed as well.
        let served = tokio::spawn(timeout(headers_within * 2, connection));
        open.push_back(served.abort_handle());
        // Those that are accepted are served before more of a backlog are.
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use swaplet_core::cluster::node_class::NodeClass;
    use swaplet_core::report::decision::Method;
    use swaplet_core::report::reason::Reason;

    use super::*;
    use crate::frame::metrics::{Metrics, Timed};

    #[test]
    fn readiness_says_why_not() {
        let (registry, health) = (Registry::default(), Health::default());
        let ready = |health: &Health| answer("/readyz", &registry, health);
        assert_eq!(ready(&health).status(), StatusCode::SERVICE_UNAVAILABLE);
        health.note_pods(&Event::<()>::ListEnd);
        assert_eq!(ready(&health).status(), StatusCode::OK);
        health.note_pods(&Event::<()>::Trouble("list: forbidden".to_owned()));
        let response = ready(&health);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.body(), "cannot watch pods: list: forbidden\n");
        health.note_pods(&Event::<()>::Current(Instant::now()));
        health.nodes_hidden("nodes is forbidden");
        let response = ready(&health);
        assert_eq!(response.status(), StatusCode::OK);
        assert!(
            response.body().contains("every node counts as Unknown")
                && response.body().contains("forbidden"),
            "{}",
            response.body()
        );
        health.nodes_seen();
        assert_eq!(ready(&health).body(), "ok\n");
        let list = |what| health.note_hidden(what, &Event::<()>::ListEnd);
        let hidden = Event::<()>::Hidden("pods is forbidden in the namespace a".to_owned());
        (0..2).for_each(|_| health.note_hidden("pods", &hidden));
        assert_eq!(
            ready(&health).body(),
            "ok, but nothing is done in a namespace: pods is forbidden in the namespace a\n"
        );
        list("jobs");
        assert!(ready(&health).body().contains("namespace a"));
        list("pods");
        assert_eq!(ready(&health).body(), "ok\n");
        let trouble = Event::<()>::Trouble("list: forbidden".to_owned());
        assert!(health.note_jobs(&trouble));
        assert!(!health.note_jobs(&trouble));
        let response = ready(&health);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            response.body(),
            "cannot watch Jobs, so pods of Jobs under OnFailure may have to wait: list: forbidden\n"
        );
        health.note_jobs(&Event::<()>::Current(Instant::now()));
        assert_eq!(ready(&health).status(), StatusCode::OK);
        assert!(health.lacks(Right::SendEvents, "forbidden"));
        assert!(!health.lacks(Right::SendEvents, "forbidden"));
        assert_eq!(
            (ready(&health).status(), ready(&health).into_body()),
            (
                StatusCode::OK,
                "ok, but Events cannot be sent: forbidden\n".to_owned()
            )
        );
        health.has(Right::SendEvents);
        assert_eq!(ready(&health).body(), "ok\n");
        assert_eq!(
            answer("/healthz", &registry, &health).status(),
            StatusCode::OK
        );
        assert_eq!(
            answer("/other", &registry, &health).status(),
            StatusCode::NOT_FOUND
        );
    }

    /// What `/readyz` says but for `ok, but `, by its parts.
    fn remarks(health: &Health) -> Vec<String> {
        let ready = health.ready().unwrap();
        let remarks = ready.strip_prefix("ok, but ").unwrap_or_default();
        remarks.split("; ").map(str::to_owned).collect()
    }

    /// Nobody tries it again where the namespace is gone, say.
    #[tokio::test(start_paused = true)]
    async fn u134_a_denial_that_does_not_recur_is_told_for_an_hour() {
        let (right, minute) = (Right::CreateRequests, Duration::from_secs(60));
        let told = |namespace: &str| format!("{}: denied in {namespace}", right.without());
        let health = Health::default();
        health.note_pods(&Event::<()>::ListEnd);
        for namespace in ["a", "b"] {
            assert!(health.lacks_in(right, namespace, &format!("denied in {namespace}")));
        }
        for _ in 0..3 {
            tokio::time::advance(15 * minute).await;
            assert!(!health.lacks_in(right, "b", "denied in b"), "it is known");
        }
        assert_eq!(remarks(&health), [told("a"), told("b")]);
        tokio::time::advance(16 * minute).await;
        assert_eq!(remarks(&health), [told("b")]);
        assert!(health.lacks_in(right, "a", "denied in a"), "it is news");
        assert_eq!(remarks(&health), [told("a"), told("b")]);
        health.has_in(right, "a");
        tokio::time::advance(61 * minute).await;
        assert_eq!(health.ready(), Ok("ok".to_owned()));
    }

    /// One namespace of several that is hidden is reported once for as long as that lasts.
    #[tokio::test(start_paused = true)]
    async fn u134_what_is_reported_once_is_told_until_it_ends() {
        let (right, health) = (Right::WatchPoliciesOfNamespace, Health::default());
        health.note_pods(&Event::<()>::ListEnd);
        health.lacks(right, "forbidden");
        tokio::time::advance(Duration::from_secs(24 * 3600)).await;
        let told = format!("{}: forbidden", right.without());
        assert_eq!(remarks(&health), [told]);
        health.has(right);
        assert_eq!(health.ready(), Ok("ok".to_owned()));
    }

    #[test]
    fn u134_a_right_that_is_missing_in_many_namespaces_is_told_of_some() {
        let health = Health::default();
        health.note_pods(&Event::<()>::ListEnd);
        let namespaces: Vec<_> = (0..1000).map(|nth| format!("n{nth}")).collect();
        let all = |right| {
            let new = namespaces.iter();
            new.filter(|namespace| health.lacks_in(right, namespace, "denied"))
                .count()
        };
        assert_eq!(
            (all(Right::CreateRequests), all(Right::CreateRequests)),
            (32, 0)
        );
        assert_eq!(remarks(&health).len(), 32);
        assert!(
            health.lacks_in(Right::CreatePullJobs, "n1", "denied"),
            "another right"
        );
        health.has_in(Right::CreateRequests, "n1");
        assert!(
            health.lacks_in(Right::CreateRequests, "n999", "denied"),
            "there is room"
        );
        assert_eq!(remarks(&health).len(), 33);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_is_stuck_is_told_whatever_else_is_wrong() {
        let health = Health::default();
        health.note_pods(&Event::<()>::ListEnd);
        health.lease(Some("another".to_owned()));
        let _heartbeat = health.heartbeat("pods");
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(health.ready().is_ok());
        let stuck = health.stuck().await;
        assert!(
            stuck.starts_with("the loop of pods has been stuck for 12"),
            "{stuck}"
        );
        assert!(
            health
                .ready()
                .unwrap_err()
                .starts_with("the loop of pods has been stuck")
        );
    }

    #[test]
    fn decisions_and_writes_are_counted_by_closed_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.decided(Reason::SidecarSwapped);
        metrics.wrote("pods", "applied");
        let after = Duration::from_millis(1900);
        metrics.ended_after(Timed {
            after,
            method: Method::Swap,
            class: NodeClass::Kubelet,
        });
        let text = answer("/metrics", &registry, &Health::default()).into_body();
        assert!(
            text.contains("swaplet_decisions_total{reason=\"SidecarSwapped\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("swaplet_writes_total{resource=\"pods\",outcome=\"applied\"} 1"),
            "{text}"
        );
        assert!(text.contains("swaplet_write_to_end_seconds_bucket{le=\"2.0\",method=\"swap\",class=\"Kubelet\"} 1"), "{text}");
    }
}

#[cfg(test)]
mod connections_tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What is answered to a request for `/healthz` from this address, or nothing.
    async fn healthz(server: SocketAddr, from: &str) -> String {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(server).await.unwrap();
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            .await;
        let mut answer = Vec::new();
        let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        String::from_utf8(answer).unwrap()
    }

    async fn is_answered(server: SocketAddr, from: &str) -> bool {
        healthz(server, from).await.starts_with("HTTP/1.1 200")
    }

    /// Four addresses with a hundred connections each.
    #[tokio::test]
    async fn a17_who_connects_and_sends_nothing_keeps_nobody_else_waiting_and_is_gone_soon() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let within = Duration::from_secs(5);
        let server = tokio::spawn(async move {
            serve_those(
                accepted_by(listener),
                within,
                Arc::default(),
                Health::default(),
            )
            .await;
        });
        let mut silent = Vec::new();
        for nth in 0..400 {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            let from = format!("127.0.1.{}:0", nth % 4 + 1);
            socket.bind(from.parse().unwrap()).unwrap();
            silent.push(socket.connect(address).await.unwrap());
            if nth % 50 == 0 {
                assert!(is_answered(address, "127.0.0.2").await, "{nth}");
                assert!(is_answered(address, "127.0.1.1").await, "{nth}");
            }
        }
        assert!(is_answered(address, "127.0.0.2").await);
        for stream in &mut silent {
            let mut nothing = Vec::new();
            let ended = timeout(within * 4, stream.read_to_end(&mut nothing)).await;
            assert!(ended.is_ok(), "a connection without a request has an end");
        }
        server.abort();
    }

    #[tokio::test]
    async fn a17_one_connection_is_for_one_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::default(), Health::default()));
        let answer = timeout(Duration::from_secs(2), healthz(address, "127.0.0.1")).await;
        assert!(
            answer.is_ok_and(|answer| answer.contains("connection: close")),
            "it ends with the answer"
        );
        server.abort();
    }

    /// Without file descriptors each try fails at once.
    #[tokio::test(start_paused = true)]
    async fn a17_an_error_that_lasts_is_not_met_over_and_over() {
        let tries = std::cell::Cell::new(0);
        let accept = || {
            tries.set(tries.get() + 1);
            std::future::ready(Err(std::io::Error::other("too many open files")))
        };
        let serving = serve_those(accept, HEADERS_WITHIN, Arc::default(), Health::default());
        assert!(timeout(Duration::from_secs(60), serving).await.is_err());
        assert!((30..=61).contains(&tries.get()), "{}", tries.get());
    }
}
