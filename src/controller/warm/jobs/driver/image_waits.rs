//! The pods that wait for their images: they are looked for while there is a job that is not
//! completed, and no longer.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::warm::image_waits::{ImageWaitWire, ImageWaits};
use swaplet_core::warm::pod::RUN;
use tokio::sync::mpsc;

use super::PullJobs;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::isolated::defects::read;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};

/// Pods that are bound to a node and have not started.
const WAITING: &str = "status.phase=Pending,spec.nodeName!=";

/// The watch of these pods.
pub(crate) struct ImageWaitsWatch {
    apis: Vec<Api<ImageWaitWire>>,
    events: Option<mpsc::Receiver<Event<ImageWaitWire>>>,
}

impl ImageWaitsWatch {
    pub fn new(namespaces: &Namespaces, client: &Client) -> Self {
        Self {
            apis: namespaces.apis(client),
            events: None,
        }
    }

    /// Looks from now on, or no more; whether that is a change.
    pub fn follow(&mut self, wanted: bool) -> bool {
        let is_change = wanted != self.events.is_some();
        if is_change {
            self.events = wanted.then(|| self.begin());
        }
        is_change
    }

    /// Without it images are pulled all the same, so nobody has to know how old it is.
    fn begin(&self) -> mpsc::Receiver<Event<ImageWaitWire>> {
        let params = ListParams::default()
            .fields(WAITING)
            .labels(&format!("!{RUN}"));
        watch_all_kept(
            self.apis.clone(),
            &params,
            &WatchAges::default(),
            Unlisted::AreHidden,
            Clone::clone,
        )
    }

    /// While nobody looks nothing comes; `None` where the watch has died.
    pub async fn next(&mut self) -> Option<Event<ImageWaitWire>> {
        match &mut self.events {
            Some(events) => events.recv().await,
            None => std::future::pending().await,
        }
    }
}

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
