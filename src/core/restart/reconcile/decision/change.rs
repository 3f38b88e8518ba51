//! A change of images of a pod, and what the pod is to say of those that it parks.

use crate::report::decision::Swap;
use crate::restart::parked::Parked;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Parking, RestartRequest};

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

/// The change of these images, with what the pod is to say of it.
pub(crate) fn change(request: &RestartRequest, pod: &RestartPod, swaps: Vec<Swap>) -> Change {
    let parking = |swap: &Swap| request.mark(&swap.container)?.intent.as_ref()?.parking;
    let park = swaps
        .iter()
        .find(|swap| parking(swap) == Some(Parking::Out))
        .map(|swap| swap.to.clone());
    if swaps.iter().all(|swap| parking(swap).is_none()) {
        return Change {
            swaps,
            generation: pod.generation,
            note: None,
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
            Some(Parking::Back) => drop(images.remove(&swap.container)),
            None => {}
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
        swaps,
        generation: pod.generation,
        note: Some(Note {
            version: pod.pod.version.clone(),
            parked,
        }),
    }
}
