//! The progress of one container of a request, from its journal entry and what its pod shows.

pub(super) mod patience;
mod put_back;
mod refusal;
mod risk;
mod started;
mod stored;

use std::time::Duration;

use super::circumstances::Case;
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::is_pull_error;
use crate::objects::pod::{Container, ContainerState, ContainerStatus, PROVIDER_FAILED};
use crate::report::decision::Swap;
use crate::restart::pod::Details;
use crate::restart::request::{Intent, Mark, Parking, StatePhase};

/// How long a kubelet may take beyond the grace period to show another container: seconds, and
/// minutes under load.
const KUBELET_SHOWS: Duration = Duration::from_secs(300);
/// How long a virtual node may take beyond the grace period to show another container.
const VIRTUAL_SHOWS: Duration = Duration::from_secs(60);
/// The grace period of a pod that names none, in seconds: the API server's default.
const DEFAULT_GRACE: u32 = 30;
/// How long a restarted container may take to become ready: as long as a rollout waits for progress
/// (`progressDeadlineSeconds` of a Deployment), or as long as the request itself allows, if that is
/// longer. A request never waits for ever.
const READY_WITHIN: Duration = Duration::from_secs(600);
/// Kubernetes 1.36 shows a restarted container ready for up to 0.9 s before its startup probe has
/// run (`docs/measured.md`, "Readiness in a restart").
const STARTUP_SETTLES: Duration = Duration::from_secs(2);
/// The progress of a container: what is to be done for it next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: its state is final, or becomes final now, with this message.
    Final(StatePhase, String),
    /// Record this mark in the journal, before the image is changed.
    Begin(Mark),
    /// Make this change, which is recorded in the journal.
    Swap(Swap),
    /// Nothing: it waits for its turn in the request, or is parked for another request.
    Waits,
    /// Nothing: it waits for a condition that may never come true.
    WaitsFor(Wait),
    /// Nothing until this time, if any: the node is working on it.
    Works(Option<Moment>),
}

/// A condition that a container waits for before it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The pod's Job allows the restarts.
    Room,
    /// The status reflects the current spec.
    Node,
    /// Another request has ended, for which containers of the pod are parked.
    Parked,
}

/// One container of a request, with everything that its next step depends on.
pub(crate) struct Target<'a> {
    pub case: Case<'a>,
    pub index: usize,
    pub container: &'a Container,
    pub details: &'a Details,
    pub mark: &'a Mark,
    pub status: &'a ContainerStatus,
}

impl<'a> Target<'a> {
    /// Finds the container of this name; `None` if the pod or its status does not show it, or the
    /// journal has no entry for it.
    pub fn of(case: Case<'a>, name: &str) -> Option<Self> {
        let (index, container, details) = case.pod.find(name)?;
        Some(Self {
            case,
            index,
            container,
            details,
            mark: case.request.mark(name)?,
            status: container.status.as_ref()?,
        })
    }
}

