//! Pods that ended before they were first observed.

use jiff::{SignedDuration, Timestamp};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;

use super::Entry;

/// The maximum age of the end: more than two terms of the Lease, so that either this leader or the
/// one before observes the end of each pod. Node clocks may be ahead by as much.
const JUST_NOW: SignedDuration = SignedDuration::from_secs(60);

impl Entry {
    /// Takes the exit images of a pod that has just ended for swaps of an earlier run of the
    /// process: its end is reported as if observed. If that run reported it, the API server refuses
    /// the second Event, because the end of a pod has one name.
    pub(crate) fn find_ended(
        &mut self,
        exit_images: &ExitImages,
        started_at: Option<Timestamp>,
        now: Moment,
    ) {
        let today =
            started_at.and_then(|started_at| started_at.checked_add(now.since_start()).ok());
        let age = ended_at(&self.pod).and_then(|ended| Some(today?.duration_since(ended)));
        if age.is_some_and(|age| age.abs() <= JUST_NOW) {
            self.memory.find_ended(&self.pod, exit_images, now);
            self.was_ended = !self.memory.swaps.is_empty();
        }
    }
}

/// Returns when the last container of a finished pod ended, according to its node.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let ends = pod
        .containers
        .iter()
        .filter_map(|container| container.end());
    let last = ends.filter_map(|end| end.finished_at).max();
    last.filter(|_| pod.phase.is_terminal())
}
