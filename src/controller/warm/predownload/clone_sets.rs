//! A watch of OpenKruise's CloneSets, while the API server serves them.

use kube::api::ListParams;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::predownload::workload::{WorkloadKind, WorkloadWire};
use tokio::sync::mpsc;

use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::served::{Served, watch_served};

/// Starts the watch, in some namespaces or in all; until CloneSets are served no event comes. The
/// stream ends only when the receiver is dropped, or a watch has died.
pub(crate) fn observe(
    discovery: Discovery,
    namespaces: Namespaces,
) -> mpsc::Receiver<Event<WorkloadWire<BoundedObject>>> {
    let served = Served {
        plural: "clonesets",
        is_ours_alone: false,
        reports_absence: false,
    };
    watch_served(discovery, served, move |discovery| {
        let sets = namespaces.dynamic_apis(discovery.client(), &WorkloadKind::clone_sets());
        watch_all(sets, &ListParams::default(), &WatchAges::default())
    })
}
