//! How long the effect of a swap may take.

use std::time::Duration;

use super::{EXIT_IMAGE_RUNS, words};
use crate::objects::pod::{Pod, roles};
use crate::report::reason::Reason;

/// What a node may take to react to a swap, besides the grace periods of the containers it stops
/// one after another.
const SWAP_VISIBLE: Duration = Duration::from_secs(60);
/// The grace period where the pod gives none (the API server's default).
const DEFAULT_GRACE_SECONDS: u32 = 30;

/// How long a node may show no effect of a swap.
#[must_use]
pub fn patience(pod: &Pod) -> Duration {
    graces(pod).saturating_add(SWAP_VISIBLE)
}

/// What the sidecars may take to stop: a kubelet stops swapped containers one after another, each
/// with its grace period (`docs/measured.md`, row 26), and so does OpenKruise's daemon.
pub(crate) fn graces(pod: &Pod) -> Duration {
    let grace = Duration::from_secs(pod.grace_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).into());
    let count = u32::try_from(roles::sidecars(pod).count()).unwrap_or(u32::MAX);
    grace.saturating_mul(count)
}

/// How long ago a swap had been made at least when it was told of for this reason; `None` where that
/// tells of none.
#[must_use]
pub fn age_when_told(pod: &Pod, reason: Reason) -> Option<Duration> {
    match reason {
        Reason::SwapPending => Some(words::SLOW),
        Reason::SwapWithoutEffect => Some(patience(pod)),
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
