//! A pod that has ended before it is first seen.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::pod::Pod;

use super::Entry;

/// How long ago the pod may have ended: two terms of the Lease and more, so that the end of each pod
/// is seen by the leader before or by this one. Clocks of nodes may be as much ahead.
const JUST_NOW: SignedDuration = SignedDuration::from_secs(60);

impl Entry {
    /// Takes the exit images of a pod that has just ended for the swaps of a life before this one:
    /// its end is told as if it had been seen. Where that life has told it, the API server refuses
    /// the second Event, for the end of a pod has one name.
    pub(crate) fn find_ended(
        &mut self,
        exit_images: &ExitImages,
        started_at: Option<Timestamp>,
        now: Duration,
    ) {
        let today = started_at.and_then(|started_at| started_at.checked_add(now).ok());
        let age = ended_at(&self.pod).and_then(|ended| Some(today?.duration_since(ended)));
        if age.is_some_and(|age| age.abs() <= JUST_NOW) {
            self.memory.find_ended(&self.pod, exit_images, now);
            self.was_ended = !self.memory.swaps.is_empty();
        }
    }
}

/// When the last container has ended, as its node says.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let ends = pod
        .containers
        .iter()
        .filter_map(|container| container.end());
    let last = ends.filter_map(|end| end.finished_at).max();
    last.filter(|_| pod.phase.is_terminal())
}
