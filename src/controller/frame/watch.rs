//! List and watch: a stream of the objects that exist, which survives any failure of the
//! connection.
//!
//! It is built on the client's `list` and `watch`, not on kube's `watcher`, for four things that
//! the watcher does not do: it lists again after a 410 that comes as HTTP status; it paces
//! connections that end as soon as they are opened; it never holds a second copy of the list; and
//! it lists again when the server keeps refusing the version it watches from, or has gone back
//! behind it (after a restore of etcd).

pub mod age;
pub mod many;
pub(crate) mod named;
pub(crate) mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};
use std::time::Duration;

use self::age::{WatchAge, WatchAges};
use super::isolated::TaskDied;
use super::list::{PageSize, present_version, words};
use super::store::is_before;
use crate::frame::list::{asked_for, page};
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// The time for which the server keeps a watch open. With [`WATCH_MARGIN`] it bounds how long a
/// dead connection can hide events, which must stay under 60 s.
const WATCH_SECONDS: u32 = 45;
/// The time that a server may take beyond its own timeout to end a watch.
const WATCH_MARGIN: Duration = Duration::from_secs(10);
/// The longest silence of a watch: one that is silent for longer is not served, whoever keeps it open.
const SILENT: Duration = Duration::from_secs(WATCH_SECONDS as u64).saturating_add(WATCH_MARGIN);
/// The least time for which a server that is asked for [`WATCH_SECONDS`] keeps a watch open: of one
/// that ended before, and brought nothing, it is not known what it should have brought.
const IN_TIME: Duration = Duration::from_secs(WATCH_SECONDS as u64 - 1);
/// The deadline for the headers of a watch.
const ANSWER: Duration = Duration::from_secs(30);
/// A watch that lived longer than this was healthy: the next one starts without a pause.
pub(crate) const HEALTHY: Duration = Duration::from_secs(5);
/// The backoff after failures: the pause doubles from the first to the longest.
pub(crate) const PAUSE: Backoff = Backoff {
    first: Duration::from_millis(250),
    longest: Duration::from_secs(15),
};
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

/// Returns the next event of the watch of these objects.
pub(crate) async fn heard<T>(watch: &mut mpsc::Receiver<T>, of: &str) -> Result<T, TaskDied> {
    let event = watch.recv().await;
    event.ok_or_else(|| TaskDied(format!("the watch of {of}")))
}

/// Like [`heard`]; without a watch it waits forever.
pub(crate) async fn heard_if<T>(
    watch: &mut Option<mpsc::Receiver<T>>,
    of: &str,
) -> Result<T, TaskDied> {
    match watch {
        Some(watch) => heard(watch, of).await,
        None => std::future::pending().await,
    }
}

/// An object that can be watched.
pub trait Watched: Resource + Clone + DeserializeOwned + Debug + Send + 'static {}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watched for K {}

/// The way in which the objects are listed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Paged,
    /// In pages, with selectors that somebody else has chosen. The API server may reject them (400),
    /// or they may be too long for a URL, which is no failure of the watch: [`Event::Hidden`]
    /// reports it from the second time on, and the request is repeated seldom.
    Chosen,
    /// As a stream, where the server can: of these objects there may be very many, and so no page
    /// of them is held in memory.
    Streamed,
}

