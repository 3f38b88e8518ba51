//! Looks for jobs of one kind, wherever the API server knows them and OpenKruise is not installed.
//!
//! OpenKruise's manager takes up each `ImagePullJob` there is, also those of nodes without its daemon, and writes their status. Two that
//! do so would write over each other, so where it is installed the jobs are its own. It is known by its `NodeImage`s, which swaplet
//! never installs.

use kube::api::DynamicObject;
use swaplet_core::warm::pull_job::object::JobKind;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::frame::connection::discovery::Discovery;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all_noted;

/// The resource by which OpenKruise is known.
const NODE_IMAGES: &str = "nodeimages";
/// Events between this task and the loop.
const BUFFER: usize = 256;

/// Starts looking, in some namespaces or in all; the ages of the watches are noted. Where there is nothing to be done the list is empty.
/// The stream ends only when the receiver is dropped, or a watch has died.
#[must_use]
pub fn observe(discovery: Discovery, kind: JobKind, namespaces: Namespaces, ages: WatchAges) -> mpsc::Receiver<Event<DynamicObject>> {
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move {
        let observer = Observer { discovery, kind, namespaces, ages, events };
        while observer.look().await.is_some() {}
    });
    receiver
}

/// Who does the jobs of a kind.
#[derive(PartialEq)]
enum Ours {
    Yes,
    NotServed,
    OpenKruises,
}

struct Observer {
    discovery: Discovery,
    kind: JobKind,
    namespaces: Namespaces,
    ages: WatchAges,
    events: mpsc::Sender<Event<DynamicObject>>,
}

impl Observer {
    /// `None` where nobody listens, or the watch has died.
    async fn look(&self) -> Option<()> {
        match self.ours().await {
            Ok(Ours::Yes) => return self.follow().await,
            Ok(Ours::NotServed) => tracing::debug!(kind = self.kind.as_str(), "the kind is not served yet"),
            Ok(Ours::OpenKruises) => tracing::warn!(kind = self.kind.as_str(), "OpenKruise is installed; these jobs are left to it"),
            Err(error) => {
                tracing::warn!(kind = self.kind.as_str(), error, "cannot ask whether jobs are served; trying again");
                sleep_until(self.discovery.next_round()).await;
                return Some(());
            }
        }
        self.none().await?;
        while matches!(self.ours().await, Err(_) | Ok(Ours::NotServed | Ours::OpenKruises)) {
            tokio::select! {
                () = sleep_until(self.discovery.next_round()) => {}
                () = self.events.closed() => return None,
            }
        }
        Some(())
    }

    async fn ours(&self) -> Result<Ours, String> {
        let resources = self.discovery.resources().await?;
        Ok(match resources.serve(self.kind.plural()) {
            _ if resources.serve(NODE_IMAGES) => Ours::OpenKruises,
            true => Ours::Yes,
            false => Ours::NotServed,
        })
    }

    /// An empty list: there is no job that concerns us.
    async fn none(&self) -> Option<()> {
        self.events.send(Event::ListStart).await.ok()?;
        self.events.send(Event::ListEnd).await.ok()
    }

    /// Passes events on until the jobs are not ours any more.
    async fn follow(&self) -> Option<()> {
        let mut events = watch_all_noted(self.namespaces.dynamic_apis(self.discovery.client(), &self.kind.resource()), "", &self.ages);
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
