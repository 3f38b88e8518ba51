//! A watch of jobs of one kind, while the API server serves them and OpenKruise does not process
//! them.
//!
//! OpenKruise's manager processes every `ImagePullJob`, even for nodes without its daemon, and
//! writes the status. Two controllers would overwrite each other, so while it processes jobs they
//! are left to it. Its CRDs are recognised by `NodeImage`s, which swaplet never installs. They may
//! exist without the manager, or with one that does not process such jobs.

use std::sync::Arc;

use kube::api::ListParams;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::terminate::openkruise::{Coexist, Signals, leaves_pull_jobs};
use swaplet_core::warm::pull_job::object::JobKind;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::cluster::openkruise::Manager;
use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::{BUFFER, Event};

/// The plural of the resource by which OpenKruise is recognised.
const NODE_IMAGES: &str = "nodeimages";

/// Starts the watch, in some namespaces or in all, and records the ages of its watches. While the
/// jobs are not ours, the list is empty. The stream ends only when the receiver is dropped, or a
/// watch has died.
pub fn observe(
    discovery: Discovery,
    (kind, coexist, manager): (JobKind, Coexist, SharedManager),
    namespaces: Namespaces,
    ages: WatchAges,
) -> mpsc::Receiver<Event<BoundedObject>> {
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move {
        let observer = Observer {
            discovery,
            kind,
            coexist,
            manager,
            namespaces,
            ages,
            events,
        };
        while observer.observe().await.is_some() {}
    });
    receiver
}

/// The answer to whether swaplet processes the jobs of a kind.
#[derive(PartialEq)]
enum Ours {
    Yes,
    NotServed,
    /// Left to OpenKruise, for this reason.
    OpenKruises(&'static str),
}

/// The signals of OpenKruise's manager, read once in each round for both kinds.
#[derive(Clone)]
pub struct SharedManager(Arc<Mutex<Shown>>);

struct Shown {
    manager: Manager,
    /// The end of the round in which the signals were read, and the signals.
    last: Option<(Instant, Option<Signals>)>,
}

impl SharedManager {
    pub fn new(discovery: &Discovery) -> Self {
        Self(Arc::new(Mutex::new(Shown {
            manager: Manager::new(discovery),
            last: None,
        })))
    }

    /// Returns the signals; `None` if only another read can tell whether the manager is alive.
    async fn signals(&self, round: Instant) -> Result<Option<Signals>, String> {
        let mut shown = self.0.lock().await;
        if let Some((_, signals)) = shown.last.as_ref().filter(|(of, _)| *of == round) {
            return Ok(signals.clone());
        }
        let signals = shown.manager.signals_of_its_crds().await?;
        shown.last = Some((round, signals.clone()));
        Ok(signals)
    }
}

struct Observer {
    discovery: Discovery,
    kind: JobKind,
    coexist: Coexist,
    manager: SharedManager,
    namespaces: Namespaces,
    ages: WatchAges,
    events: mpsc::Sender<Event<BoundedObject>>,
}

impl Observer {
    /// Observes until the answer changes; `None` if the receiver is dropped, or the watch has died.
    async fn observe(&self) -> Option<()> {
        match self.ours().await {
            Ok(Ours::Yes) => return self.follow().await,
            Ok(Ours::NotServed) => {
                tracing::debug!(kind = self.kind.as_str(), "the kind is not served yet")
            }
            Ok(Ours::OpenKruises(why)) => {
                tracing::warn!(
                    kind = self.kind.as_str(),
                    why,
                    "OpenKruise is installed; these jobs are left to it"
                )
            }
            Err(error) => {
                tracing::warn!(
                    kind = self.kind.as_str(),
                    error,
                    "cannot check whether jobs are served; trying again"
                );
                sleep_until(self.discovery.next_round()).await;
                return Some(());
            }
        }
        self.none().await?;
        while matches!(
            self.ours().await,
            Err(_) | Ok(Ours::NotServed | Ours::OpenKruises(_))
        ) {
            tokio::select! {
                () = sleep_until(self.discovery.next_round()) => {}
                () = self.events.closed() => return None,
            }
        }
        Some(())
    }

    async fn ours(&self) -> Result<Ours, String> {
        let resources = self.discovery.resources().await?;
        if self.coexist == Coexist::Own && !resources.lack(self.kind.plural()) {
            return Ok(Ours::Yes);
        }
        if !resources.serve_if_known(self.kind.plural())? {
            return Ok(Ours::NotServed);
        }
        // If swaplet processes every job, OpenKruise's manager does not matter.
        if !resources.serve(NODE_IMAGES) || self.coexist == Coexist::Own {
            return Ok(Ours::Yes);
        }
        let signals = self.manager.signals(self.discovery.next_round()).await?;
        let Some(signals) = signals else {
            return Ok(Ours::OpenKruises(
                "it is being checked whether its manager runs",
            ));
        };
        Ok(leaves_pull_jobs(self.coexist, &signals).map_or(Ours::Yes, Ours::OpenKruises))
    }

    /// Sends an empty list, because no job is ours.
    async fn none(&self) -> Option<()> {
        self.events.send(Event::ListStart).await.ok()?;
        self.events.send(Event::ListEnd).await.ok()
    }

    /// Forwards events until the jobs are no longer ours.
    async fn follow(&self) -> Option<()> {
        let (client, resource) = (self.discovery.client(), self.kind.resource());
        let apis = self.namespaces.dynamic_apis(client, &resource);
        let mut events = watch_all(apis, &ListParams::default(), &self.ages);
        let mut ask = self.discovery.next_round();
        loop {
            tokio::select! {
                event = events.recv() => self.events.send(event?).await.ok()?,
                () = sleep_until(ask) => {
                    ask = self.discovery.next_round();
                    if self.ours().await.is_ok_and(|ours| ours != Ours::Yes) {
                        return Some(());
                    }
                }
            }
        }
    }
}
