//! What is decided about a request.

use std::time::Duration;

use super::acceptance::Acceptance;
use super::readiness::Readiness;
use crate::objects::recreate_request::RequestPhase;
use crate::report::decision::{Report, Swap};
use crate::report::reason::Reason;
use crate::restart::parked::Parked;
use crate::restart::request::{Journal, RecreateState};

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

/// Images of a pod that are changed, all in one patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// Empty where what the pod says of parked containers is taken away, because none is parked any
    /// more.
    pub swaps: Vec<Swap>,
    /// The `metadata.generation` for which this was decided: nothing is changed in another one.
    pub generation: Option<i64>,
    /// What the pod is to say of parked containers, where this parks one or ends that.
    pub note: Option<Note>,
}

impl Change {
    /// How many restarts are to come of it: a container that is parked is started twice.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        let parks = |swap: &&Swap| {
            let parked = self.note.as_ref().and_then(|note| note.parked.as_ref());
            parked.is_some_and(|parked| parked.images.contains_key(&swap.container))
        };
        u32::try_from(self.swaps.len() + self.swaps.iter().filter(parks).count())
            .unwrap_or(u32::MAX)
    }
}

/// What a pod is to say of its parked containers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The resourceVersion of the pod for which this was decided: a generation does not count its
    /// annotations.
    pub version: Box<str>,
    /// `None` where none is parked any more.
    pub parked: Option<Parked>,
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
}
