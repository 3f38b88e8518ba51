//! List and watch: a stream of the objects that exist, which survives any failure of the
//! connection.
//!
//! It is built on the client's `list` and `watch`, not on kube's `watcher`, for four things that
//! the watcher does not do: it lists again after a 410 that comes as HTTP status; it paces
//! connections that end as soon as they are opened; it never holds a second copy of the list; and
//! it lists again when the server keeps refusing the version it watches from, or has gone back
//! behind it (after a restore of etcd).

pub mod age;
mod answers;
mod event;
pub mod many;
pub(crate) mod mirror;
pub(crate) mod named;
mod paged;
pub(crate) mod served;
pub(crate) mod share;
mod streamed;

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use swaplet_core::objects::values::backoff::Backoff;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use self::age::{WatchAge, WatchAges};
use self::answers::{advance, asked_for, is_before, trouble};
pub use self::event::Event;
use self::streamed::Streamed;
use super::list::pages::{PageSize, present_version};

/// The time for which the server keeps a watch open. With [`WATCH_MARGIN`] it bounds how long a
/// dead connection can hide events, which must stay under 60 s.
const WATCH_SECONDS: u32 = 45;
/// The time that a server may take beyond its own timeout to end a watch.
const WATCH_MARGIN: Duration = Duration::from_secs(10);
/// The longest silence of a watch: one that is silent for longer is not served, whoever keeps it open.
const SILENT: Duration = Duration::from_secs(WATCH_SECONDS as u64).saturating_add(WATCH_MARGIN);
/// The deadline for the headers of a watch.
const ANSWER: Duration = Duration::from_secs(30);
/// A watch that lived longer than this was healthy: the next one starts without a pause.
pub(crate) const HEALTHY: Duration = Duration::from_secs(5);
/// The backoff after failures: the pause doubles from the first to the longest.
pub(crate) const PAUSE: Backoff = Backoff {
    first: Duration::from_millis(250),
    longest: Duration::from_secs(15),
};
/// The longest pause that a busy server is granted, because nothing is observed meanwhile.
const LONGEST_ASKED: Duration = Duration::from_secs(30);
/// The pause before a request that the API server has rejected (400) is sent once more: the first
/// answer may be an accident.
const ASK_ONCE_MORE: Duration = Duration::from_secs(10);
/// The pause after two rejections in a row: the same request is never accepted.
const NO_QUESTION: Duration = Duration::from_secs(300);
/// The failures in a row to watch from a version, after which the objects are listed again.
const FAILURES_UNTIL_LIST: u32 = 4;
/// The least time between two lists while no watch can be opened: then the lists are all that is
/// observed.
const LIST_INSTEAD: Duration = Duration::from_secs(30);
/// The most events between the watch and the loop: a moment of work, so that a burst waits in the
/// connection, not in memory.
pub(crate) const BUFFER: usize = 256;

/// Starts a watch. The stream ends only if the receiver is dropped.
pub fn watch<K>(api: Api<K>, field_selector: &'static str) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_selected(api, ListParams::default().fields(field_selector))
}

/// Like [`watch`], restricted to the objects that the selectors of `params` match.
pub fn watch_selected<K>(api: Api<K>, params: ListParams) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_noted(api, params, &WatchAges::default())
}

/// Like [`watch_selected`], with its age recorded in `ages`.
pub fn watch_noted<K>(api: Api<K>, params: ListParams, ages: &WatchAges) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    begin(api, params, ages, How::Paged)
}

/// Like [`watch_noted`], for objects of which there may be very many: where the server can stream a
/// list, no page of it is held in memory.
pub(crate) fn watch_streamed<K>(
    api: Api<K>,
    params: ListParams,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    begin(api, params, ages, How::Streamed)
}

/// Like [`watch_noted`], for selectors that somebody else has chosen. The API server may reject
/// them (400), or they may be too long for a URL, which is no failure of the watch:
/// [`Event::Hidden`] reports it from the second time on, and the request is repeated seldom.
pub fn watch_chosen<K>(
    api: Api<K>,
    params: ListParams,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    begin(api, params, ages, How::Chosen)
}

/// The way in which the objects are listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Paged,
    /// In pages, with selectors that somebody else has chosen.
    Chosen,
    Streamed,
}