impl Target<'_> {
    /// Decides the next step; `turn` is how many restarts begin at once, `None` if not its turn.
    pub fn step(&self, turn: Option<u32>) -> Step {
        match &self.mark.intent {
            None if self.is_restarted_since() && !self.case.request.strategy.force => {
                self.becomes_ready()
            }
            None => turn.map_or(Step::Waits, |restarts| self.begin(restarts)),
            Some(intent) => self.carried_out(intent, turn.unwrap_or(1)),
        }
    }

    /// Returns true if the status shows another container than the one in the journal.
    pub(crate) fn is_restarted(&self) -> bool {
        self.mark.shows_another(self.status)
    }

    /// Returns true if the container was replaced after the request was created; used where swaplet
    /// did not cause it. A status may arrive late, and a user who changes a file and then requests
    /// a restart wants the file to be read. A time of the node and one of the API server are
    /// compared, in seconds. If that leaves a doubt, or a time is missing, the container is
    /// restarted once more.
    pub(crate) fn is_restarted_since(&self) -> bool {
        let last = || self.status.last_end.as_ref().and_then(|end| end.started_at);
        let started = Mark::of(self.status).started_at.or_else(last);
        self.is_restarted()
            && started
                .zip(self.case.request.created_at)
                .is_some_and(|(started, asked)| started > asked)
    }

    pub(crate) fn carried_out(&self, intent: &Intent, restarts: u32) -> Step {
        match (intent.parking, &intent.back) {
            (Some(Parking::Out), _) => return self.goes_out(intent, restarts),
            (Some(Parking::Back), _) => return self.comes_back(intent),
            (None, Some(why)) => return self.put_back(intent, why),
            (None, None) => {}
        }
        let image = &self.container.image;
        if *image == intent.from {
            return self.not_changed(intent, restarts);
        }
        if !self.has_what_was_written(&intent.to) {
            return self.changed_by_others();
        }
        if *self.case.pod.pod.reason == *PROVIDER_FAILED {
            return Step::Final(
                StatePhase::Failed,
                format!(
                    "the provider of its virtual node has failed on the changed image: the pod shows {PROVIDER_FAILED}"
                ),
            );
        }
        if let Some(trouble) = self.pull_trouble() {
            let back = Intent {
                back: Some(trouble),
                ..intent.clone()
            };
            return Step::Begin(Mark {
                intent: Some(back),
                ..self.mark.clone()
            });
        }
        if self.is_restarted() && self.is_seen_by_node() {
            self.becomes_ready()
        } else {
            self.not_restarted()
        }
    }

    /// Fails the container, because another writer has changed its image: a user's edit outranks a
    /// restart.
    pub(crate) fn changed_by_others(&self) -> Step {
        Step::Final(
            StatePhase::Failed,
            format!(
                "somebody else has set its image to {} in the meantime",
                self.container.image
            ),
        )
    }

    /// Returns true if the status reflects the current spec, or if either generation is not
    /// reported.
    pub(crate) fn is_seen_by_node(&self) -> bool {
        self.case
            .pod
            .observed_generation
            .is_none_or(|seen| self.case.pod.generation.is_none_or(|spec| seen >= spec))
    }

    /// Decides for a container that has its image as before: the change was not made, or was
    /// undone.
    fn not_changed(&self, intent: &Intent, restarts: u32) -> Step {
        let is_enough = self.is_restarted_since() && !self.case.request.strategy.force;
        match (self.is_untouched(intent), self.is_restarted()) {
            (false, false) => self.not_restarted(),
            (_, true) if is_enough => self.becomes_ready(),
            (false, true) => {
                let why = "its image was put back in the meantime, so it is not known whether it was restarted for this request";
                Step::Final(StatePhase::Failed, why.to_owned())
            }
            // The present container is to be replaced, by a change of the current spec.
            (true, true) => self.begin(restarts),
            (true, false) if self.has_moved(intent) => self.begin(restarts),
            (true, false) => self.swap(intent, restarts),
        }
    }

    /// Returns true if the intent was never carried out and never will be, for a container that has
    /// the image before. To carry it out and to undo it are two changes of the spec, and there was
    /// at most one. That one was not swaplet's either, and no patch for the spec before it is
    /// accepted any more.
    pub(crate) fn is_untouched(&self, intent: &Intent) -> bool {
        let next = intent.generation.map(|generation| generation + 1);
        !self.has_moved(intent) || self.case.pod.generation == next
    }

    /// Returns true if the spec has changed since the intent was recorded, by it or by others.
    pub(crate) fn has_moved(&self, intent: &Intent) -> bool {
        intent.generation.is_some() && intent.generation != self.case.pod.generation
    }

    pub(crate) fn change(&self, from: &str, to: &str) -> Swap {
        let is_native_sidecar = self.details.is_native_sidecar;
        Swap {
            index: self.index,
            is_native_sidecar,
            container: self.container.name.clone(),
            from: from.into(),
            to: to.into(),
        }
    }

    /// Returns true if another container is observed running with the current spec.
    pub(crate) fn has_started(&self) -> bool {
        self.is_running() && self.is_restarted() && self.is_seen_by_node()
    }

    const fn is_running(&self) -> bool {
        matches!(self.status.state, ContainerState::Running { .. })
    }

    /// Returns the node's reason and message if it cannot pull the image; else `None`.
    pub(crate) fn pull_trouble(&self) -> Option<Box<str>> {
        match &self.status.state {
            ContainerState::Waiting { reason, message } if is_pull_error(reason) => {
                Some(format!("{reason}: {message}").into())
            }
            _ => None,
        }
    }

    pub(crate) fn not_restarted(&self) -> Step {
        let until = self.shows_until();
        if self.case.around.now < until {
            return Step::Works(Some(until));
        }
        Step::Final(StatePhase::Failed, self.nothing_shown())
    }

    /// Returns the time until which to wait for the node to show another container.
    pub(crate) fn shows_until(&self) -> Moment {
        self.case
            .memory
            .changed_at(&self.container.name)
            .unwrap_or(self.case.around.now)
            + self.shows_within()
    }

    fn shows_within(&self) -> Duration {
        let grace = Duration::from_secs(
            self.case
                .pod
                .pod
                .grace_seconds
                .unwrap_or(DEFAULT_GRACE)
                .into(),
        );
        let shows = if self.case.around.node.is_some_and(|node| node.is_kubelet()) {
            KUBELET_SHOWS
        } else {
            VIRTUAL_SHOWS
        };
        grace.saturating_add(shows)
    }

    /// Returns the message for a node that did not restart the container in time.
    pub(crate) fn nothing_shown(&self) -> String {
        match (self.container.end(), self.pull_trouble()) {
            (Some(end), _) => format!(
                "it was stopped (exit code {}) and has not come back",
                code(end.exit_code)
            ),
            (None, Some(trouble)) => format!("it cannot be started ({trouble})"),
            (None, None) => format!(
                "the node has not restarted it in {} s",
                self.shows_within().as_secs()
            ),
        }
    }
}

fn code(exit_code: Option<i64>) -> String {
    exit_code.map_or_else(|| "unknown".to_owned(), |code| code.to_string())
}
