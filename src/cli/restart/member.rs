//! One pod of a restart: the observed state of its containers, and its outcome.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use swaplet_controller::restart::on_config::disruption_budgets::is_ready;
use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::request::{RestartRequest, StatePhase};
use swaplet_core::restart::rollout::Stage;

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) containers: Vec<Seen>,
    pub(super) state: State,
    /// The message of the request: what went wrong with it as a whole, or which part could not be
    /// honoured.
    pub(super) remark: String,
    /// The pod as last observed.
    pub(super) pod: Pod,
}

/// One of its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: String,
    /// When the container that is to be replaced started.
    pub(super) before: Option<Timestamp>,
    /// When the current container started.
    pub(super) started: Option<Timestamp>,
    pub(super) ready: bool,
    pub(super) phase: StatePhase,
    pub(super) message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// The restart has begun, at this time.
    Restarting(Moment),
    Over(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All its containers were restarted and are ready, after this time.
    Succeeded(Duration),
    /// Not all were restarted, for this reason.
    Failed(String),
    /// It was deleted before its turn; a workload creates a new one, whose containers are new.
    Gone,
    /// It was not started, for this reason.
    NotStarted(String),
    /// Interrupted; the request continues without us, and this is how to inspect it.
    Left(String),
}

impl Outcome {
    /// Returns the word in the table.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Succeeded(_) => "Succeeded",
            Self::Failed(_) => "Failed",
            Self::Gone => "Gone",
            Self::NotStarted(_) => "NotStarted",
            Self::Left(_) => "Unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded(took) => write!(f, "restarted in {} s", took.as_secs()),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Gone => write!(
                f,
                "it was deleted; a pod that replaces it has new containers"
            ),
            Self::NotStarted(why) => write!(f, "not restarted: {why}"),
            Self::Left(why) => write!(f, "not known: {why}"),
        }
    }
}

impl Member {
    pub(super) fn new(pod: Pod, containers: &[String]) -> Self {
        let containers = containers
            .iter()
            .map(|name| Seen {
                name: name.clone(),
                ..Seen::default()
            })
            .collect();
        let spec = pod.spec.as_ref();
        let mut member = Self {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            node: spec
                .and_then(|spec| spec.node_name.clone())
                .unwrap_or_default(),
            containers,
            state: State::Waiting,
            remark: String::new(),
            pod: Pod::default(),
        };
        member.observe(pod);
        member
    }

    pub(super) fn stage(&self) -> Stage {
        match self.state {
            State::Waiting => Stage::Waiting,
            State::Restarting(_) => Stage::Restarting,
            State::Over(_) => Stage::Over,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        is_ready(&self.pod)
    }

    /// Updates the member from the pod; returns the news in words.
    pub(super) fn observe(&mut self, pod: Pod) -> Vec<String> {
        let waiting = self.state == State::Waiting;
        let mut news = Vec::new();
        for seen in &mut self.containers {
            let status = status(&pod, &seen.name);
            let (started, ready) = (
                status.and_then(started_at),
                status.is_some_and(|status| status.ready),
            );
            if waiting {
                seen.before = started;
            } else if started.is_some() && started != seen.started && started != seen.before {
                news.push(format!(
                    "pod/{} {}: started {} (before: {})",
                    self.name,
                    seen.name,
                    time(started),
                    time(seen.before)
                ));
            }
            seen.started = started;
            if ready && !seen.ready && seen.is_another() {
                news.push(format!("pod/{} {}: ready", self.name, seen.name));
            }
            seen.ready = ready;
        }
        self.pod = pod;
        news
    }

    /// Updates the member from the request; returns the news in words.
    pub(super) fn handle(&mut self, request: &RestartRequest) -> Vec<String> {
        let mut news = Vec::new();
        if !request.message.is_empty() && *self.remark != *request.message {
            news.push(format!("pod/{}: {}", self.name, request.message));
        }
        self.remark = request.message.to_string();
        for seen in &mut self.containers {
            let state = request.state(&seen.name);
            if state.phase != seen.phase {
                let why = if state.message.is_empty() {
                    String::new()
                } else {
                    format!(": {}", state.message)
                };
                news.push(format!(
                    "pod/{} {}: {}{why}",
                    self.name,
                    seen.name,
                    state.phase.as_str()
                ));
            }
            seen.phase = state.phase;
            seen.message = state.message.into();
        }
        news
    }

    /// Returns the outcome of its completed request.
    pub(super) fn judge(&self, took: Duration) -> Outcome {
        let failed = |seen: &&Seen| seen.phase != StatePhase::Succeeded;
        let words = |seen: &Seen| {
            let said = [&seen.message, &self.remark];
            let said = said.into_iter().find(|text| !text.is_empty()).cloned();
            let why = said.unwrap_or_else(|| format!("it ended {}", seen.phase.as_str()));
            format!("{}: {why}", seen.name)
        };
        // One container fails the others, so the first is not the cause.
        let words: Vec<_> = self.containers.iter().filter(failed).map(words).collect();
        match words.is_empty() {
            true => Outcome::Succeeded(took),
            false => Outcome::Failed(words.join("; ")),
        }
    }
}

impl Seen {
    /// Returns true if the container is another one than before.
    fn is_another(&self) -> bool {
        self.started.is_some() && self.started != self.before
    }
}

/// Returns the status of a container or native sidecar.
pub(super) fn status<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    let mut statuses = status.container_statuses.iter().flatten().chain(init);
    statuses.find(|status| status.name == container)
}

/// Returns true if the container was started; some virtual nodes report no ID.
pub(super) fn was_started(status: &ContainerStatus) -> bool {
    let has_id = status
        .container_id
        .as_ref()
        .is_some_and(|id| !id.is_empty());
    has_id
        || status
            .state
            .as_ref()
            .is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

fn started_at(status: &ContainerStatus) -> Option<Timestamp> {
    let running = status.state.as_ref()?.running.as_ref()?;
    running.started_at.as_ref().map(|time| time.0)
}

/// Formats a time like kubectl.
pub(super) fn time(at: Option<Timestamp>) -> String {
    at.map_or_else(
        || "-".to_owned(),
        |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    )
}
