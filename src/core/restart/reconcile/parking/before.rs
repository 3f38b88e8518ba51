//! Which image a parked container had before, and what is said where nobody can be believed.
//!
//! A request is written by whoever may make one, and its journal is text in it. So an image is put
//! back only out of the park image of this installation, and only to what the pod's own record
//! (`objects::parked`) says, which the leash keeps for swaplet alone. The journal is no source; but
//! where it says something else than the pod, one of the two was forged, and nothing is written.

use crate::image::alias::is_bare_digest;
use crate::image::reference::ImageReference;
use crate::restart::parked::{PARKED, Parked};
use crate::restart::pod::RestartPod;
use crate::restart::request::{Parking, RestartRequest, StatePhase};

/// What is said of a container that stays parked. A request that has ended with these words is a
/// witness of what it has written down.
const STAYS: &str = " stays in the park image. ";

/// Whether a request has ended although a container stays parked, so that it is to be kept.
pub(crate) fn is_witness(request: &RestartRequest) -> bool {
    request
        .states
        .iter()
        .any(|state| state.phase == StatePhase::Failed && state.message.contains(STAYS))
}

/// What a human can do for a parked container that does not get an image back by itself, and why it
/// does not: in this order, for notes of Events are cut, and what is quoted may be long.
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

/// What the pod says that a container had which is parked for this request, or what there is
/// instead.
pub(crate) fn of_request<'a>(
    pod: &'a RestartPod,
    name: &str,
    request: &RestartRequest,
    is_park: impl Fn(&str) -> bool,
) -> Before<'a> {
    let Some(parked) = &pod.parked else {
        return Before::Unknown(format!(
            "its pod does not say any more, in {PARKED}, which image it had"
        ));
    };
    if parked.request != request.uid {
        return Before::OfAnother;
    }
    of_record(pod, parked, name, std::iter::once(request), is_park)
}

/// Which image a parked container had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before<'a> {
    /// This one.
    Image(&'a str),
    /// It is parked for another request, which is the matter of that, or of nobody.
    OfAnother,
    /// Nobody can be believed, for this reason.
    Unknown(String),
}

/// What a record says of a container, if none of these requests for the pod contradicts it.
pub(crate) fn of_record<'a, 'r>(
    pod: &RestartPod,
    parked: &'a Parked,
    name: &str,
    mut requests: impl Iterator<Item = &'r RestartRequest>,
    is_park: impl Fn(&str) -> bool,
) -> Before<'a> {
    let Some(image) = parked.images.get(name) else {
        return Before::Unknown(format!(
            "its pod does not say, in {PARKED}, which image it had"
        ));
    };
    if pod.parked_through_status {
        return Before::Unknown(format!(
            "{PARKED} was written through pods/status, as swaplet never does"
        ));
    }
    if !is_image(image) || is_park(image) {
        return Before::Unknown(format!("{PARKED} names no image that it can have had"));
    }
    let said = requests.find_map(|request| contradiction(request, parked, name, image));
    match said {
        Some(other) => Before::Unknown(format!(
            "its pod says that it had {}, and its request {}",
            shown(image),
            shown(other)
        )),
        None => Before::Image(image),
    }
}

/// What a request has written down as the image before, where that is another one. One that is over
/// counts where it may have ended because of that.
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

fn is_image(image: &str) -> bool {
    is_bare_digest(image) || ImageReference::parse(image).is_ok()
}

/// An image as it may be shown to people, who may copy it: it comes from others.
pub(crate) fn shown(image: &str) -> &str {
    if is_image(image) {
        image
    } else {
        "what is no image"
    }
}
