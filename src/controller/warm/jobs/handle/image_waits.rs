//! What is heard of pods that wait for their images.

use std::time::Duration;

use swaplet_core::warm::image_waits::{ImageWaitWire, ImageWaits};

use crate::frame::isolated::defects::read;
use crate::frame::watch::Event;
use crate::warm::jobs::PullJobs;

impl PullJobs {
    /// Somebody begins to look for pods that wait for their images, or has stopped.
    pub fn looks_for_image_waits(&mut self, looks: bool, now: Duration) {
        self.image_waits = if looks {
            ImageWaits::begun(now)
        } else {
            ImageWaits::default()
        };
    }

    /// Whether a job has waited for this.
    pub(crate) fn see_image_wait(&mut self, event: Event<ImageWaitWire>, now: Duration) -> bool {
        let pod = |pod: ImageWaitWire| read("pod", || pod.read());
        let waits = &mut self.image_waits;
        let node = match event {
            Event::ListStart => {
                waits.list_starts();
                None
            }
            Event::Listed(wire) | Event::Applied(wire) => pod(wire).map(|pod| {
                let node = pod.node.clone();
                waits.see(pod, now);
                node
            }),
            Event::Deleted(wire) => pod(wire).map(|pod| {
                waits.is_gone(&pod);
                pod.node
            }),
            Event::ListEnd => {
                waits.list_ends();
                return true;
            }
            Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {
                waits.cannot_be_seen();
                return true;
            }
            Event::Current(_) => None,
        };
        let is_waited_for =
            |node: &str| self.jobs.all.values().any(|entry| entry.is_kept_back(node));
        node.is_some_and(|node| !self.image_waits.are_on(&node, now) && is_waited_for(&node))
    }
}
