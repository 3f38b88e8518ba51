//! The decision about a request.

use serde_json::Value;

use crate::objects::moment::Moment;
use crate::objects::pod::{GateCondition, RestartPolicy};
use crate::objects::recreate_request::RequestPhase;
use crate::report::decision::{Report, Swap};
use crate::report::reason::Reason;
use crate::restart::parked::Parked;
use crate::restart::pod::RestartPod;
use crate::restart::reconcile::coming;
use crate::restart::request::{
    Intent, Journal, Mark, Parking, RecreateState, RestartRequest, StatePhase,
};

/// A write to a request or to its pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Accept the request: write its labels, journal and defaults.
    Accept(Acceptance),
    /// Record in the request's journal what is about to be done.
    WriteDown(Journal),
    /// Change images of the pod.
    Swap(Change),
    /// Write the status of the request.
    Report(Status),
    /// Write the finalizers of the request.
    Finalize(Vec<Box<str>>),
    /// Record since when the pod is kept not ready for `unreadyGracePeriodSeconds`.
    NoteUnready,
    /// Keep the pod not ready, or stop keeping it so.
    SetReadiness(Readiness),
    /// Remove the label of an active request.
    Release,
    /// Delete the request: its `ttlSecondsAfterFinished` has passed.
    Delete,
}

/// A new status of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// `phase`; `Completed` is written with a `completionTime`.
    pub phase: RequestPhase,
    /// `message`
    pub message: Box<str>,
    /// `containerRecreateStates`
    pub states: Vec<RecreateState>,
}

/// The fields that a request gets when it is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acceptance {
    /// The uid of the pod.
    pub pod_uid: Box<str>,
    /// The name of the pod's node.
    pub node: Box<str>,
    /// The marks of the containers that are there now.
    pub journal: Journal,
    /// The defaults for each container of the request, in its order; empty if another writer has
    /// set them.
    pub containers: Vec<Filled>,
    /// `terminationGracePeriodSeconds` of the pod; `None` if the request names one.
    pub grace_seconds: Option<u32>,
}

/// The defaults of a container that OpenKruise's webhook would set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filled {
    /// `name`
    pub name: Box<str>,
    /// `statusContext`: the present container.
    pub context: Mark,
    /// `preStop`
    pub pre_stop: Option<Value>,
    /// `ports`
    pub ports: Option<Value>,
}

/// A write to the readiness of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Readiness {
    /// The condition of the gate.
    pub gate: GateCondition,
    /// True if the condition `Ready`, now `True`, is set to `False` too, because its node would do
    /// so later.
    pub unready: bool,
    /// The resourceVersion of the pod that it was derived from.
    pub version: Box<str>,
}

/// The decision about a request at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The reason for this decision.
    pub reason: Reason,
    /// The write to make, if any: at most one at a time.
    pub action: Option<Action>,
    /// The reports about the pod once the action is applied.
    pub done: Vec<Report>,
    /// When to reconcile again if nothing changes.
    pub again: Option<Moment>,
    /// The containers that wait for what may never come ([`super::Memory::note`]); `None` if no
    /// container was evaluated.
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

    pub(super) fn later(reason: Reason, again: Moment) -> Self {
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

    /// Records in the request's journal what is about to be done.
    pub(super) fn write_down(journal: &Journal, marks: Vec<(Box<str>, Mark)>) -> Self {
        let mut journal = journal.clone();
        journal.0.extend(marks);
        Self::act(Reason::RestartPending, Action::WriteDown(journal))
    }

    /// Completes the request; each container without a final state fails with this message.
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
        Self::act(reason, Action::Report(status)).reporting(Report::new(reason, note))
    }

    fn reporting(self, report: Report) -> Self {
        Self {
            done: vec![report],
            ..self
        }
    }

    /// Makes these changes of images, and reports them once they are applied. Those that bring
    /// containers back come first and alone: what begins may be denied.
    pub(super) fn swap(request: &RestartRequest, pod: &RestartPod, mut swaps: Vec<Swap>) -> Self {
        if swaps.iter().any(|swap| is_back(request, swap)) {
            swaps.retain(|swap| is_back(request, swap));
        }
        let (deed, name) = (deed(request, &swaps), &request.name);
        let note = format!(
            "{deed}, for ContainerRecreateRequest {name}: {}",
            Swap::list(&swaps)
        );
        let reason = Reason::ContainerRestarting;
        Self::act(reason, Action::Swap(change(request, pod, swaps)))
            .reporting(Report::new(reason, note))
    }
}

/// Returns the purpose of these changes, for the report.
fn deed(request: &RestartRequest, swaps: &[Swap]) -> &'static str {
    let is_parked =
        |swap: &Swap| intent_of(request, swap).is_some_and(|intent| intent.parking.is_some());
    if swaps.iter().all(|swap| is_back(request, swap)) {
        "putting the previous image back"
    } else if swaps.iter().any(is_parked) {
        "restarting by the park image"
    } else {
        "restarting by another spelling of the image"
    }
}

fn intent_of<'a>(request: &'a RestartRequest, swap: &Swap) -> Option<&'a Intent> {
    request.mark(&swap.container)?.intent.as_ref()
}

