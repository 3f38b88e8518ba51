//! What the model needs to know of a request, a pod or a write, found once for each.

use swaplet_core::restart::pod::RestartPod;
use swaplet_core::restart::reconcile::Action;
use swaplet_core::restart::request::{Intent, Parking, RecreateState, RestartRequest, StatePhase};

use super::state::{Id, ImageId};

/// A write under way, and what its sender had read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub write: Id,
    /// `NOTHING` where it is about what is parked for nobody.
    pub request: Id,
    pub pod: Id,
}

pub struct RequestFacts {
    /// It is completed, nobody takes it for active, and each container has its verdict.
    pub is_over: bool,
    /// It is being deleted, and nothing keeps it.
    pub is_gone: bool,
    pub uid: Box<str>,
    pub pod_uid: Option<Box<str>>,
    /// What it says of the container.
    pub state: RecreateState,
    /// The change that was written down last.
    pub intent: Option<Intent>,
    pub is_completed: bool,
    /// Whether what is parked for it is left to it.
    pub is_under_way: bool,
    /// Whether it gives back what is parked for it.
    pub brings_back: bool,
    /// Whether it has said that the container stays parked, and what a human can do.
    pub gave_up_parked: bool,
}

impl RequestFacts {
    pub fn of(request: &RestartRequest) -> Self {
        Self {
            is_over: request.is_completed()
                && !request.active
                && request.states.iter().all(|state| state.phase.is_final()),
            is_gone: request.deleting && request.finalizers.is_empty(),
            uid: request.uid.clone(),
            pod_uid: request.pod_uid.clone(),
            state: request.state("app"),
            intent: request.mark("app").and_then(|mark| mark.intent.clone()),
            is_completed: request.is_completed(),
            is_under_way: !request.is_completed() && !request.deleting,
            brings_back: !request.is_completed() && is_parking(request),
            gave_up_parked: request.state("app").message.contains("kubectl set image"),
        }
    }

    /// Whether its next change gives back an image.
    pub fn puts_back(&self) -> bool {
        self.intent
            .as_ref()
            .is_some_and(|intent| intent.back.is_some() || intent.parking == Some(Parking::Back))
    }

    pub fn succeeded(&self) -> bool {
        self.state.phase == StatePhase::Succeeded
    }
}

fn is_parking(request: &RestartRequest) -> bool {
    request.mark("app").is_some_and(|mark| {
        mark.intent
            .as_ref()
            .is_some_and(|intent| intent.parking.is_some())
    })
}

pub struct PodFacts {
    pub uid: Box<str>,
    pub deleting: bool,
    pub generation: Option<i64>,
    /// The image of the container in the spec.
    pub image: ImageId,
    /// Whether it says of a container that it is parked.
    pub is_noted: bool,
}

impl PodFacts {
    pub fn of(pod: &RestartPod, image: ImageId) -> Self {
        Self {
            uid: pod.pod.uid.clone(),
            deleting: pod.pod.deleting,
            generation: pod.generation,
            image,
            is_noted: pod.parked.is_some(),
        }
    }
}

/// A change of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapFacts {
    pub from: ImageId,
    pub to: ImageId,
    pub generation: Option<i64>,
    /// Whether it is for one version of the pod, and not only for one generation.
    pub is_noted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFacts {
    Swap(SwapFacts),
    /// Takes away what the pod says of containers that are not parked any more.
    Unmark,
    Delete,
    /// Another one to the request.
    Other,
}

impl WriteFacts {
    /// `images` are those before and after, where it changes one.
    pub fn of(action: &Action, images: Option<(ImageId, ImageId)>) -> Self {
        match (action, images) {
            (Action::Swap(change), Some((from, to))) => Self::Swap(SwapFacts {
                from,
                to,
                generation: change.generation,
                is_noted: change.note.is_some(),
            }),
            (Action::Swap(_), None) => Self::Unmark,
            (Action::Delete, _) => Self::Delete,
            _ => Self::Other,
        }
    }
}
