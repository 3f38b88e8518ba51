//! Looks for requests, wherever the API server knows them.

use kube::Client;
use kube::api::ListParams;
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::restart::parked::PARKED;
use swaplet_core::restart::pod::RestartPodWire;
use swaplet_core::restart::request::RestartRequestWire;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::frame::connection::discovery::Discovery;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{watch_all_noted, watch_all_selected};

/// Events between this task and the loop.
const BUFFER: usize = 256;

/// Starts looking, in some namespaces or in all; the ages of the watches are noted. The stream ends
/// only when the receiver is dropped, or a watch has died.
#[must_use]
pub fn observe(
    discovery: Discovery,
    namespaces: Namespaces,
    ages: WatchAges,
) -> mpsc::Receiver<Event<RestartRequestWire>> {
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = installed(&discovery) => {}
                () = events.closed() => return,
            }
            if follow(&discovery, &namespaces, &ages, &events)
                .await
                .is_none()
            {
                return;
            }
        }
    });
    receiver
}

/// Looks for pods in which containers are parked.
#[must_use]
pub fn observe_parked(
    client: &Client,
    namespaces: &Namespaces,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<RestartPodWire>> {
    watch_all_selected(
        namespaces.apis(client),
        &ListParams::default().labels(PARKED),
        ages,
    )
}

/// Comes back when the API server knows requests.
async fn installed(discovery: &Discovery) {
    loop {
        match discovery.resources().await {
            Ok(resources) if resources.serve(PLURAL) => return,
            Ok(_) => {}
            Err(error) => tracing::warn!(
                error,
                "cannot ask whether ContainerRecreateRequests are installed; trying again"
            ),
        }
        sleep_until(discovery.next_round()).await;
    }
}

/// Passes events on until requests are not known any more; `None` where nobody listens, or the
/// watch has died.
async fn follow(
    discovery: &Discovery,
    namespaces: &Namespaces,
    ages: &WatchAges,
    listener: &mpsc::Sender<Event<RestartRequestWire>>,
) -> Option<()> {
    let mut events = watch_all_noted(namespaces.apis(discovery.client()), "", ages);
    loop {
        let event = events.recv().await?;
        if matches!(event, Event::Trouble(_))
            && discovery
                .resources_now()
                .await
                .is_ok_and(|resources| !resources.serve(PLURAL))
        {
            // An empty list: all of them are gone.
            for event in [
                Event::ListStart,
                Event::ListEnd,
                Event::Current(Instant::now()),
            ] {
                listener.send(event).await.ok()?;
            }
            return Some(());
        }
        listener.send(event).await.ok()?;
    }
}
