//! The restarts that swaps may cause. An exit image that ends a sidecar causes one. One that cannot
//! be started is started again and again under `OnFailure`, until the phase of the pod is written,
//! and each start counts for the Job. So where nobody can tell whether it starts, some more are
//! reserved, until it has worked once.

use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::{Ledger, Swapped};
use crate::objects::pod::evidence::{self, Footprint, exit_image_shown};
use crate::objects::pod::{Container, Pod, roles};
use crate::terminate::memory::{Memory, SwapRecord};
use crate::terminate::methods::AllowedMethods;
use crate::terminate::methods::preflight::{Preflight, preflight};
use crate::terminate::turn::may_finish;

/// The restarts of an exit image that cannot be started. A kubelet tries three times within 12 s
/// and then once more after 20 s; the phase is written when the pod has been quiet for 10 s.
const OF_A_BROKEN_IMAGE: u32 = 4;

/// Returns how many restarts one swap may cause. Where the phase cannot be written nothing ends the
/// restarts of an image that cannot be started, so reserving some would not save the Job: there the
/// administrator's word counts.
pub(super) fn restarts(
    pod: &Pod,
    is_certain: bool,
    memory: &Memory,
    allowed: &AllowedMethods,
) -> u32 {
    if is_certain || !may_finish(pod, memory, allowed) {
        1
    } else {
        OF_A_BROKEN_IMAGE
    }
}

/// Records which exit images have ended a sidecar of the pod, of those that might not have started.
/// Returns true if that is news: pods like this one need less room in their Job.
pub fn learn_starts(pod: &Pod, memory: &Memory, exit_images: &mut ExitImages) -> bool {
    if memory.swaps.is_empty() {
        return false;
    }
    let worked = roles::sidecars(pod).filter_map(|sidecar| {
        let record = memory.swap_of(&sidecar.name)?;
        if !has_worked(sidecar, record) {
            return None;
        }
        match preflight(pod, sidecar, exit_images) {
            Preflight::Image { image, doubt, .. } => {
                doubt.filter(|_| is_image(sidecar, record, image))
            }
            Preflight::Awaited(_) | Preflight::Blocked { .. } => None,
        }
    });
    let worked: Vec<_> = worked.collect();
    let is_news = !worked.is_empty();
    for start in worked {
        exit_images.learn_start(start);
    }
    is_news
}

/// Returns true if the exit image that this run has written has ended the container.
fn has_worked(sidecar: &Container, record: &SwapRecord) -> bool {
    record.to == sidecar.image
        && has_ended_well(sidecar)
        && evidence::proves_update(sidecar, record.before.as_ref())
}

fn has_ended_well(sidecar: &Container) -> bool {
    sidecar.end().is_some_and(|end| end.exit_code == Some(0))
}

/// Returns true if the container was swapped to this image. What this run has written was this
/// image, however the API server has stored it.
fn is_image(sidecar: &Container, record: &SwapRecord, image: &str) -> bool {
    record.before.is_some() || exit_image_shown(&sidecar.image, image) == Some(true)
}

impl Swapped {
    /// Counts the swapped containers in the pod, which the memory must have observed, and the
    /// restarts that are to be expected of them.
    #[must_use]
    pub fn of(
        pod: &Pod,
        memory: &Memory,
        exit_images: &ExitImages,
        allowed: &AllowedMethods,
    ) -> Self {
        let sidecars =
            roles::sidecars(pod).filter(|sidecar| memory.shows_exit_image(sidecar, exit_images));
        sidecars.fold(Self::default(), |Self { containers, coming }, sidecar| {
            let more = restarts_coming(pod, sidecar, memory, exit_images, allowed);
            Self {
                containers: containers + 1,
                coming: coming.saturating_add(more),
            }
        })
    }
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
    let is_certain = || match (record, preflight(pod, sidecar, exit_images)) {
        (Some(record), Preflight::Image { image, doubt, .. }) => {
            doubt.is_none() && is_image(sidecar, record, image)
        }
        _ => false,
    };
    let all = restarts(pod, !Ledger::counts(pod) || is_certain(), memory, allowed);
    let seen = before.map_or(0, |before| before.restarts_until(&Footprint::of(sidecar)));
    all.saturating_sub(if is_started { seen.max(1) } else { 0 })
}

/// Returns true if the exit image has been started. A run of the process that did not make the swap
/// does not know the status before it: then only the image in the status shows it.
fn runs_exit_image(sidecar: &Container, before: Option<&Footprint>) -> bool {
    let Some(status) = &sidecar.status else {
        return false;
    };
    exit_image_shown(&status.image, &sidecar.image).unwrap_or_else(|| {
        before.is_some_and(|before| before.shows_new_container(&Footprint::of(sidecar)))
    })
}