fn begin<K>(api: Api<K>, params: ListParams, ages: &WatchAges, how: How) -> mpsc::Receiver<Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (events, receiver) = mpsc::channel(BUFFER);
    let age = ages.begin(api.resource_url().rsplit('/').next().unwrap_or_default());
    tokio::spawn(
        Watch {
            api,
            params,
            page_size: PageSize::default(),
            events,
            failures: 0,
            age,
            is_chosen: how == How::Chosen,
            is_streamed: how == How::Streamed,
            is_refused: false,
            is_unwatched: false,
            listed_at: None,
        }
        .run(),
    );
    receiver
}

struct Watch<K> {
    api: Api<K>,
    params: ListParams,
    page_size: PageSize,
    events: mpsc::Sender<Event<K>>,
    failures: u32,
    age: WatchAge,
    /// True if somebody else has chosen the selectors.
    is_chosen: bool,
    /// True if lists are requested as streams.
    is_streamed: bool,
    /// True if the last request was rejected whoever sends it.
    is_refused: bool,
    /// True if the last watch could not be opened, or stayed silent: until one does neither, lists
    /// are read in pages.
    is_unwatched: bool,
    /// The end of the last complete list.
    listed_at: Option<Instant>,
}

/// The error that the receiver was dropped.
struct Closed;

