//! The time that the effect of a swap may take.

use std::time::Duration;

use super::{EXIT_IMAGE_RUNS, words};
use crate::objects::pod::{Pod, roles};
use crate::report::reason::Reason;

/// How long a node may take to react to a swap, besides the grace periods of the containers it
/// stops one after another.
const SWAP_VISIBLE: Duration = Duration::from_secs(60);
/// The grace period if the pod sets none (the API server's default).
const DEFAULT_GRACE_SECONDS: u32 = 30;

/// Returns how long a node may show no effect of a swap.
#[must_use]
pub fn patience(pod: &Pod) -> Duration {
    graces(pod).saturating_add(SWAP_VISIBLE)
}

/// Returns how long one container may take to stop.
pub(crate) fn grace(pod: &Pod) -> Duration {
    Duration::from_secs(pod.grace_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).into())
}

/// Returns how long the sidecars may take to stop: a kubelet, like OpenKruise's daemon, stops
/// swapped containers one by one, each with its grace period (`docs/measured.md`, row 26).
pub(crate) fn graces(pod: &Pod) -> Duration {
    let count = u32::try_from(roles::sidecars(pod).count()).unwrap_or(u32::MAX);
    grace(pod).saturating_mul(count)
}

/// Returns the minimal age of a swap when this reason is reported; `None` if the reason is not
/// about a swap.
#[must_use]
pub fn age_when_told(pod: &Pod, reason: Reason) -> Option<Duration> {
    match reason {
        Reason::SwapPending => Some(words::SLOW),
        Reason::SwapWithoutEffect => Some(patience(pod)),
        // It counts from the start of the exit image, which comes after the swap.
        Reason::ExitImageRuns => Some(EXIT_IMAGE_RUNS),
        Reason::SidecarSwapped
        | Reason::ExitImageNotPulled
        | Reason::ExitImageNotStarted
        | Reason::SwapRejected
        | Reason::SidecarEnded
        | Reason::PodFailedAfterSwap
        | Reason::PodFailedAfterFinish => Some(Duration::ZERO),
        _ => None,
    }
}
