//! A watch of the pods that wait for their images. It runs while there is a job that is not
//! completed, and no longer.

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::warm::image_waits::ImageWaitWire;
use swaplet_core::warm::pod::RUN;
use tokio::sync::mpsc;

use crate::frame::connection::Namespaces;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};

/// The field selector of pods that are bound to a node and have not started.
const WAITING: &str = "status.phase=Pending,spec.nodeName!=";

/// The watch of pods that wait for their images.
pub(super) struct ImageWaitsWatch {
    apis: Vec<Api<ImageWaitWire>>,
    pub events: Option<mpsc::Receiver<Event<ImageWaitWire>>>,
}

impl ImageWaitsWatch {
    pub fn new(namespaces: &Namespaces, client: &Client) -> Self {
        Self {
            apis: namespaces.apis(client),
            events: None,
        }
    }

    /// Starts or ends the watch as wanted. Returns true if that is a change.
    pub fn follow(&mut self, wanted: bool) -> bool {
        let is_change = wanted != self.events.is_some();
        if is_change {
            self.events = wanted.then(|| self.begin());
        }
        is_change
    }

    /// Starts the watch. Images are pulled even without it, so its age is not recorded.
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
}
