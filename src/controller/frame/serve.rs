//! Health and metrics over HTTP: `/healthz`, `/readyz`, `/metrics`.

mod connections;
pub(crate) mod heartbeat;
mod missing;
pub mod rights;
pub(crate) mod sight;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Response, StatusCode};
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep};

use self::heartbeat::{Heartbeat, Heartbeats};
use self::rights::Right;
use self::sight::{STALE, Sight};
use super::watch::age::WatchAges;
pub use connections::serve;

/// The pause between two looks at the heartbeats of the loops.
const LOOK: Duration = Duration::from_secs(5);
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
    /// The ages of all watches.
    watches: WatchAges,
    heartbeats: Heartbeats,
    /// The rights that are missing, each with its namespace (empty: all) and the error of the API
    /// server.
    lacks: BTreeMap<(Right, Box<str>), String>,
}

impl State {
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
            .map(|((right, _), error)| format!("{}: {error}", right.without()));
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
    pub(crate) fn heartbeat(&self, of: &'static str) -> Heartbeat {
        self.state().heartbeats.begin(of)
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

    /// Records that all pods were listed.
    pub fn pods_listed(&self) {
        self.state().pods.listed();
    }

    /// Records that a watch of pods was opened at `since`.
    pub fn pods_current(&self, since: Instant) {
        self.state().pods.current(since);
    }

    /// Records that pods could not be listed or watched.
    pub fn pods_trouble(&self, error: &str) {
        self.state().pods.trouble(error);
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

    /// Records that these objects are listed again, wherever they can be.
    pub fn nothing_hidden(&self, what: &'static str) {
        self.state().hidden.remove(what);
    }

    /// Records that these objects must not be listed in one of the namespaces. The work in others
    /// continues, so this is a remark and does not make it unready.
    pub fn hidden(&self, what: &'static str, error: &str) {
        self.state()
            .hidden
            .entry(what)
            .or_default()
            .push(error.to_owned());
    }

    /// Records that a watch of Jobs was opened at `since`.
    pub fn jobs_current(&self, since: Instant) {
        self.state().jobs.current(since);
    }

    /// Records that Jobs could not be listed or watched; returns true if this is new.
    #[must_use]
    pub fn jobs_trouble(&self, error: &str) -> bool {
        self.state().jobs.trouble(error)
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

    /// Like [`lacks`](Self::lacks), in one namespace.
    pub fn lacks_in(&self, right: Right, namespace: &str, error: &str) -> bool {
        self.state()
            .lacks
            .insert((right, namespace.into()), error.to_owned())
            .is_none()
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
        let state = self.state();
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
            (None, _) if !state.pods.is_listed() => {
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

/// Returns the response to a probe.
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
        health.pods_listed();
        assert_eq!(ready(&health).status(), StatusCode::OK);
        health.pods_trouble("list: forbidden");
        let response = ready(&health);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.body(), "cannot watch pods: list: forbidden\n");
        health.pods_current(Instant::now());
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
        health.hidden("pods", "pods is forbidden in the namespace a");
        assert_eq!(
            ready(&health).body(),
            "ok, but nothing is done in a namespace: pods is forbidden in the namespace a\n"
        );
        health.nothing_hidden("jobs");
        assert!(ready(&health).body().contains("namespace a"));
        health.nothing_hidden("pods");
        assert_eq!(ready(&health).body(), "ok\n");
        assert!(health.jobs_trouble("list: forbidden"));
        assert!(!health.jobs_trouble("list: forbidden"));
        let response = ready(&health);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            response.body(),
            "cannot watch Jobs, so pods of Jobs under OnFailure may have to wait: list: forbidden\n"
        );
        health.jobs_current(Instant::now());
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

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_is_stuck_is_told_whatever_else_is_wrong() {
        let health = Health::default();
        health.pods_listed();
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
