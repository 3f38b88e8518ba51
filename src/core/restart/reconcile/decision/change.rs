//! A change of images of a pod, with the pod's record of the containers that it parks.

use crate::report::decision::Swap;
use crate::restart::parked::Parked;
use crate::restart::pod::RestartPod;
use crate::restart::reconcile::coming;
use crate::restart::request::{Parking, RestartRequest};

/// A change of images of a pod, made in one patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The images to change; empty to only remove the record of parked containers.
    pub swaps: Vec<Swap>,
    /// The `metadata.generation` for which this was decided: the patch fails on any other.
    pub generation: Option<i64>,
    /// The pod's new record of parked containers; `None` if the change neither parks a container
    /// nor ends that.
    pub note: Option<Note>,
    /// How many restarts earlier changes for the same request have still to cause.
    pub coming: u32,
}

impl Change {
    /// Returns how many container restarts are to come once it is made: a container that goes into
    /// the park image is started twice, one that comes back once.
    pub fn restarts(&self) -> u32 {
        let parks = |swap: &&Swap| {
            let parked = self.note.as_ref().and_then(|note| note.parked.as_ref());
            parked.is_some_and(|parked| parked.park == swap.to)
        };
        let own = self.swaps.len() + self.swaps.iter().filter(parks).count();
        u32::try_from(own)
            .unwrap_or(u32::MAX)
            .saturating_add(self.coming)
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
pub(crate) fn change(request: &RestartRequest, pod: &RestartPod, swaps: Vec<Swap>) -> Change {
    let parking = |swap: &Swap| request.mark(&swap.container)?.intent.as_ref()?.parking;
    let park = swaps
        .iter()
        .find(|swap| parking(swap) == Some(Parking::Out))
        .map(|swap| swap.to.clone());
    let is_changed = |name: &str| swaps.iter().any(|swap| *swap.container == *name);
    let coming = coming(request, pod, is_changed);
    if swaps.iter().all(|swap| parking(swap).is_none()) {
        return Change {
            swaps,
            generation: pod.generation,
            note: None,
            coming,
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
        swaps,
        generation: pod.generation,
        note: Some(Note {
            version: pod.pod.version.clone(),
            parked,
        }),
        coming,
    }
}
