//! Watches of kinds of OpenKruise's API, for as long as the API server serves them.

use std::fmt::Debug;

use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::{BUFFER, Event};
use crate::frame::connection::discovery::{Discovery, Resources};

/// The condition under which a kind is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// The resource of the kind, in the plural.
    pub plural: &'static str,
    /// True if the kind is watched only where OpenKruise, whose kind it is, is not installed.
    pub is_ours_alone: bool,
}

impl Served {
    fn is_in(self, resources: &Resources) -> bool {
        resources.serve(self.plural) && !(self.is_ours_alone && resources.are_openkruises())
    }
}

/// Starts the watches of `open` whenever the kind is served, and reports an empty list when it is
/// not served any more. The stream ends only if the receiver is dropped, or a watch has died.
pub(crate) fn watch_served<K>(
    discovery: Discovery,
    served: Served,
    open: impl Fn(&Discovery) -> mpsc::Receiver<Event<K>> + Send + 'static,
) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = installed(&discovery, served) => {}
                () = events.closed() => return,
            }
            let watches = open(&discovery);
            if follow(&discovery, served, watches, &events).await.is_none() {
                return;
            }
        }
    });
    receiver
}

/// Returns when the API server serves the kind.
async fn installed(discovery: &Discovery, served: Served) {
    let plural = served.plural;
    loop {
        match discovery.resources().await {
            Ok(resources) if served.is_in(&resources) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(
                    error,
                    "cannot check whether {plural} are installed; trying again"
                );
            }
        }
        sleep_until(discovery.next_round()).await;
    }
}

/// Passes events on until the kind is not served any more. Returns `None` if the receiver was
/// dropped, or the watch has died.
async fn follow<K>(
    discovery: &Discovery,
    served: Served,
    mut watches: mpsc::Receiver<Event<K>>,
    listener: &mpsc::Sender<Event<K>>,
) -> Option<()> {
    loop {
        let event = tokio::select! {
            event = watches.recv() => Some(event?),
            () = sleep_until(discovery.next_round()), if served.is_ours_alone => None,
            () = listener.closed() => return None,
        };
        let resources = match &event {
            None => discovery.resources().await,
            Some(Event::Trouble(_)) => discovery.resources_now().await,
            Some(_) => Err(String::new()),
        };
        if resources.is_ok_and(|resources| !served.is_in(&resources)) {
            // An empty list: all of them are gone.
            let now = Instant::now();
            for event in [Event::ListStart, Event::ListEnd, Event::Current(now)] {
                listener.send(event).await.ok()?;
            }
            return Some(());
        }
        if let Some(event) = event {
            listener.send(event).await.ok()?;
        }
    }
}
