//! The image that a parked container had before, and the message if no record of it can be trusted.
//!
//! Anyone who may create requests can write one, and its journal is text in it. So only the park
//! image of this installation is replaced, and only by what the pod's own record
//! (`restart::parked`) holds. The admission policy reserves that record for swaplet. The journal is
//! no source. But where it contradicts the pod, one of the two was forged, and nothing is written.

use crate::image::alias::{is_same_image, is_writable, same_repository};
use crate::image::renamed::may_be_renamed;
use crate::objects::pod::ContainerState;
use crate::restart::parked::{PARKED, Parked};
use crate::restart::pod::RestartPod;
use crate::restart::reconcile::readiness::is_its_pod;
use crate::restart::reconcile::{Around, Sight};
use crate::restart::request::{Parking, RestartRequest, StatePhase};

/// The message for a container that stays parked. A request that has ended with it is kept as
/// evidence of what it has recorded.
const STAYS: &str = " stays in the park image. ";
/// The reason why a container stays in a park image that this installation does not have.
pub(crate) const FOREIGN: &str =
    "its pod records that as the park image, which differs here (--park-image)";

/// Returns true if a request has ended although a container stays parked, so that it is to be kept.
pub(crate) fn is_witness(request: &RestartRequest) -> bool {
    request
        .states
        .iter()
        .any(|state| state.phase == StatePhase::Failed && state.message.contains(STAYS))
}

/// Returns true while a request that has ended may contradict its pod: until that is gone, or is
/// seen with no container that is parked.
pub(crate) fn is_evidence(request: &RestartRequest, sight: Sight<'_>, around: &Around<'_>) -> bool {
    let is_parked = |pod: &RestartPod| {
        let mut containers = pod.pod.containers.iter();
        pod.parked.is_some() || containers.any(|container| around.parks(&container.image))
    };
    is_witness(request)
        && match sight {
            Sight::Unseen | Sight::Refused(_) => true,
            Sight::Absent => false,
            Sight::There(pod) => {
                is_its_pod(request, pod) && !pod.pod.phase.is_terminal() && is_parked(pod)
            }
        }
}

/// Returns the manual fix for a parked container that does not get its image back, and the reason.
/// In this order, because notes of Events are cut, and what is quoted may be long.
pub(crate) fn stays(pod: &RestartPod, name: &str, why: &str) -> String {
    let (namespace, pod_name) = (&pod.pod.namespace, &pod.pod.name);
    let image = pod
        .find(name)
        .map(|(_, container, _)| shown(&container.image))
        .unwrap_or_default();
    format!(
        "{name}{STAYS}Give it the image that its workload names: kubectl set image -n {namespace} pod/{pod_name} {name}=IMAGE. It has {image}, and {why}"
    )
}

/// Returns what to say of a container of the record that has another image than before, and none
/// that is known as the park image; `None` if it has what it had, or may have it by another name.
pub(crate) fn is_another(pod: &RestartPod, name: &str, before: &str) -> Option<String> {
    let image = &pod.find(name)?.1.image;
    if is_same_image(image, before) || may_be_renamed(image, before) {
        return None;
    }
    let (namespace, pod_name) = (&pod.pod.namespace, &pod.pod.name);
    Some(format!(
        "{name} has another image than before it was parked, which somebody has set, or a webhook of the cluster has made of the park image. If it does not do its work, give it the image that its workload names: kubectl set image -n {namespace} pod/{pod_name} {name}=IMAGE. It has {}, and had {}",
        shown(image),
        shown(before)
    ))
}

/// Returns true if a container of the record is seen with an image that it has run, and that is no
/// park program: then nobody needs the image that it had. The image in the spec alone may be
/// anything's other name.
pub(crate) fn is_released(
    pod: &RestartPod,
    parked: &Parked,
    name: &str,
    is_park: impl Fn(&str) -> bool,
) -> bool {
    let Some((_, container, details)) = pod.find(name) else {
        return true;
    };
    let parks = |image: &str| {
        is_park(image) || is_same_image(image, &parked.park) || parked.may_rename(name, image)
    };
    let image = &container.image;
    let had = parked.images.get(name);
    container.status.as_ref().is_some_and(|status| {
        let has_run = matches!(
            status.state,
            ContainerState::Running { .. } | ContainerState::Terminated(_)
        );
        // Runtimes show an image that was pulled by its digest by no name, and one of several tags:
        // then its repository counts, where that is the one that the container had.
        let is_of = |other: &str| same_repository(&details.image_id, other);
        // Before the node has seen another image in the spec, its status is of the one before.
        let is_current = is_same_image(&status.image, image)
            || had.is_some_and(|had| {
                is_same_image(image, had) || is_of(image) && is_of(had) && !is_of(&parked.park)
            });
        has_run && is_current && !parks(&status.image) && !parks(image)
    })
}

/// Returns the image that the pod records for a container that is parked for this request, or why
/// there is none.
pub(crate) fn of_request<'a>(
    pod: &'a RestartPod,
    name: &str,
    request: &RestartRequest,
    is_park: impl Fn(&str) -> bool,
) -> Before<'a> {
    let Some(parked) = &pod.parked else {
        return Before::Unknown(format!(
            "its pod no longer records, in {PARKED}, which image it had"
        ));
    };
    if parked.request != request.uid {
        return Before::OfAnother;
    }
    of_record(pod, parked, name, std::iter::once(request), is_park)
}

/// The image that a parked container had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before<'a> {
    /// The recorded image, which can be trusted.
    Image(&'a str),
    /// The container is parked for another request, which puts its image back, or for none.
    OfAnother,
    /// No record can be trusted, for this reason.
    Unknown(String),
}

/// Returns the image in a record, unless one of these requests for the pod contradicts it.
pub(crate) fn of_record<'a, 'r>(
    pod: &RestartPod,
    parked: &'a Parked,
    name: &str,
    mut requests: impl Iterator<Item = &'r RestartRequest>,
    is_park: impl Fn(&str) -> bool,
) -> Before<'a> {
    let Some(image) = parked.images.get(name) else {
        return Before::Unknown(format!(
            "its pod does not record, in {PARKED}, which image it had"
        ));
    };
    if pod.parked_through_status {
        return Before::Unknown(format!(
            "{PARKED} was written through pods/status, which swaplet never does"
        ));
    }
    if !is_writable(image) || is_park(image) {
        return Before::Unknown(format!("{PARKED} names an image that it cannot have had"));
    }
    let said = requests.find_map(|request| contradiction(request, parked, name, image));
    match said {
        Some(other) => Before::Unknown(format!(
            "its pod records the image {}, and its request {}",
            shown(image),
            shown(other)
        )),
        None => Before::Image(image),
    }
}

/// Returns the image before in a request's journal if it differs from the record. A request that is
/// over counts if it may have ended because of that.
fn contradiction<'r>(
    request: &'r RestartRequest,
    parked: &Parked,
    name: &str,
    image: &str,
) -> Option<&'r str> {
    let counts = request.uid == parked.request || !request.is_completed() || is_witness(request);
    let intent = request.mark(name)?.intent.as_ref()?;
    let is_about_it = match intent.parking {
        Some(Parking::Out) => !request.is_completed(),
        Some(Parking::Back) => true,
        None => false,
    };
    (counts && is_about_it && *intent.from != *image).then_some(&*intent.from)
}

/// Returns an image that is safe to show to people, who may copy it: it comes from others.
pub(crate) fn shown(image: &str) -> &str {
    if is_writable(image) {
        image
    } else {
        "what is no image"
    }
}
