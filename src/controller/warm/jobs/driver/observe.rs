//! Looks for jobs of one kind, wherever the API server knows them and OpenKruise does not do them.
//!
//! OpenKruise's manager takes up each `ImagePullJob` there is, also those of nodes without its
//! daemon, and writes their status. Two that do so would write over each other, so while it does
//! them they are its own. Its CRDs are known by `NodeImage`s, which swaplet never installs; they
//! may be there without the manager, or with one that does no such jobs.

use std::sync::Arc;

use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::terminate::openkruise::{Coexist, Signals, leaves_pull_jobs};
use swaplet_core::warm::pull_job::object::JobKind;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::cluster::openkruise::manager::Manager;
use crate::frame::connection::discovery::Discovery;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all_noted;

/// The resource by which OpenKruise is known.
const NODE_IMAGES: &str = "nodeimages";
/// Events between this task and the loop.
const BUFFER: usize = 256;

/// Starts looking, in some namespaces or in all; the ages of the watches are noted. Where there is
/// nothing to be done the list is empty. The stream ends only when the receiver is dropped, or a
/// watch has died.
#[must_use]
pub fn observe(
    discovery: Discovery,
    (kind, coexist, manager): (JobKind, Coexist, SharedLook),
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
        while observer.look().await.is_some() {}
    });
    receiver
}

/// Who does the jobs of a kind.
#[derive(PartialEq)]
enum Ours {
    Yes,
    NotServed,
    /// Why they are left.
    OpenKruises(&'static str),
}

/// What OpenKruise's manager shows, which is looked for once in each round for both kinds.
#[derive(Clone)]
pub struct SharedLook(Arc<Mutex<Shown>>);

struct Shown {
    manager: Manager,
    /// The end of the round in which it was looked for, and what was seen.
    last: Option<(Instant, Option<Signals>)>,
}

impl SharedLook {
    pub fn new(discovery: &Discovery) -> Self {
        Self(Arc::new(Mutex::new(Shown {
            manager: Manager::new(discovery),
            last: None,
        })))
    }

    /// Nothing where another look has to tell.
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
    manager: SharedLook,
    namespaces: Namespaces,
    ages: WatchAges,
    events: mpsc::Sender<Event<BoundedObject>>,
}

impl Observer {
    /// `None` where nobody listens, or the watch has died.
    async fn look(&self) -> Option<()> {
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
                    "cannot ask whether jobs are served; trying again"
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
        if !resources.serve(self.kind.plural()) {
            return Ok(Ours::NotServed);
        }
        // Who takes every job need not look for anybody.
        if !resources.serve(NODE_IMAGES) || self.coexist == Coexist::Own {
            return Ok(Ours::Yes);
        }
        let signals = self.manager.signals(self.discovery.next_round()).await?;
        let Some(signals) = signals else {
            return Ok(Ours::OpenKruises(
                "it is being looked whether its manager lives",
            ));
        };
        Ok(leaves_pull_jobs(self.coexist, &signals).map_or(Ours::Yes, Ours::OpenKruises))
    }

    /// An empty list: there is no job that concerns us.
    async fn none(&self) -> Option<()> {
        self.events.send(Event::ListStart).await.ok()?;
        self.events.send(Event::ListEnd).await.ok()
    }

    /// Passes events on until the jobs are not ours any more.
    async fn follow(&self) -> Option<()> {
        let mut events = watch_all_noted(
            self.namespaces
                .dynamic_apis(self.discovery.client(), &self.kind.resource()),
            "",
            &self.ages,
        );
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
