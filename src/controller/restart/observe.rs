//! Watches requests, once the API server serves them.

use kube::Client;
use kube::api::ListParams;
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::restart::parked::PARKED;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::request::RestartRequestWire;
use tokio::sync::mpsc;

use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::served::{Served, watch_served};

/// Starts the watch, in some namespaces or in all; `ages` records the ages of the watches. With
/// `reports_absence` an empty list also shows that the kind is not served from the start. The stream
/// ends only when the receiver is dropped, or a watch has died.
pub fn observe(
    discovery: Discovery,
    namespaces: Namespaces,
    ages: WatchAges,
    reports_absence: bool,
) -> mpsc::Receiver<Event<RestartRequestWire>> {
    let served = Served {
        plural: PLURAL,
        is_ours_alone: false,
        reports_absence,
    };
    watch_served(discovery, served, move |discovery| {
        watch_all(
            namespaces.apis(discovery.client()),
            &ListParams::default(),
            &ages,
        )
    })
}

/// Watches pods in which containers are parked.
pub fn observe_parked(
    client: &Client,
    namespaces: &Namespaces,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<RestartPodWire>> {
    watch_all(
        namespaces.apis(client),
        &ListParams::default().labels(PARKED),
        ages,
    )
}
