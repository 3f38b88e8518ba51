//! Containers that are parked for nobody: their request was deleted, or it ended while the patch that parked them was still on its way.

use std::time::Duration;

use super::container::is_same_image;
use super::{Change, Note};
use crate::decide::decision::Swap;
use crate::objects::parked::Parked;
use crate::objects::restart_pod::RestartPod;
use crate::objects::restart_request::RestartRequest;

/// How long a container is seen parked for nobody before its image is put back: pods and requests are watched each on its own, and the
/// request may be one that is not seen yet.
pub const ORPHAN_AFTER: Duration = Duration::from_secs(10);

/// Containers that are parked for nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The change that gives them their images back.
    pub change: Change,
    /// The request for which they were parked, as far as the pod tells.
    pub request: RestartRequest,
}

/// The containers of a pod that are parked for none of these requests, which are all that there are for it.
pub fn orphan<'a>(pod: &RestartPod, mut requests: impl Iterator<Item = &'a RestartRequest>) -> Option<Orphan> {
    let parked = pod.parked.as_ref().filter(|_| !pod.pod.deleting && !pod.pod.phase.is_terminal())?;
    if requests.any(|request| request.uid == parked.request && brings_back(request)) {
        return None;
    }
    let swap = |name: &str, image: &str| {
        let (index, container, details) = pod.find(name)?;
        // What somebody else has written meanwhile stays.
        let is_out = *container.image != *image && is_same_image(&container.image, &parked.park);
        let (from, to) = (container.image.clone(), image.into());
        is_out.then(|| Swap { index, is_native_sidecar: details.is_native_sidecar, container: name.into(), from, to })
    };
    let swaps: Vec<_> = parked.images.iter().filter_map(|(name, image)| swap(name, image)).collect();
    if swaps.is_empty() {
        return None;
    }
    let note = Some(Note { version: pod.pod.version.clone(), parked: None });
    Some(Orphan { change: Change { swaps, generation: pod.generation, note }, request: request_of(pod, parked) })
}

/// Whether a request will put the images back by itself.
fn brings_back(request: &RestartRequest) -> bool {
    !request.is_completed() && !request.deleting && request.journal.is_some()
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
