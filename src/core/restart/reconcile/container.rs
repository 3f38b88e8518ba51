//! Where one container of a request stands, from what was written down and what its pod shows.

mod patience;
mod put_back;
mod refusal;
mod started;

use std::time::Duration;

use super::circumstances::Case;
use crate::image::alias::is_same_image;
use crate::objects::pod::evidence::is_pull_error;
use crate::objects::pod::{
    Container, ContainerState, ContainerStatus, PROVIDER_FAILED, RestartPolicy,
};
use crate::report::decision::Swap;
use crate::restart::pod::Details;
use crate::restart::request::{Intent, Mark, Parking, StatePhase};

/// How long a kubelet may take beyond the grace period to show another container: seconds, and
/// minutes under load.
const KUBELET_SHOWS: Duration = Duration::from_secs(300);
/// The same for a virtual node.
const VIRTUAL_SHOWS: Duration = Duration::from_secs(60);
/// The grace period where the pod names none: the API server's default.
const DEFAULT_GRACE: u32 = 30;
/// How long a restarted container may take to become ready: as long as a rollout waits for progress
/// (`progressDeadlineSeconds` of a Deployment), or as long as the request itself allows, if that is
/// longer. A request never waits for ever.
const READY_WITHIN: Duration = Duration::from_secs(600);
/// Kubernetes 1.36 shows a restarted container ready for up to 0.9 s before its startup probe has
/// run (`docs/measured.md`, "Readiness in a restart").
const STARTUP_SETTLES: Duration = Duration::from_secs(2);
/// Where a container stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its state is final, or has just become it.
    Final(StatePhase, String),
    /// It may be begun: this is to be written down.
    Begin(Mark),
    /// It was written down: this is to be done.
    Swap(Swap),
    /// It waits for its turn among the containers of the request, or is in the park image for
    /// another request.
    Waits,
    /// It waits for this, which may never come.
    WaitsFor(Wait),
    /// The node is at work, until something is to be decided at this time.
    Works(Option<Duration>),
}

/// What a container waits for before anything is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Restarts that the pod's Job allows.
    Room,
    /// That the status is about the spec as it is.
    Node,
    /// The end of a restart for another request, for which containers of the pod are parked.
    Parked,
}

/// One container of a request with everything about it.
pub(crate) struct Target<'a> {
    pub case: Case<'a>,
    pub index: usize,
    pub container: &'a Container,
    pub details: &'a Details,
    pub mark: &'a Mark,
    pub status: &'a ContainerStatus,
}

impl<'a> Target<'a> {
    /// That of the container of this name; `None` where the pod does not show it, or nothing was
    /// written down about it.
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
    /// Where it stands; `turn` is whether it may be begun, as the last of so many at once.
    pub fn step(&self, turn: Option<u32>) -> Step {
        match &self.mark.intent {
            None if self.is_restarted_since() && !self.case.request.strategy.force => {
                self.becomes_ready()
            }
            None => turn.map_or(Step::Waits, |restarts| self.begin(restarts)),
            Some(intent) => self.carried_out(intent, turn.unwrap_or(1)),
        }
    }

    /// Whether another container is there than when it was written down, and the node has seen the
    /// spec as it is.
    pub(crate) fn is_restarted(&self) -> bool {
        self.mark.shows_another(self.status)
    }

    /// Whether what was started without a change of ours was started after it was asked for: a
    /// status may tell late, and who has changed a file and then asks wants it to be read. A time
    /// of the node and one of the API server are compared, in seconds; where that leaves a doubt,
    /// and where nothing is told, it is restarted once more.
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
        if !is_same_image(image, &intent.to) {
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

    /// A user's edit outranks a restart.
    pub(crate) fn changed_by_others(&self) -> Step {
        Step::Final(
            StatePhase::Failed,
            format!(
                "somebody else has given it the image {} meanwhile",
                self.container.image
            ),
        )
    }

    /// Whether the status is about the spec as it is; taken for granted of nodes that do not tell.
    pub(crate) fn is_seen_by_node(&self) -> bool {
        self.case
            .pod
            .observed_generation
            .is_none_or(|seen| self.case.pod.generation.is_none_or(|spec| seen >= spec))
    }

    /// The image is as before: the change has not been made, or somebody has undone it.
    fn not_changed(&self, intent: &Intent, restarts: u32) -> Step {
        let is_enough = self.is_restarted_since() && !self.case.request.strategy.force;
        match (self.is_untouched(intent), self.is_restarted()) {
            (false, false) => self.not_restarted(),
            (_, true) if is_enough => self.becomes_ready(),
            (false, true) => {
                let why = "its image was put back meanwhile, so nobody can tell whether it was restarted because of this request";
                Step::Final(StatePhase::Failed, why.to_owned())
            }
            // What is there now is to be replaced, by a change of the spec as it is now.
            (true, true) => self.begin(restarts),
            (true, false) if self.has_moved(intent) => self.begin(restarts),
            (true, false) => self.swap(intent, restarts),
        }
    }

    /// Whether nobody has carried out the intent, or ever will, of a container that has the image
    /// before: to carry it out and to undo it are two changes of the spec, and there was one at
    /// most. That one, too, was none of ours, and no patch for the spec before it is taken any
    /// more.
    pub(crate) fn is_untouched(&self, intent: &Intent) -> bool {
        let next = intent.generation.map(|generation| generation + 1);
        !self.has_moved(intent) || self.case.pod.generation == next
    }

    /// Whether the spec has changed since the intent was written down, by it or by others.
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

    /// Whether what the spec says now is seen to run.
    pub(crate) fn has_started(&self) -> bool {
        self.is_running() && self.is_restarted() && self.is_seen_by_node()
    }

    const fn is_running(&self) -> bool {
        matches!(self.status.state, ContainerState::Running { .. })
    }

    /// The node's words for an alias that it cannot pull.
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

    /// Until when the node is waited for.
    pub(crate) fn shows_until(&self) -> Duration {
        self.case
            .memory
            .changed_at(&self.container.name)
            .unwrap_or(self.case.around.now)
            .saturating_add(self.shows_within())
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

    /// What is to be said of a node that was waited for in vain.
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

    fn policy(&self) -> &RestartPolicy {
        self.container.effective_policy(&self.case.pod.pod)
    }
}

fn code(exit_code: Option<i64>) -> String {
    exit_code.map_or_else(|| "unknown".to_owned(), |code| code.to_string())
}
