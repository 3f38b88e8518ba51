//! The observable state of a pod without times and ids, to compare nodes with each other.

use serde_json::Value;

/// The state of a pod at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// `status.phase`
    pub phase: String,
    /// `status.reason`
    pub reason: String,
    /// `status.containerStatuses`, by name.
    pub containers: Vec<SeenContainer>,
    /// `status.initContainerStatuses`, in their order.
    pub init: Vec<SeenContainer>,
}

/// The state of a container at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeenContainer {
    /// `name`
    pub name: String,
    /// The state: `waiting`, `running`, `terminated`, or empty.
    pub state: String,
    /// The reason of the state.
    pub reason: String,
    /// The exit code, if it has ended.
    pub exit_code: Option<i64>,
    /// The exit code of the previous run, if it is shown.
    pub last_exit_code: Option<i64>,
    /// `restartCount`
    pub restarts: i64,
    /// `image`
    pub image: String,
    /// `ready`
    pub ready: bool,
}

impl Seen {
    /// Returns the observable state of a pod.
    pub fn of(pod: &Value) -> Self {
        let status = &pod["status"];
        let all = |field: &str| {
            status[field]
                .as_array()
                .into_iter()
                .flatten()
                .map(SeenContainer::of)
                .collect()
        };
        let mut containers: Vec<SeenContainer> = all("containerStatuses");
        containers.sort_by(|one, other| one.name.cmp(&other.name));
        Self {
            phase: text(&status["phase"]),
            reason: text(&status["reason"]),
            containers,
            init: all("initContainerStatuses"),
        }
    }

    /// Returns a container by its name.
    pub fn container(&self, name: &str) -> Option<&SeenContainer> {
        self.containers
            .iter()
            .chain(&self.init)
            .find(|container| container.name == name)
    }
}

impl SeenContainer {
    fn of(status: &Value) -> Self {
        let state = status["state"]
            .as_object()
            .and_then(|state| state.iter().find(|(_, inner)| inner.is_object()));
        let (kind, inner) = state.map_or((String::new(), &Value::Null), |(kind, inner)| {
            (kind.clone(), inner)
        });
        Self {
            name: text(&status["name"]),
            state: kind,
            reason: text(&inner["reason"]),
            exit_code: inner["exitCode"].as_i64(),
            last_exit_code: status["lastState"]["terminated"]["exitCode"].as_i64(),
            restarts: status["restartCount"].as_i64().unwrap_or(0),
            image: text(&status["image"]),
            ready: status["ready"] == true,
        }
    }
}

/// The observed states of a pod, one entry per change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(Vec<Seen>);

impl Trace {
    /// Appends the current state, if it differs from the last one.
    pub fn push(&mut self, pod: &Value) {
        let seen = Seen::of(pod);
        if self.0.last() != Some(&seen) {
            self.0.push(seen);
        }
    }

    /// Returns all observed states, in order.
    pub fn all(&self) -> &[Seen] {
        &self.0
    }

    /// Returns the last observed state.
    pub fn last(&self) -> Option<&Seen> {
        self.0.last()
    }

    /// Returns the phases, without repetitions in a row.
    pub fn phases(&self) -> Vec<&str> {
        let mut phases: Vec<&str> = self.0.iter().map(|seen| seen.phase.as_str()).collect();
        phases.dedup();
        phases
    }

    /// Describes one container's states, without repetitions in a row: `running work:1 rc0`,
    /// `terminated(143) exit:1 rc1`, `waiting(ErrImagePull) ...`.
    pub fn states(&self, name: &str) -> Vec<String> {
        let mut states: Vec<String> = self
            .0
            .iter()
            .filter_map(|seen| seen.container(name))
            .map(ToString::to_string)
            .collect();
        states.dedup();
        states
    }
}

impl std::fmt::Display for SeenContainer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let image = self.image.rsplit('/').next().unwrap_or_default();
        let kind = if self.state.is_empty() {
            "unreported"
        } else {
            &self.state
        };
        match (self.exit_code, self.state.as_str()) {
            (Some(code), _) => write!(out, "terminated({code}) {image} rc{}", self.restarts),
            (None, "waiting") => {
                write!(out, "waiting({}) {image} rc{}", self.reason, self.restarts)
            }
            _ => write!(out, "{kind} {image} rc{}", self.restarts),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
