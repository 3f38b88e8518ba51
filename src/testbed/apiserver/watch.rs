//! Watches: a cursor over the history, filtered by a selector.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use crate::apiserver::faults::WatchFaults;
use crate::apiserver::objects::json::child;
use crate::apiserver::objects::kinds::Kind;
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::request::Request;
use crate::apiserver::request::selector::Selector;
use crate::apiserver::storage::codec::show;
use crate::apiserver::storage::list::{parse_version, refuse_option, selector};
use crate::apiserver::storage::shared::Shared;
use crate::apiserver::storage::state::{State, StreamedLists};
use crate::apiserver::storage::store::Change;
use crate::apiserver::view::View;

/// The interval of bookmarks, if the client allows them; the real server's watch cache sends about
/// one per minute.
const BOOKMARK: Duration = Duration::from_secs(60);
/// How long before the end of a watch the last bookmark is sent.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// The timeout of a watch that sets none: the middle of the real server's 30 to 60 minutes.
const TIMEOUT: Duration = Duration::from_secs(45 * 60);

/// An event, before it is converted to the form that the client requested.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'static str,
    /// The object in the form of the kind, or a `Status`.
    pub object: Arc<Value>,
}

/// One running watch.
pub struct Watch {
    shared: Arc<Shared>,
    kind: Arc<Kind>,
    selector: Selector,
    view: View,
    /// The version after which events are sent.
    from: u64,
    cursor: u64,
    pending: VecDeque<WatchEvent>,
    revisions: Receiver<u64>,
    faults: WatchFaults,
    end: Instant,
    /// When the next bookmark is due; `None` if they are not allowed.
    bookmark: Option<Instant>,
    sent: usize,
    over: bool,
}

impl Watch {
    /// Starts a watch: first the existing objects (on request), then every change.
    pub fn start(
        shared: Arc<Shared>,
        state: &State,
        request: &Request,
        faults: WatchFaults,
    ) -> Result<Self, ApiError> {
        let query = &request.query;
        let from = parse_version(query.get("resourceVersion"))
            .map_err(|why| ApiError::new(500, "", why))?;
        let initial =
            query.flag("sendInitialEvents") && state.streamed_lists != StreamedLists::Unknown;
        if initial && query.get("resourceVersionMatch") != "NotOlderThan" {
            return Err(refuse_option(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if initial && state.streamed_lists == StreamedLists::Refused {
            return Err(refuse_option(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ));
        }
        let bookmarks = query.flag("allowWatchBookmarks");
        let timeout = query
            .number("timeoutSeconds")?
            .map_or(TIMEOUT, Duration::from_secs);
        let mut watch = Self {
            kind: request.kind.clone(),
            selector: selector(request)?,
            view: View::of(request),
            from,
            cursor: state.store.revision(),
            pending: VecDeque::new(),
            revisions: shared.subscribe(),
            faults,
            end: Instant::now() + timeout,
            bookmark: None,
            sent: 0,
            over: false,
            shared,
        };
        watch.bookmark = bookmarks.then(|| watch.next_bookmark()).flatten();
        watch.begin(state, initial, bookmarks);
        Ok(watch)
    }

    fn begin(&mut self, state: &State, initial: bool, bookmarks: bool) {
        if self.from == 0 || initial {
            let objects = state
                .store
                .all(&self.kind.storage())
                .map(|(_, object)| object);
            let added = objects
                .filter(|object| self.selector.matches(object))
                .map(|object| event("ADDED", show(&self.kind, object)));
            self.pending = added.collect();
            self.from = self.cursor;
        } else {
            self.cursor = self.from;
        }
        if initial && bookmarks {
            self.pending.push_back(self.bookmark_event(true));
        }
    }

    /// Returns the next line of the answer; `None` at the end.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(bytes) = self.faults.interrupt(self.sent).await {
                self.sent += 1;
                return Some(bytes);
            }
            if self.faults.closes_at(self.sent) {
                return None;
            }
            match self.pending.pop_front() {
                Some(event) if event.kind != "BOOKMARK" && self.faults.skips() => {}
                Some(event) => return Some(self.line(&event)),
                None if self.over => return None,
                None => self.wait().await?,
            }
        }
    }

