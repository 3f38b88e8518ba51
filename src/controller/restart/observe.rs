//! Looks for requests, wherever the API server knows them.

use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::controller::namespaces::Namespaces;
use crate::controller::openkruise::observe::serves_requests;
use crate::controller::watch::Event;
use crate::controller::watch_many::{watch_all, watch_all_selected};
use crate::objects::parked::PARKED;
use crate::objects::restart_pod::RestartPodWire;
use crate::objects::restart_request::RestartRequestWire;

/// How often is asked where the CRD is not installed: whoever has just installed it does not want to wait for long.
const NOT_INSTALLED: Duration = Duration::from_secs(30);
/// Events between this task and the loop.
const BUFFER: usize = 256;

/// Starts looking, in some namespaces or in all. The stream ends only when the receiver is dropped, or a watch has died.
#[must_use]
pub fn observe(client: Client, namespaces: Namespaces) -> mpsc::Receiver<Event<RestartRequestWire>> {
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = installed(&client) => {}
                () = events.closed() => return,
            }
            if follow(&client, &namespaces, &events).await.is_none() {
                return;
            }
        }
    });
    receiver
}

/// Looks for pods in which containers are parked.
#[must_use]
pub fn observe_parked(client: &Client, namespaces: &Namespaces) -> mpsc::Receiver<Event<RestartPodWire>> {
    watch_all_selected(namespaces.apis(client), &ListParams::default().labels(PARKED))
}

/// Comes back when the API server knows requests.
async fn installed(client: &Client) {
    loop {
        match serves_requests(client).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::warn!(error, "cannot ask whether ContainerRecreateRequests are installed; trying again"),
        }
        sleep(NOT_INSTALLED).await;
    }
}

/// Passes events on until requests are not known any more; `None` where nobody listens, or the watch has died.
async fn follow(client: &Client, namespaces: &Namespaces, listener: &mpsc::Sender<Event<RestartRequestWire>>) -> Option<()> {
    let mut events = watch_all(namespaces.apis(client), "");
    loop {
        let event = events.recv().await?;
        if matches!(event, Event::Trouble(_)) && serves_requests(client).await == Ok(false) {
            // An empty list: all of them are gone.
            for event in [Event::ListStart, Event::ListEnd, Event::Current(Instant::now())] {
                listener.send(event).await.ok()?;
            }
            return Some(());
        }
        listener.send(event).await.ok()?;
    }
}
