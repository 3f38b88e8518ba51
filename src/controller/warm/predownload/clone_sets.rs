//! A watch of OpenKruise's CloneSets that begins as soon as the API server serves them.

use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::predownload::workload::{WorkloadKind, WorkloadWire};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::watch::Event;
use crate::frame::watch::many::watch_all;

/// The number of events buffered between this task and the loop.
const BUFFER: usize = 256;

/// Starts the watch, in some namespaces or in all; until CloneSets are served no event comes. The
/// stream ends only when the receiver is dropped, or a watch has died.
pub(crate) fn observe(
    discovery: Discovery,
    namespaces: Namespaces,
) -> mpsc::Receiver<Event<WorkloadWire<BoundedObject>>> {
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move { follow(&discovery, &namespaces, &events).await });
    receiver
}

/// Watches; returns `None` when the receiver is dropped, or the watch has died.
async fn follow(
    discovery: &Discovery,
    namespaces: &Namespaces,
    events: &mpsc::Sender<Event<WorkloadWire<BoundedObject>>>,
) -> Option<()> {
    let resource = WorkloadKind::clone_sets();
    while !discovery
        .resources()
        .await
        .is_ok_and(|resources| resources.serve(&resource.plural))
    {
        tokio::select! {
            () = sleep_until(discovery.next_round()) => {}
            () = events.closed() => return None,
        }
    }
    let mut sets = watch_all(namespaces.dynamic_apis(discovery.client(), &resource), "");
    loop {
        events.send(sets.recv().await?).await.ok()?;
    }
}