/// The step after a watch.
enum Next {
    /// Watch again from this version.
    WatchFrom(String),
    /// Watch again from this version, to which events of a watch have led that has ended.
    Heard(String),
    /// Watch again from this version, if the server has reached it: no event came since.
    Unheard(String),
    /// List again, because the version is too old or not trusted any more.
    List,
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watch<K> {
    /// Runs until the receiver is dropped, and then closes the connection at once: a watch may be
    /// silent for as long as it lives.
    async fn run(mut self) {
        let listener = self.events.clone();
        tokio::select! {
            () = listener.closed() => {}
            () = async { while self.list_and_watch().await.is_ok() {} } => {}
        }
    }

    async fn list_and_watch(&mut self) -> Result<(), Closed> {
        let Some(mut version) = self.list().await? else {
            return Ok(());
        };
        self.listed_at = Some(Instant::now());
        loop {
            match self.watch_from(version).await? {
                Next::WatchFrom(next) | Next::Heard(next) | Next::Unheard(next) => version = next,
                Next::List => return Ok(()),
            }
        }
    }

    /// Returns the version of the complete list, or `None` if the list failed.
    async fn list(&mut self) -> Result<Option<String>, Closed> {
        self.send(Event::ListStart).await?;
        if self.is_streamed && !self.is_unwatched {
            match self.stream().await? {
                Streamed::Whole(version) => {
                    self.send(Event::ListEnd).await?;
                    return Ok(Some(version));
                }
                Streamed::NotServed => {}
                Streamed::BrokenOff => self.send(Event::ListStart).await?,
            }
        }
        self.pages().await
    }

    async fn list_failed(
        &mut self,
        trouble: Event<K>,
        at_least: Duration,
    ) -> Result<Option<String>, Closed> {
        self.send(trouble).await?;
        self.pause(at_least).await;
        Ok(None)
    }

    /// Returns `params` with the selectors of this watch.
    fn selected(&self, params: WatchParams) -> WatchParams {
        WatchParams {
            label_selector: self.params.label_selector.clone(),
            field_selector: self.params.field_selector.clone(),
            ..params
        }
    }

    /// Watches from a version. After a watch that did not live long a pause follows, however it
    /// ended: otherwise a server that calls every version too old would be sent lists without end.
    async fn watch_from(&mut self, version: String) -> Result<Next, Closed> {
        let params = self.selected(WatchParams::default().timeout(WATCH_SECONDS));
        let mut at_least = Duration::ZERO;
        let next = match timeout(ANSWER, self.api.watch(&params, &version)).await {
            Ok(Ok(stream)) => {
                let opened = Instant::now();
                self.age.heard();
                self.send(Event::Current(opened)).await?;
                let next = self.follow(stream.boxed(), version).await?;
                self.is_unwatched = opened.elapsed() >= SILENT;
                if opened.elapsed() > HEALTHY {
                    self.failures = 0;
                    return self.confirmed(next).await;
                }
                // A busy server ends the watches that it cannot serve in time, after seconds and
                // again and again (kube-apiserver: `cacheWatcher`). What came is no failure.
                if matches!(next, Next::Heard(_)) {
                    self.failures = 0;
                }
                next
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 410 => Next::List,
            Ok(Err(error)) => {
                at_least = asked_for(&error);
                self.is_unwatched = true;
                self.failed(version, trouble("watch", &error)).await?
            }
            Err(_) => {
                let what = "watch: no answer in time".to_owned();
                self.send(Event::Trouble(what)).await?;
                self.is_unwatched = true;
                Next::List
            }
        };
        if self.is_unwatched && matches!(next, Next::List) {
            let since = self.listed_at.map_or(LIST_INSTEAD, |at| at.elapsed());
            at_least = at_least.max(LIST_INSTEAD.saturating_sub(since));
        }
        self.pause(at_least).await;
        Ok(next)
    }

    /// Checks the version of a watch without events. After etcd was restored from a backup its
    /// versions are lower than before, and a watch from one that lies ahead is open and silent
    /// until it is reached; what happens until then is never reported (measured: Kubernetes 1.34).
    /// A watch that ends in its time brings a bookmark shortly before, wherever the version has
    /// moved at all. So where nothing came, the server's version is requested.
    async fn confirmed(&self, next: Next) -> Result<Next, Closed> {
        let Next::Unheard(version) = next else {
            return Ok(next);
        };
        match present_version(&self.api).await {
            Some(present) if is_before(&present, &version) => {
                let what = "the resourceVersion of the API server went back, as after a restore of etcd, so everything is listed again";
                self.send(Event::Trouble(format!(
                    "watch: {what}: version {present} after {version}"
                )))
                .await?;
                Ok(Next::List)
            }
            _ => Ok(Next::WatchFrom(version)),
        }
    }

    /// Passes events on until the watch ends, by itself or with an error.
    async fn follow(
        &self,
        mut stream: BoxStream<'_, kube::Result<WatchEvent<K>>>,
        mut version: String,
    ) -> Result<Next, Closed> {
        let mut heard = false;
        loop {
            let event = match timeout(SILENT, stream.next()).await {
                Ok(Some(event)) => event,
                Ok(None) if heard => return Ok(Next::Heard(version)),
                Ok(None) => return Ok(Next::Unheard(version)),
                Err(_) => {
                    let what = "watch: silent beyond its timeout".to_owned();
                    self.send(Event::Trouble(what)).await?;
                    return Ok(Next::List);
                }
            };
            if matches!(
                event,
                Ok(WatchEvent::Added(_)
                    | WatchEvent::Modified(_)
                    | WatchEvent::Deleted(_)
                    | WatchEvent::Bookmark(_))
            ) {
                self.age.heard();
                heard = true;
            }
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    advance(&mut version, &object);
                    self.send(Event::Applied(object)).await?;
                }
                Ok(WatchEvent::Deleted(object)) => {
                    advance(&mut version, &object);
                    self.send(Event::Deleted(object)).await?;
                }
                Ok(WatchEvent::Bookmark(bookmark)) => version = bookmark.metadata.resource_version,
                Ok(WatchEvent::Error(status)) if status.code == 410 => return Ok(Next::List),
                Ok(WatchEvent::Error(status)) => {
                    return self
                        .failed(version, trouble("watch", &status.message))
                        .await;
                }
                // One line that is no object: the line is lost, the connection is not.
                Err(kube::Error::SerdeError(error)) => {
                    self.send(Event::Trouble(trouble("watch: unreadable event", &error)))
                        .await?
                }
                Err(error) => return self.failed(version, trouble("watch", &error)).await,
            }
        }
    }

    async fn failed(&self, version: String, trouble: String) -> Result<Next, Closed> {
        self.send(Event::Trouble(trouble)).await?;
        let next = if self.failures.saturating_add(1) >= FAILURES_UNTIL_LIST {
            Next::List
        } else {
            Next::WatchFrom(version)
        };
        Ok(next)
    }

    async fn pause(&mut self, at_least: Duration) {
        let pause = PAUSE.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        sleep(pause.max(at_least)).await;
    }

    async fn send(&self, event: Event<K>) -> Result<(), Closed> {
        self.events.send(event).await.map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests;
