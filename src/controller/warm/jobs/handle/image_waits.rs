//! The events of pods that wait for their images.

use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::image_waits::{ImageWaitWire, ImageWaits};

use crate::frame::isolated::read;
use crate::frame::watch::Event;
use crate::warm::jobs::PullJobs;

impl PullJobs {
    /// Records that the watch of pods that wait for their images has started or ended.
    pub fn watches_image_waits(&mut self, is_watched: bool, now: Moment) {
        self.image_waits = if is_watched {
            ImageWaits::begun(now)
        } else {
            ImageWaits::default()
        };
    }

    /// Records an event. Returns true if a job may have waited for it.
    pub(crate) fn see_image_wait(&mut self, event: Event<ImageWaitWire>, now: Moment) -> bool {
        let pod = |pod: ImageWaitWire| read("pod", || pod.read());
        let waits = &mut self.image_waits;
        let node = match event {
            Event::ListStart => {
                waits.list_starts();
                None
            }
            Event::Listed(wire) | Event::Applied(wire) => pod(wire).map(|pod| {
                let node = pod.node.clone();
                waits.observe(pod, now);
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
            Event::Current(_) | Event::Relists(_) => None,
        };
        let is_waited_for =
            |node: &str| self.jobs.all.values().any(|entry| entry.is_kept_back(node));
        node.is_some_and(|node| !self.image_waits.are_on(&node, now) && is_waited_for(&node))
    }
}
