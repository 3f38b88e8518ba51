//! The restarts that swaps may cause. An exit image that ends a sidecar causes one. One that does
//! not start is started again and again under `OnFailure`, until the phase of the pod is written,
//! and each start counts for the Job. On a kubelet no such image is tried knowingly; a virtual node
//! has no better method, so some more are reserved there.

use super::FAILURES;
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::{Ledger, Swapped};
use crate::objects::pod::evidence::{Footprint, exit_image_shown, is_other_tag, shows_written};
use crate::objects::pod::{Container, ContainerState, Pod, roles};
use crate::terminate::memory::{Memory, SwapRecord};
use crate::terminate::methods::AllowedMethods;
use crate::terminate::methods::preflight::{Preflight, preflight};
use crate::terminate::turn::may_finish;

/// The restarts of an exit image that may not start: on a virtual node the phase is written when the
/// first failure is shown, and two more starts may have begun by then where the node waits for a
/// second only.
const MAY_NOT_START: u32 = 3;

/// Returns the restarts that one swap may cause. Where the phase cannot be written nothing ends
/// those of an image that does not start, so reserving some would not save the Job.
pub(super) fn restarts_of(
    pod: &Pod,
    memory: &Memory,
    allowed: &AllowedMethods,
    is_certain: bool,
) -> u32 {
    if is_certain || !Ledger::counts(pod) || !may_finish(pod, memory, allowed) {
        1
    } else {
        MAY_NOT_START
    }
}

/// Returns true if the sidecar shows the exit image that it would get, and that is certain to start.
fn is_certain(
    pod: &Pod,
    sidecar: &Container,
    record: &SwapRecord,
    exit_images: &ExitImages,
) -> bool {
    match preflight(pod, sidecar, exit_images) {
        Preflight::Image {
            image, doubt: None, ..
        } => is_image(sidecar, record, image),
        _ => false,
    }
}

/// Returns true if the container was swapped to this image. What this run has written was this
/// image, however the API server has stored it.
fn is_image(sidecar: &Container, record: &SwapRecord, image: &str) -> bool {
    record.before.is_some() || exit_image_shown(&sidecar.image, image) == Some(true)
}

fn has_ended_well(sidecar: &Container) -> bool {
    sidecar.end().is_some_and(|end| end.exit_code == Some(0))
}

impl Swapped {
    /// Counts the swapped containers in the pod, which the memory must have observed, and the
    /// restarts that are to be expected of them. `is_new`: [`Memory::was_found_done`].
    pub fn of(
        pod: &Pod,
        memory: &Memory,
        exit_images: &ExitImages,
        allowed: &AllowedMethods,
        is_new: bool,
    ) -> Self {
        let mut swapped = Self::default();
        for sidecar in roles::sidecars(pod) {
            if memory.shows_exit_image(sidecar, exit_images) {
                let more = restarts_coming(pod, sidecar, memory, exit_images, allowed);
                swapped.containers += 1;
                swapped.coming = swapped.coming.saturating_add(more);
            } else if sidecar.end().is_none() {
                swapped.left += 1;
                // An earlier run may have written it, under a name that only that run knew.
                swapped.coming += u32::from(is_new && is_being_changed(sidecar));
            }
        }
        swapped
    }
}

/// Returns true if the node still runs an image of another repository than the spec has. Another tag
/// may be a name of the same bytes.
fn is_being_changed(sidecar: &Container) -> bool {
    sidecar.status.as_ref().is_some_and(|status| {
        exit_image_shown(&status.image, &sidecar.image) == Some(false)
            && !is_other_tag(&status.image, &sidecar.image)
    })
}

/// Returns how many restarts the exit image of a swapped sidecar may still cause.
fn restarts_coming(
    pod: &Pod,
    sidecar: &Container,
    memory: &Memory,
    exit_images: &ExitImages,
    allowed: &AllowedMethods,
) -> u32 {
    let record = memory.swap_of(&sidecar.name);
    let before = record.and_then(|record| record.before.as_ref());
    let is_started = runs_exit_image(sidecar, before);
    if is_started && has_ended_well(sidecar) {
        return 0;
    }
    let is_certain = record.is_some_and(|record| is_certain(pod, sidecar, record, exit_images));
    let all = restarts_of(pod, memory, allowed, is_certain);
    let seen = before.map_or(0, |before| before.restarts_until(&Footprint::of(sidecar)));
    let coming = all.saturating_sub(if is_started { seen.max(1) } else { 0 });
    // Where it has failed so often that the phase is written at once, no start is waited for.
    let is_given_up = seen >= FAILURES && may_finish(pod, memory, allowed);
    let again = is_started && !is_given_up && starts_again(pod, sidecar);
    coming.max(u32::from(again))
}

/// Returns true if an exit image that has been started is down, and its node will start it again.
fn starts_again(pod: &Pod, sidecar: &Container) -> bool {
    match sidecar.end() {
        Some(end) => end.has_failed() && sidecar.comes_back_after(pod, end.exit_code) == Some(true),
        None => sidecar
            .status
            .as_ref()
            .is_some_and(|status| matches!(status.state, ContainerState::Waiting { .. })),
    }
}

/// Returns true if the exit image has been started. A run of the process that did not make the swap
/// does not know the status before it: then only the image in the status shows it, which some
/// providers copy from the spec.
fn runs_exit_image(sidecar: &Container, before: Option<&Footprint>) -> bool {
    let Some(status) = &sidecar.status else {
        return false;
    };
    let shown = shows_written(status, &sidecar.image, before);
    before.map_or(shown == Some(true), |before| {
        shown != Some(false) && before.shows_new_container(&Footprint::of(sidecar))
    })
}
