//! The restarts that changes of images have still to cause.

use crate::restart::pod::RestartPod;
use crate::restart::request::{Mark, Parking, RestartRequest};

/// Returns how many restarts the changes that were made for a request have still to cause in its
/// pod. A restart that was given up may still come, so only what the pod shows counts.
#[must_use]
pub fn restarts_coming(request: &RestartRequest, pod: &RestartPod) -> u32 {
    coming(request, pod, |_| false)
}

/// Like [`restarts_coming`], without the restarts of the containers that are `left_out`.
pub(crate) fn coming(
    request: &RestartRequest,
    pod: &RestartPod,
    left_out: impl Fn(&str) -> bool,
) -> u32 {
    let marks = request.journal.iter().flat_map(|journal| &journal.0);
    let others = marks.filter(|(name, _)| !left_out(name));
    others
        .map(|(name, mark)| of_container(pod, name, mark))
        .sum()
}

fn of_container(pod: &RestartPod, name: &str, mark: &Mark) -> u32 {
    let found = mark.intent.as_ref().zip(pod.find(name));
    let Some((intent, (_, container, _))) = found else {
        return 0;
    };
    let has_before = container.image == intent.from;
    let status = container.status.as_ref();
    let is_restarted = status.is_some_and(|status| mark.shows_another(status));
    match intent.parking {
        // The change was not made, or was undone.
        None if has_before && intent.back.is_none() => 0,
        None => u32::from(!is_restarted),
        Some(Parking::Out) if has_before => 0,
        Some(Parking::Out) => 1 + u32::from(!is_restarted),
        Some(Parking::Back) => u32::from(!has_before || !is_restarted),
    }
}
