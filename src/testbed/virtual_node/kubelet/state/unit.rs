//! A container of the pod, and the runtime's records of its runs.

use jiff::Timestamp;

use crate::virtual_node::images::Local;
use crate::virtual_node::life::{End, Life};
use crate::virtual_node::pod::{Container, Policy};
use crate::virtual_node::times::later;

/// The shortest grace period of a container, whatever the pod has.
const SHORTEST_GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// A container of the pod.
#[derive(Clone, Debug)]
pub struct Unit {
    pub spec: Container,
    /// True for one of `spec.initContainers`.
    pub init: bool,
    /// The runs, oldest first.
    pub records: Vec<Record>,
    /// The reason why it could not be started.
    pub waiting: Option<Waiting>,
    /// Records before this index are gone from this time on.
    pub dropped: Option<(usize, Timestamp)>,
}

/// The runtime's record of one run.
#[derive(Clone, Debug)]
pub struct Record {
    /// The image as the spec named it.
    pub wanted: String,
    pub local: Local,
    pub id: String,
    /// `restartCount`
    pub restarts: usize,
    pub state: State,
}

/// The state of a record.
#[derive(Clone, Debug)]
pub enum State {
    /// Its start, and its behaviour from then on.
    Running(Timestamp, Life),
    /// Its start, and how it ended.
    Ended(Timestamp, End),
    /// The time, and why the program could not be started.
    NotStarted(Timestamp, String),
}

/// The content of `state.waiting`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub reason: &'static str,
    pub message: String,
}

/// The exit code that containerd reports for a program that cannot be started.
const START_ERROR: i32 = 128;

impl Record {
    /// Returns the exit code and the time of the end; `None` while it runs.
    pub fn end(&self) -> Option<End> {
        match self.state {
            State::Running(..) => None,
            State::Ended(_, end) => Some(end),
            State::NotStarted(at, _) => Some(End {
                at,
                code: START_ERROR,
            }),
        }
    }

    /// Returns its future end if it runs and nothing more is done; `None` if it has none.
    fn will_end(&self) -> Option<End> {
        match &self.state {
            State::Running(_, life) => life.end(),
            _ => None,
        }
    }
}

impl Unit {
    pub fn new(spec: Container, init: bool) -> Self {
        Self {
            spec,
            init,
            records: Vec::new(),
            waiting: None,
            dropped: None,
        }
    }

    /// Returns true for an init container that keeps running beside the main containers.
    pub fn is_native_sidecar(&self) -> bool {
        self.init && self.spec.restart_policy == Some(Policy::Always)
    }

    pub fn last(&self) -> Option<&Record> {
        self.records.last()
    }

    pub fn is_running(&self) -> bool {
        self.last().is_some_and(|record| record.end().is_none())
    }

    pub fn end(&self) -> Option<End> {
        self.last()?.end()
    }

    pub fn will_end(&self) -> Option<End> {
        self.last()?.will_end()
    }

    /// Returns true if it runs with another image than the spec has now.
    pub fn is_outdated(&self) -> bool {
        self.is_running()
            && self
                .last()
                .is_some_and(|record| record.wanted != self.spec.image)
    }

    /// Returns true if it must start, judging by its last end: also if it has never run.
    pub fn should_start(&self, pod: Policy) -> bool {
        let policy = if self.init && pod == Policy::Always {
            Policy::OnFailure
        } else {
            pod
        };
        match self.last().map(Record::end) {
            None => true,
            Some(None) => false,
            Some(Some(end)) => self.spec.restarts(policy, end.code),
        }
    }

    /// Sends SIGTERM after the preStop hook, and SIGKILL after the grace period, which counts from
    /// now.
    pub fn stop(&mut self, grace: std::time::Duration, now: Timestamp) {
        let hook = self.spec.pre_stop().min(grace);
        let Some(Record {
            state: State::Running(_, life),
            ..
        }) = self.records.last_mut()
        else {
            return;
        };
        let term = later(now, hook);
        life.stop(term, later(term, (grace - hook).max(SHORTEST_GRACE)));
    }

    pub fn is_stopping(&self) -> bool {
        matches!(self.last(), Some(Record { state: State::Running(_, life), .. }) if life.is_stopping())
    }

    /// Records the end that was due.
    pub fn finish(&mut self) {
        let Some(record) = self.records.last_mut() else {
            return;
        };
        if let (State::Running(started, _), Some(end)) = (&record.state, record.will_end()) {
            record.state = State::Ended(*started, end);
        }
    }

    /// Returns the records that the runtime still has at a time: the last, and the one before.
    pub fn kept(&self, now: Timestamp) -> (Option<&Record>, Option<&Record>) {
        let first = self
            .dropped
            .filter(|(_, at)| *at <= now)
            .map_or(0, |(first, _)| first);
        let mut newest = self.records.iter().skip(first).rev();
        (newest.next(), newest.next())
    }
}