/// Returns true if a container gets back the image that it had.
fn is_back(request: &RestartRequest, swap: &Swap) -> bool {
    intent_of(request, swap)
        .is_some_and(|intent| intent.back.is_some() || intent.parking == Some(Parking::Back))
}

// A change of images of a pod, with the pod's record of the containers that it parks.

/// A change of images of a pod, made in one patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The images to change; empty to only remove the record of parked containers.
    pub swaps: Vec<Swap>,
    /// The `metadata.generation` for which this was decided: the patch fails on any other.
    pub generation: Option<i64>,
    /// The pod's new record of parked containers; `None` if the change leaves it as it is.
    pub note: Option<Note>,
    /// How many restarts earlier changes for the same request have still to cause.
    pub coming: u32,
    /// The containers whose images are changed only where a dry run stores what is written: by
    /// another image one could be lost, or parked in what nobody knows as the park image.
    pub tried: Vec<Box<str>>,
}

impl Change {
    /// Returns how many container restarts are to come once it is made: a container that goes into
    /// the park image is started twice, one that comes back once.
    pub fn restarts(&self) -> u32 {
        let own = self.swaps.len() + self.parked().count();
        u32::try_from(own)
            .unwrap_or(u32::MAX)
            .saturating_add(self.coming)
    }

    /// Returns the same change with the images as they are, of the containers that it parks; `None`
    /// if it parks none. Where that is denied, they could not come back.
    pub fn as_it_is(&self) -> Option<Self> {
        let as_it_is = |swap: &Swap| Swap {
            to: swap.from.clone(),
            ..swap.clone()
        };
        let swaps: Vec<_> = self.parked().map(as_it_is).collect();
        (!swaps.is_empty()).then(|| Self {
            swaps,
            note: None,
            ..self.clone()
        })
    }

    fn parked(&self) -> impl Iterator<Item = &Swap> {
        let parked = self.note.as_ref().and_then(|note| note.parked.as_ref());
        let swaps = self.swaps.iter();
        swaps.filter(move |swap| parked.is_some_and(|parked| parked.park == swap.to))
    }
}

/// A write of the record of parked containers in a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The resourceVersion of the pod for which this was decided: a generation does not count its
    /// annotations.
    pub version: Box<str>,
    /// The record; `None` if no container is parked any more.
    pub parked: Option<Parked>,
}

/// Builds the change of these images, with the pod's new record of parked containers.
fn change(request: &RestartRequest, pod: &RestartPod, swaps: Vec<Swap>) -> Change {
    let parking = |swap: &Swap| intent_of(request, swap)?.parking;
    let park = swaps
        .iter()
        .find(|swap| parking(swap) == Some(Parking::Out))
        .map(|swap| swap.to.clone());
    let is_changed = |name: &str| swaps.iter().any(|swap| *swap.container == *name);
    let coming = coming(request, pod, is_changed);
    let is_tried =
        |swap: &&Swap| parking(swap) == Some(Parking::Out) || may_lose(request, pod, swap);
    let tried = swaps.iter().filter(is_tried);
    let tried = tried.map(|swap| swap.container.clone()).collect();
    if swaps.iter().all(|swap| parking(swap).is_none()) {
        return Change {
            swaps,
            generation: pod.generation,
            note: None,
            coming,
            tried,
        };
    }
    let before = pod
        .parked
        .clone()
        .filter(|parked| parked.request == request.uid)
        .unwrap_or_default();
    let mut images = before.images;
    for swap in &swaps {
        match parking(swap) {
            Some(Parking::Out) => drop(images.insert(swap.container.clone(), swap.from.clone())),
            // The record goes when the container is seen running: a webhook may change the image.
            Some(Parking::Back) | None => {}
        }
    }
    let park = park.unwrap_or(before.park);
    let parked = Parked {
        pod: pod.pod.uid.clone(),
        name: request.name.clone(),
        request: request.uid.clone(),
        park,
        images,
    };
    let parked = (!parked.images.is_empty()).then_some(parked);
    Change {
        coming,
        tried,
        ..recorded(pod, swaps, parked)
    }
}

/// Builds the change of these images, with this record of parked containers in the pod. What only
/// brings containers back leaves the record there, and needs no version of the pod beside its
/// generation: others may change the pod all the time.
pub(crate) fn recorded(pod: &RestartPod, swaps: Vec<Swap>, parked: Option<Parked>) -> Change {
    let is_kept = pod.generation.is_some()
        && pod.parked == parked
        && (parked.as_ref()).is_some_and(|parked| swaps.iter().all(|swap| swap.to != parked.park));
    let version = pod.pod.version.clone();
    Change {
        swaps,
        generation: pod.generation,
        note: (!is_kept).then_some(Note { version, parked }),
        coming: 0,
        tried: Vec::new(),
    }
}

/// Returns true if a container is stopped by this change, and may not be started again after a
/// failure, unless the user has asked for that.
fn may_lose(request: &RestartRequest, pod: &RestartPod, swap: &Swap) -> bool {
    let begins = intent_of(request, swap)
        .is_some_and(|intent| intent.back.is_none() && intent.parking.is_none());
    let found = pod.find(&swap.container);
    begins
        && !request.strategy.force
        && found.is_some_and(|(_, container, _)| {
            *container.effective_policy(&pod.pod) != RestartPolicy::Always
        })
}
