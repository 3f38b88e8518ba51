//! Looks for OpenKruise's CloneSets, as soon as the API server knows them.

use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::predownload::workload::WorkloadKind;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::frame::connection::discovery::Discovery;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::watch::Event;
use crate::frame::watch::many::watch_all;

/// Events between this task and the loop.
const BUFFER: usize = 256;

/// Starts looking, in some namespaces or in all; until they are served there are none. The stream
/// ends only when the receiver is dropped, or a watch has died.
pub(crate) fn observe(
    discovery: Discovery,
    namespaces: Namespaces,
) -> mpsc::Receiver<Event<BoundedObject>> {
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move { look(&discovery, &namespaces, &events).await });
    receiver
}

/// Ends where nobody listens, or the watch has died.
async fn look(
    discovery: &Discovery,
    namespaces: &Namespaces,
    events: &mpsc::Sender<Event<BoundedObject>>,
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
