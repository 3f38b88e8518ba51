//! The restarts that swaps may cause. An exit image that ends a sidecar causes one. One that cannot
//! be started is started again and again under `OnFailure`, until the phase of the pod is written,
//! and each start counts for the Job. So where nobody can tell whether it starts, some more are
//! reserved, until it has worked once. Of such exit images a pod tries one at a time, and makes no
//! other swap meanwhile: so it reserves them once, and not for each of its sidecars.

use super::plan::is_waited_for;
use super::time::patience;
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::{Ledger, Swapped};
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::{self, Footprint, exit_image_shown};
use crate::objects::pod::roles::Unended;
use crate::objects::pod::{Container, Pod, roles};
use crate::terminate::circumstances::Case;
use crate::terminate::memory::{Memory, SwapRecord};
use crate::terminate::methods::AllowedMethods;
use crate::terminate::methods::preflight::{Preflight, preflight};
use crate::terminate::turn::{may_finish, returns_until};

/// The restarts of an exit image that cannot be started. A kubelet tries three times within 12 s
/// and then once more after 20 s; the phase is written when the pod has been quiet for 10 s.
pub const OF_A_BROKEN_IMAGE: u32 = 4;

/// The restarts that swaps of one pod may cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restarts {
    /// The swaps to exit images that may not start. They are made first, one at a time.
    risky: u32,
    /// The other swaps.
    certain: u32,
    /// True if an exit image is being tried: what is reserved for it is for the next ones, too.
    pub(super) is_tried: bool,
}

impl Restarts {
    /// Adds a swap.
    pub(super) const fn add(&mut self, is_risky: bool) {
        let swaps = if is_risky {
            &mut self.risky
        } else {
            &mut self.certain
        };
        *swaps = swaps.saturating_add(1);
    }

    /// Returns these and later ones.
    pub(super) const fn and(self, later: Self) -> Self {
        Self {
            risky: self.risky.saturating_add(later.risky),
            certain: self.certain.saturating_add(later.certain),
            is_tried: self.is_tried,
        }
    }

    /// Returns the most restarts that these may cause, besides those of what is being tried.
    pub(super) fn count(self) -> u32 {
        let reserve = OF_A_BROKEN_IMAGE - 1;
        let others = match (self.risky, self.is_tried) {
            (0, false) => self.certain,
            (_, false) => self.certain.max(reserve),
            (_, true) => self.certain.saturating_sub(reserve),
        };
        self.risky.saturating_add(others)
    }
}

/// Returns the most restarts that the swaps of one pod may cause: the `risky` ones to exit images
/// that may not start, and the `certain` others.
#[must_use]
pub fn most_restarts(risky: u32, certain: u32) -> u32 {
    let all = Restarts {
        risky,
        certain,
        is_tried: false,
    };
    all.count()
}

/// The exit images of a pod that may not start and that are being tried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    /// True if one of the unended sidecars waits for its own.
    pub(super) is_awaited: bool,
    /// Until when a node is given time that shows the end of a sidecar, and not yet what it has
    /// started instead.
    pub(super) until: Option<Moment>,
}

impl Trial {
    /// Returns what is being tried in these sidecars, and in those of the pod that are shown ended.
    pub(super) fn of(case: Case<'_>, unended: &[Unended<'_>]) -> Self {
        let (pod, memory, around) = (case.pod, case.memory, case.around);
        if memory.swaps.is_empty() || !starts_count(pod, memory, around.allowed) {
            return Self::default();
        }
        let is_risky = |sidecar: &Container| {
            may_not_start(pod, sidecar, memory, around.exit_images, around.allowed)
        };
        let ended = roles::sidecars(pod).filter(|sidecar| {
            sidecar.end().is_some()
                && memory.shows_exit_image(sidecar, around.exit_images)
                && is_risky(sidecar)
        });
        Self {
            is_awaited: unended
                .iter()
                .any(|(_, sidecar)| is_waited_for(case, sidecar) && is_risky(sidecar)),
            until: ended.filter_map(|sidecar| shown_until(case, sidecar)).min(),
        }
    }

    /// Returns true if the outcome of one is awaited.
    pub(super) const fn goes_on(self) -> bool {
        self.is_awaited || self.until.is_some()
    }
}

/// Returns until when a node is given time to start the exit image of a sidecar whose end it shows;
/// `None` if the exit image has ended it, or the time is over.
fn shown_until(case: Case<'_>, sidecar: &Container) -> Option<Moment> {
    if !has_ended_well(sidecar) {
        return returns_until(case, sidecar);
    }
    let record = case.memory.swap_of(&sidecar.name)?;
    let until = record.at + patience(case.pod);
    let is_old = !runs_exit_image(sidecar, record.before.as_ref());
    (is_old && until > case.around.now).then_some(until)
}

/// Returns true if the restarts of an exit image that does not start count. Where the phase cannot
/// be written nothing ends them, so reserving some would not save the Job: there the
/// administrator's word counts.
pub(super) fn starts_count(pod: &Pod, memory: &Memory, allowed: &AllowedMethods) -> bool {
    Ledger::counts(pod) && may_finish(pod, memory, allowed)
}

/// Returns true if a sidecar shows an exit image of which nobody can tell whether it starts, where
/// that counts.
fn may_not_start(
    pod: &Pod,
    sidecar: &Container,
    memory: &Memory,
    exit_images: &ExitImages,
    allowed: &AllowedMethods,
) -> bool {
    if !starts_count(pod, memory, allowed) {
        return false;
    }
    let record = memory.swap_of(&sidecar.name);
    match (record, preflight(pod, sidecar, exit_images)) {
        (Some(record), Preflight::Image { image, doubt, .. }) => {
            doubt.is_some() || !is_image(sidecar, record, image)
        }
        _ => true,
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
    let before = memory
        .swap_of(&sidecar.name)
        .and_then(|record| record.before.as_ref());
    let is_started = runs_exit_image(sidecar, before);
    if is_started && has_ended_well(sidecar) {
        return 0;
    }
    let all = if may_not_start(pod, sidecar, memory, exit_images, allowed) {
        OF_A_BROKEN_IMAGE
    } else {
        1
    };
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
