//! What is decided about a request.

mod change;

use std::time::Duration;

use serde_json::Value;

pub use self::change::{Change, Note};
use crate::objects::pod::readiness::GateCondition;
use crate::objects::recreate_request::RequestPhase;
use crate::report::decision::{Report, Swap};
use crate::report::reason::Reason;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Journal, Mark, Parking, RecreateState, RestartRequest, StatePhase};

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Take the request up.
    Accept(Acceptance),
    /// Write down in the request what is about to be done.
    WriteDown(Journal),
    /// Change images of the pod.
    Swap(Change),
    /// Write the status of the request.
    Report(Status),
    /// Write the finalizers of the request.
    Finalize(Vec<Box<str>>),
    /// Write that, and since when, the pod is kept not ready for `unreadyGracePeriodSeconds`.
    NoteUnready,
    /// Keep the pod not ready, or do not keep it so any more.
    SetReadiness(Readiness),
    /// Take the label of an active request away.
    Release,
    /// Delete the request: its time after its completion is over.
    Delete,
}

/// A status of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// `phase`; with `Completed` goes the `completionTime`.
    pub phase: RequestPhase,
    /// `message`
    pub message: Box<str>,
    /// `containerRecreateStates`
    pub states: Vec<RecreateState>,
}

/// What a request gets when it is taken up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acceptance {
    /// The uid of the pod.
    pub pod_uid: Box<str>,
    /// Its node.
    pub node: Box<str>,
    /// The containers that are there now.
    pub journal: Journal,
    /// What is to be filled in of each container of the request, in its order; nothing where
    /// somebody has done it.
    pub containers: Vec<Filled>,
    /// `terminationGracePeriodSeconds` of the pod, where the request names none.
    pub grace_seconds: Option<u32>,
}

/// What OpenKruise's webhook fills in of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filled {
    /// `name`
    pub name: Box<str>,
    /// `statusContext`: the container that is there.
    pub context: Mark,
    /// `preStop`
    pub pre_stop: Option<Value>,
    /// `ports`
    pub ports: Option<Value>,
}

/// What is written to the readiness of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Readiness {
    /// The condition of the gate.
    pub gate: GateCondition,
    /// Whether the condition `Ready` becomes `False` with it: it is `True`, and its node would be
    /// later.
    pub unready: bool,
    /// The version of the pod that it is made of.
    pub version: Box<str>,
}

/// What is to be done about a request now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Why this, and nothing else.
    pub reason: Reason,
    /// What to write; at most one thing at a time.
    pub action: Option<Action>,
    /// What to tell of the pod once the action is applied.
    pub done: Vec<Report>,
    /// When to look again if nothing changes, as time since the start of the process.
    pub again: Option<Duration>,
    /// The containers that wait for what may never come ([`super::Memory::note`]); `None` where
    /// none was looked at.
    pub waiting: Option<Vec<Box<str>>>,
}

impl Decision {
    pub(super) const fn quiet(reason: Reason) -> Self {
        Self {
            reason,
            action: None,
            done: Vec::new(),
            again: None,
            waiting: None,
        }
    }

    pub(super) fn later(reason: Reason, again: Duration) -> Self {
        Self {
            again: Some(again),
            ..Self::quiet(reason)
        }
    }

    pub(super) fn act(reason: Reason, action: Action) -> Self {
        Self {
            action: Some(action),
            ..Self::quiet(reason)
        }
    }

    /// What is about to be done is written down in the request first.
    pub(super) fn write_down(journal: &Journal, marks: Vec<(Box<str>, Mark)>) -> Self {
        let mut journal = journal.clone();
        journal.0.extend(marks);
        Self::act(Reason::RestartPending, Action::WriteDown(journal))
    }

    /// The end of a request, in which each container has a final state.
    pub(super) fn give_up(request: &RestartRequest, message: &str) -> Self {
        let fail = |state: RecreateState| match state.phase.is_final() {
            true => state,
            false => RecreateState {
                phase: StatePhase::Failed,
                message: message.into(),
                ..state
            },
        };
        let status = Status {
            phase: RequestPhase::Completed,
            message: message.into(),
            states: request.wanted_states().map(fail).collect(),
        };
        let note = format!(
            "ContainerRecreateRequest {} is given up: {message}",
            request.name
        );
        let reason = Reason::RestartFailed;
        Self::act(reason, Action::Report(status)).telling(Report { reason, note })
    }

    fn telling(self, report: Report) -> Self {
        Self {
            done: vec![report],
            ..self
        }
    }

    /// These changes of images, and what is said of them.
    pub(super) fn swap(request: &RestartRequest, pod: &RestartPod, swaps: Vec<Swap>) -> Self {
        let (deed, name) = (deed(request, &swaps), &request.name);
        let note = format!(
            "{deed}, for ContainerRecreateRequest {name}: {}",
            Swap::list(&swaps)
        );
        let reason = Reason::ContainerRestarting;
        Self::act(reason, Action::Swap(change::change(request, pod, swaps)))
            .telling(Report { reason, note })
    }
}

/// What these changes are made for.
fn deed(request: &RestartRequest, swaps: &[Swap]) -> &'static str {
    let intent = |swap: &Swap| request.mark(&swap.container)?.intent.as_ref();
    let is_back = |swap: &Swap| {
        intent(swap)
            .is_some_and(|intent| intent.back.is_some() || intent.parking == Some(Parking::Back))
    };
    let is_parked = |swap: &Swap| intent(swap).is_some_and(|intent| intent.parking.is_some());
    match (swaps.iter().all(is_back), swaps.iter().any(is_parked)) {
        (true, _) => "putting the image before back",
        (false, true) => "restarting by the park image",
        (false, false) => "restarting by another spelling of the image",
    }
}
