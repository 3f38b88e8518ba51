//! Containers that are parked for no request: theirs was deleted, or it ended while the patch that
//! parked them was still in flight.

use std::time::Duration;

use super::before::{self, Before};
use crate::image::alias::is_same_image;
use crate::report::decision::Swap;
use crate::restart::parked::Parked;
use crate::restart::pod::RestartPod;
use crate::restart::reconcile::decision::{Change, Note};
use crate::restart::request::RestartRequest;

/// How long a container is observed parked for no request before its image is put back: pods and
/// requests are watched separately, and the request may not be observed yet.
pub const ORPHAN_AFTER: Duration = Duration::from_secs(10);

/// The parked containers in a pod's record that no request handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The change that gives containers their images back, or removes a record of containers of
    /// which none is parked any more; `None` if there is nothing to change.
    pub change: Option<Change>,
    /// For each container that stays parked, the manual fix and the reason.
    pub stays: Vec<String>,
    /// The request for which they were parked, built from the pod's record.
    pub request: RestartRequest,
}

/// Decides about containers that are parked for none of `requests`, which are all that exist;
/// `None` if there is nothing to do.
pub fn orphan<'a>(
    pod: &RestartPod,
    requests: impl Iterator<Item = &'a RestartRequest> + Clone,
    is_park: impl Fn(&str) -> bool,
) -> Option<Orphan> {
    let parked = pod
        .parked
        .as_ref()
        .filter(|_| !pod.pod.deleting && !pod.pod.phase.is_terminal())?;
    let requests = requests.filter(|request| is_for(request, pod));
    let under_way = requests.clone().find(|request| {
        request.uid == parked.request && !request.is_completed() && !request.deleting
    });
    let (mut swaps, mut stays, mut is_needed) = (Vec::new(), Vec::new(), false);
    for name in parked.images.keys() {
        let Some((index, container, details)) = pod.find(name) else {
            continue;
        };
        is_needed |= !before::is_released(pod, parked, name, &is_park);
        if under_way.is_some_and(|request| brings_back(request, name)) {
            continue;
        }
        let has = &container.image;
        let before = match is_park(has) || parked.renames(name, has, &is_park) {
            true => before::of_record(pod, parked, name, requests.clone(), &is_park),
            // An image that another writer has set meanwhile stays.
            false if !is_same_image(has, &parked.park) => continue,
            false => Before::Unknown(
                "its pod records that as the park image, which differs here (--park-image)"
                    .to_owned(),
            ),
        };
        match before {
            Before::Image(image) => {
                let (container, from, to) = (name.clone(), container.image.clone(), image.into());
                swaps.push(Swap {
                    index,
                    is_native_sidecar: details.is_native_sidecar,
                    container,
                    from,
                    to,
                });
            }
            Before::Unknown(why) => {
                stays.push(before::stays(pod, name, &why));
            }
            Before::OfAnother => {}
        }
    }
    let is_over = !is_needed && under_way.is_none();
    if swaps.is_empty() && stays.is_empty() && !is_over {
        return None;
    }
    let change = (!swaps.is_empty() || is_over).then(|| put_back(pod, parked, swaps));
    Some(Orphan {
        change,
        stays,
        request: request_of(pod, parked),
    })
}

/// Builds the change of these images; one without any removes the record, which no container needs.
fn put_back(pod: &RestartPod, parked: &Parked, swaps: Vec<Swap>) -> Change {
    let parked = (!swaps.is_empty()).then(|| parked.clone());
    Change {
        swaps,
        generation: pod.generation,
        note: Some(Note {
            version: pod.pod.version.clone(),
            parked,
        }),
        coming: 0,
    }
}

/// Like [`orphan`], for a human, who reviews the change: with or without a request, and out of the
/// image that the pod records as the park image. The record goes with the last image, because no
/// controller may come later that removes it. `None` if there is nothing to put back.
#[must_use]
pub fn orphan_as_told(pod: &RestartPod) -> Option<Orphan> {
    let parked = pod.parked.as_ref()?;
    let is_park = |image: &str| is_same_image(image, &parked.park);
    let mut found = orphan(pod, std::iter::empty(), is_park)?;
    let change = found
        .change
        .as_mut()
        .filter(|change| !change.swaps.is_empty())?;
    let mut names = parked.images.keys();
    if names.all(|name| change.swaps.iter().any(|swap| swap.container == *name))
        && let Some(note) = &mut change.note
    {
        note.parked = None;
    }
    Some(found)
}

fn is_for(request: &RestartRequest, pod: &RestartPod) -> bool {
    request.namespace == pod.pod.namespace && request.pod_name == pod.pod.name
}

/// Returns true if a request in progress will put the image of this container back by itself.
fn brings_back(request: &RestartRequest, name: &str) -> bool {
    request.mark(name).is_some_and(|mark| {
        mark.intent
            .as_ref()
            .is_some_and(|intent| intent.parking.is_some())
    })
}

fn request_of(pod: &RestartPod, parked: &Parked) -> RestartRequest {
    RestartRequest {
        namespace: pod.pod.namespace.clone(),
        name: parked.name.clone(),
        uid: parked.request.clone(),
        pod_name: pod.pod.name.clone(),
        pod_uid: Some(pod.pod.uid.clone()),
        ..RestartRequest::default()
    }
}
