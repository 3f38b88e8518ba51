//! Looks for OpenKruise's CloneSets, as soon as the API server knows them.

use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::controller::namespaces::Namespaces;
use crate::controller::openkruise::observe::serves;
use crate::controller::watch::Event;
use crate::controller::watch_many::watch_all;
use crate::objects::workload::WorkloadKind;

/// How often is asked whether they are served.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// Events between this task and the loop.
const BUFFER: usize = 256;

/// Starts looking, in some namespaces or in all; until they are served there are none. The stream ends only when the receiver is dropped, or a
/// watch has died.
pub(super) fn observe(client: Client, namespaces: Namespaces) -> mpsc::Receiver<Event<DynamicObject>> {
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move { look(&client, &namespaces, &events).await });
    receiver
}

/// Ends where nobody listens, or the watch has died.
async fn look(client: &Client, namespaces: &Namespaces, events: &mpsc::Sender<Event<DynamicObject>>) -> Option<()> {
    let resource = WorkloadKind::clone_sets();
    while !matches!(serves(client, &resource.plural).await, Ok(true)) {
        tokio::select! {
            () = sleep(ASK_AGAIN) => {}
            () = events.closed() => return None,
        }
    }
    let mut sets = watch_all(namespaces.dynamic_apis(client, &resource), "");
    loop {
        events.send(sets.recv().await?).await.ok()?;
    }
}