/// Starts a watch of the objects that the selectors of `params` match, with its age recorded in
/// `ages`. The stream ends only if the receiver is dropped.
pub fn watch<K: Watched>(
    api: Api<K>,
    params: ListParams,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<K>> {
    watch_by(How::Paged, api, params, ages)
}

/// Like [`watch`], with another way to list.
pub(crate) fn watch_by<K: Watched>(
    how: How,
    api: Api<K>,
    params: ListParams,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<K>> {
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
            how,
            is_refused: false,
            is_unwatched: false,
            unserved: 0,
            served_at: Instant::now(),
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
    how: How,
    /// True if the last request was rejected whoever sends it.
    is_refused: bool,
    /// True if the last watch could not be opened, stayed silent, or was one of several that ended
    /// early and brought nothing: until one does none of this, lists are read in pages.
    is_unwatched: bool,
    /// The watches in a row that ended early and brought nothing.
    unserved: u32,
    /// The last event, the end of the last watch that lived for its time, or of the last list.
    served_at: Instant,
    /// The end of the last complete list.
    listed_at: Option<Instant>,
}

/// The error that the receiver was dropped.
struct Closed;

/// The step after a watch.
enum Next {
    WatchFrom(String),
    /// Watch again from this version, to which events of a watch have led that has ended.
    Heard(String),
    /// Watch again from this version, if the server has reached it: no event came since.
    Unheard(String),
    /// List again, because the version is too old or not trusted any more.
    List,
}

impl<K: Watched> Watch<K> {
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
        self.served_at = Instant::now();
        self.listed_at = Some(self.served_at);
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
        if self.how == How::Streamed && !self.is_unwatched {
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
        let (api, asked) = (self.api.clone(), Instant::now());
        let next = match timeout(ANSWER, api.watch(&params, &version)).await {
            Ok(Ok(stream)) => {
                let opened = Instant::now();
                self.age.heard();
                self.send(Event::Current(opened)).await?;
                self.unserved = self.unserved.saturating_add(1);
                let next = self.follow(stream.boxed(), version).await?;
                let brings_nothing = self.brings_nothing(asked);
                self.is_unwatched = brings_nothing || opened.elapsed() >= SILENT;
                if opened.elapsed() > HEALTHY {
                    self.failures = 0;
                    if !brings_nothing {
                        return self.confirmed(next).await;
                    }
                }
                // A busy server ends the watches that it cannot serve in time, after seconds and
                // again and again (kube-apiserver: `cacheWatcher`). What came is no failure.
                if matches!(next, Next::Heard(_)) {
                    self.failures = 0;
                }
                if brings_nothing { Next::List } else { next }
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 410 => Next::List,
            Ok(Err(error)) => {
                at_least = asked_for(&error);
                self.is_unwatched = true;
                self.failed(version, false, trouble("watch", &words(&error)))
                    .await?
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

    /// Returns true if watches keep ending early, as the last one that was `asked` for, and bring
    /// nothing: who ends them may hold back what happens. A server ends a few when it stops.
    fn brings_nothing(&mut self, asked: Instant) -> bool {
        if asked.elapsed() >= IN_TIME {
            self.served();
        }
        self.unserved > 1 && (self.is_unwatched || self.served_at.elapsed() >= LIST_INSTEAD)
    }

    fn served(&mut self) {
        (self.unserved, self.served_at) = (0, Instant::now());
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
            Some(present) if is_before(&present, &version) == Some(true) => {
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
        &mut self,
        mut stream: BoxStream<'_, kube::Result<WatchEvent<K>>>,
        mut version: String,
    ) -> Result<Next, Closed> {
        let (mut heard, mut missed) = (false, false);
        loop {
            let event = match timeout(SILENT, stream.next()).await {
                Ok(Some(event)) => event,
                Ok(None) if missed => return Ok(Next::List),
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
                self.served();
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
                    let trouble = trouble("watch", &status.message);
                    return self.failed(version, missed, trouble).await;
                }
                // One line that is no object: the line is lost, the connection is not. What an
                // object was that cannot be decoded, only a list shows: kube reads its line as a
                // Status, all of whose fields may be missing.
                Err(kube::Error::Api(status)) if status.code == 0 => {
                    missed = true;
                    let trouble = "watch: an event cannot be read".to_owned();
                    self.send(Event::Trouble(trouble)).await?;
                }
                Err(kube::Error::SerdeError(error)) => {
                    self.send(Event::Trouble(trouble("watch: unreadable event", &error)))
                        .await?
                }
                Err(error) => {
                    let trouble = trouble("watch", &words(&error));
                    return self.failed(version, missed, trouble).await;
                }
            }
        }
    }

    /// Goes on after a failure: with a list where that is not the first one, or an event was missed.
    async fn failed(&self, version: String, missed: bool, trouble: String) -> Result<Next, Closed> {
        self.send(Event::Trouble(trouble)).await?;
        let next = if missed || self.failures.saturating_add(1) >= FAILURES_UNTIL_LIST {
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

// The consequences of an answer or an event of a watch.

/// Returns the message of an error, cut because it may repeat what a tenant has written.
fn trouble(what: &str, error: &dyn Display) -> String {
    cut(&format!("{what}: {error}"), MESSAGE)
}

/// Returns true if the request itself is rejected, from any sender: by the API server (400), by it
/// or a proxy for its length (414, 431), or here, because no URL is as long.
const fn is_no_question(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 400 | 414 | 431),
        kube::Error::BuildRequest(_) => true,
        _ => false,
    }
}

fn advance<K: Resource>(version: &mut String, object: &K) {
    if let Some(newer) = &object.meta().resource_version {
        version.clone_from(newer);
    }
}

// The events of a watch.

/// An event in the stream of a watch.
#[derive(Debug)]
pub enum Event<K> {
    /// A list begins: what it does not name by [`Event::ListEnd`] is gone.
    ListStart,
    /// An object of the list.
    Listed(K),
    /// The list is complete.
    ListEnd,
    /// The API server has opened a watch at this moment: events from then on are reported. It is
    /// sent again for each watch, so every 45 s.
    Current(Instant),
    /// True: the objects of one of several namespaces are being listed again, and what is known of
    /// them may be old. False: no such list is in progress any more.
    Relists(bool),
    /// An object was added or has changed.
    Applied(K),
    /// An object was deleted; this is its last state.
    Deleted(K),
    /// The objects could not be listed or watched; this is retried automatically.
    Trouble(String),
    /// The API server forbids to list or watch the objects; this is retried automatically.
    Forbidden(String),
    /// Some objects are not reported, for this reason, and count as absent until the next list:
    /// those of one of several namespaces that must not be listed, or all if the API server rejects
    /// the selectors.
    Hidden(String),
}

impl<K> Event<K> {
    /// Returns why objects cannot be listed or watched, if the event reports that.
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Trouble(why) | Self::Forbidden(why) | Self::Hidden(why) => Some(why),
            Self::ListStart
            | Self::Listed(_)
            | Self::ListEnd
            | Self::Current(_)
            | Self::Relists(_)
            | Self::Applied(_)
            | Self::Deleted(_) => None,
        }
    }

    /// Returns the events of a complete list of these objects.
    pub fn list_of(objects: impl IntoIterator<Item = K>) -> impl Iterator<Item = Self> {
        let listed = objects.into_iter().map(Self::Listed);
        let begun = std::iter::once(Self::ListStart).chain(listed);
        begun.chain([Self::ListEnd])
    }

    /// Returns the same event, with what `read` makes of its object.
    pub fn map<T>(self, read: impl FnOnce(K) -> T) -> Event<T> {
        match self {
            Self::ListStart => Event::ListStart,
            Self::Listed(object) => Event::Listed(read(object)),
            Self::ListEnd => Event::ListEnd,
            Self::Current(since) => Event::Current(since),
            Self::Relists(is_listing) => Event::Relists(is_listing),
            Self::Applied(object) => Event::Applied(read(object)),
            Self::Deleted(object) => Event::Deleted(read(object)),
            Self::Trouble(error) => Event::Trouble(error),
            Self::Forbidden(error) => Event::Forbidden(error),
            Self::Hidden(error) => Event::Hidden(error),
        }
    }
}

// Lists that are read in pages.

impl<K: Watched> Watch<K> {
    /// Reports the objects page by page. Returns the list's version, or `None` if a page failed.
    async fn pages(&mut self) -> Result<Option<String>, Closed> {
        let mut params = self.params.clone();
        loop {
            let page = page(&self.api, &params, &mut self.page_size);
            let list = match timeout(ANSWER, page).await {
                Ok(Ok(list)) => list,
                failed => {
                    let (trouble, at_least) = self.list_failed(failed.ok().and_then(Result::err));
                    self.send(trouble).await?;
                    self.pause(at_least).await;
                    return Ok(None);
                }
            };
            self.age.heard();
            self.is_refused = false;
            for object in list.items {
                self.send(Event::Listed(object)).await?;
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => {
                    self.send(Event::ListEnd).await?;
                    return Ok(list.metadata.resource_version);
                }
            }
        }
    }

    /// Returns what to report of a page that was not answered (`None`) or refused, and the least pause
    /// before the next list.
    fn list_failed(&mut self, error: Option<kube::Error>) -> (Event<K>, Duration) {
        match error {
            None => {
                let why = "list: no answer in time".to_owned();
                (Event::Trouble(why), Duration::ZERO)
            }
            Some(kube::Error::Api(status)) if status.code == 403 => {
                self.age.forbidden();
                let why = cut(&status.message, MESSAGE);
                (Event::Forbidden(why), Duration::ZERO)
            }
            Some(error) if self.how == How::Chosen && is_no_question(&error) => {
                self.age.forbidden();
                let why = trouble("list", &words(&error));
                if std::mem::replace(&mut self.is_refused, true) {
                    (Event::Hidden(why), NO_QUESTION)
                } else {
                    (Event::Trouble(why), ASK_ONCE_MORE)
                }
            }
            Some(error) => {
                let why = trouble("list", &words(&error));
                (Event::Trouble(why), asked_for(&error))
            }
        }
    }
}

// Selects which of the wanted objects are watched: an equal number per namespace, where not all can
// be.

/// Returns at most `most` of these objects, and at most `each` of a namespace, in turns by
/// namespace; within a namespace first those that are watched already, then in their order.
pub(crate) fn shared<T: Ord>(
    wanted: BTreeSet<T>,
    (most, each): (usize, usize),
    namespace: impl Fn(&T) -> &str,
    is_watched: impl Fn(&T) -> bool,
) -> BTreeSet<T> {
    if wanted.len() <= most.min(each) {
        return wanted;
    }
    let mut lines: BTreeMap<Box<str>, Vec<T>> = BTreeMap::new();
    for object in wanted {
        lines
            .entry(namespace(&object).into())
            .or_default()
            .push(object);
    }
    // Sorted in reverse, because the last one is taken first.
    for line in lines.values_mut() {
        line.sort_by(|a, b| is_watched(a).cmp(&is_watched(b)).then_with(|| b.cmp(a)));
        line.drain(..line.len().saturating_sub(each));
    }
    let mut taken = BTreeSet::new();
    while taken.len() < most && !lines.is_empty() {
        let turns = most - taken.len();
        taken.extend(lines.values_mut().take(turns).filter_map(Vec::pop));
        lines.retain(|_, line| !line.is_empty());
    }
    taken
}

#[cfg(test)]
mod share_tests {
    use super::*;

    type Object = (Box<str>, usize);

    fn object(namespace: &str, number: usize) -> Object {
        (namespace.into(), number)
    }

    fn shared(
        wanted: BTreeSet<Object>,
        most: usize,
        is_watched: impl Fn(&Object) -> bool,
    ) -> BTreeSet<Object> {
        super::shared(wanted, (most, most), |object| &object.0, is_watched)
    }

    fn count(objects: &BTreeSet<Object>, namespace: &str) -> usize {
        objects
            .iter()
            .filter(|object| *object.0 == *namespace)
            .count()
    }

    #[test]
    fn a9_each_namespace_has_its_share_of_the_watches_and_what_nobody_needs() {
        let named: BTreeSet<_> = (0..1000)
            .map(|number| object("greedy", number))
            .chain((0..3).map(|number| object("modest", number)))
            .collect();
        let watched = shared(named.clone(), 256, |_| false);
        assert_eq!(
            (count(&watched, "greedy"), count(&watched, "modest")),
            (253, 3)
        );
        let more = named
            .iter()
            .cloned()
            .chain((0..500).map(|number| object("zealous", number)))
            .collect::<BTreeSet<_>>();
        let watched = shared(more.clone(), 256, |object| watched.contains(object));
        assert_eq!(
            [
                count(&watched, "greedy"),
                count(&watched, "modest"),
                count(&watched, "zealous")
            ],
            [127, 3, 126]
        );
        let again = shared(more, 256, |object| watched.contains(object));
        assert_eq!(again, watched, "nothing changes by itself");
        let late = (990..1000)
            .map(|number| object("greedy", number))
            .collect::<BTreeSet<_>>();
        assert!(
            shared(named, 10, |object| late.contains(object))
                .iter()
                .filter(|object| &*object.0 == "greedy")
                .all(|object| late.contains(object))
        );
    }

    #[test]
    fn a_namespace_has_no_more_than_its_most_and_keeps_what_it_watches() {
        let wanted: BTreeSet<_> = (0..9)
            .map(|number| object("greedy", number))
            .chain((0..2).map(|number| object("modest", number)))
            .collect();
        let watched = super::shared(wanted, (100, 3), |object| &object.0, |object| object.1 == 8);
        let numbers: Vec<_> = watched
            .iter()
            .filter(|object| &*object.0 == "greedy")
            .map(|object| object.1)
            .collect();
        assert_eq!((numbers, count(&watched, "modest")), (vec![0, 1, 8], 2));
    }
}

// Lists as the beginning of a watch (Kubernetes: streaming lists, KEP-3157): each object comes by
// itself, so neither side ever holds a page of them. Servers without them reject the request, and
// are listed in pages.

/// The annotation of the bookmark that ends the list (Kubernetes: `InitialEventsAnnotationKey`).
const END: &str = "k8s.io/initial-events-end";
/// The deadline of the whole list. That between two objects is [`ANSWER`], and so is that from the
/// first change to the end: a server that does not know streaming lists sends all objects, then
/// changes forever, and no end.
const STREAM_SECONDS: u32 = 600;

/// The result of a streamed list.
enum Streamed {
    /// All objects were reported; this is the version of the list.
    Whole(String),
    /// The request is rejected, failed or was not answered, and nothing was reported: pages may
    /// work, for proxies pass lists that hold back or refuse watches.
    NotServed,
    /// The list has broken off, and may be partly reported: pages may work, from the start.
    BrokenOff,
}

impl<K: Watched> Watch<K> {
    /// Reports the present objects: without a version the answer is as new as that to a list.
    async fn stream(&mut self) -> Result<Streamed, Closed> {
        let params = self.selected(WatchParams::streaming_lists().timeout(STREAM_SECONDS));
        let api = self.api.clone();
        // Whatever the reason is, the answer to a list shows it.
        let Ok(Ok(stream)) = timeout(ANSWER, api.watch(&params, "")).await else {
            return Ok(Streamed::NotServed);
        };
        let mut stream = stream.boxed();
        let mut first_change: Option<Instant> = None;
        while first_change.is_none_or(|at| at.elapsed() < ANSWER) {
            // An object that cannot be read, a proxy that ends what takes long, a server that goes
            // silent.
            let Ok(Some(Ok(event))) = timeout(ANSWER, stream.next()).await else {
                break;
            };
            if matches!(event, WatchEvent::Modified(_) | WatchEvent::Deleted(_)) {
                first_change.get_or_insert_with(Instant::now);
            }
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.age.heard();
                    self.send(Event::Listed(object)).await?;
                }
                WatchEvent::Deleted(object) => self.send(Event::Deleted(object)).await?,
                WatchEvent::Bookmark(bookmark) => {
                    if bookmark.metadata.annotations.contains_key(END) {
                        return Ok(Streamed::Whole(bookmark.metadata.resource_version));
                    }
                }
                WatchEvent::Error(_) => break,
            }
        }
        Ok(Streamed::BrokenOff)
    }
}

#[cfg(test)]
mod tests;