    /// Waits for changes, the next bookmark or the end; `None` at the end.
    async fn wait(&mut self) -> Option<()> {
        self.revisions.borrow_and_update();
        self.advance();
        if !self.pending.is_empty() {
            return Some(());
        }
        let wake = self
            .bookmark
            .map_or(self.end, |bookmark| bookmark.min(self.end));
        tokio::select! {
            changed = self.revisions.changed() => changed.ok(),
            () = self.faults.changed() => Some(()),
            () = tokio::time::sleep_until(wake) => self.due(),
        }
    }

    /// Queues a bookmark that is due; `None` at the end.
    fn due(&mut self) -> Option<()> {
        let now = Instant::now();
        if now >= self.end {
            return None;
        }
        self.bookmark = self.next_bookmark();
        // No bookmark before the version from which the watch starts, and none if nothing happened
        // since.
        let revision = self.shared.lock().store.revision();
        if revision > self.from {
            self.pending.push_back(self.bookmark_event(false));
        }
        Some(())
    }

    /// Returns the time of the next bookmark: about once a minute, and shortly before the end.
    fn next_bookmark(&self) -> Option<Instant> {
        let now = Instant::now();
        let last = self
            .end
            .checked_sub(LAST_BOOKMARK)
            .filter(|last| *last > now)?;
        Some(last.min(now + BOOKMARK))
    }

    /// Queues the changes since the cursor.
    fn advance(&mut self) {
        let shared = self.shared.clone();
        let state = shared.lock();
        if self.cursor < state.store.oldest() {
            let message = format!(
                "too old resource version: {} ({})",
                self.cursor,
                state.store.oldest() + 1
            );
            self.pending
                .push_back(event("ERROR", Arc::new(ApiError::expired(message).body())));
            self.over = true;
            return;
        }
        let storage = self.kind.storage();
        let changes = state
            .store
            .since(self.cursor)
            .filter(|change| change.storage == storage);
        let events: Vec<_> = changes
            .filter_map(|change| seen(&self.kind, &self.selector, change))
            .collect();
        self.pending.extend(events);
        self.cursor = state.store.revision().max(self.cursor);
    }

    fn bookmark_event(&self, initial: bool) -> WatchEvent {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata});
        event("BOOKMARK", Arc::new(object))
    }

    fn line(&mut self, event: &WatchEvent) -> Vec<u8> {
        let object = match event.kind {
            "ERROR" => Value::clone(&event.object),
            _ => self.view.one(
                &self.kind,
                &event.object,
                self.shared.clock().now(),
                self.sent == 0,
            ),
        };
        self.sent += 1;
        let mut line = json!({"type": event.kind, "object": object})
            .to_string()
            .into_bytes();
        line.push(b'\n');
        line
    }
}

fn event(kind: &'static str, object: Arc<Value>) -> WatchEvent {
    WatchEvent { kind, object }
}

/// Returns a change as an event: leaving the selector is a deletion, entering it an addition.
fn seen(kind: &Kind, selector: &Selector, change: &Change) -> Option<WatchEvent> {
    let before = change
        .previous
        .as_ref()
        .is_some_and(|previous| selector.matches(previous));
    let now = selector.matches(&change.object) && !change.deleted;
    let shown = |name, object| Some(event(name, show(kind, object)));
    match (before, now) {
        (false, true) => shown("ADDED", &change.object),
        (true, true) => shown("MODIFIED", &change.object),
        (true, false) if change.deleted => shown("DELETED", &change.object),
        (true, false) => shown("DELETED", &last_match(change)),
        (false, false) => None,
    }
}

/// Returns the last matching state of an object that stops matching, with the new revision.
fn last_match(change: &Change) -> Arc<Value> {
    let mut last = change.previous.as_deref().cloned().unwrap_or(Value::Null);
    child(&mut last, "metadata").insert(
        "resourceVersion".to_owned(),
        change.revision.to_string().into(),
    );
    Arc::new(last)
}
