//! Lists as the beginning of a watch (Kubernetes: streaming lists, KEP-3157): each object comes by
//! itself, so neither side ever holds a page of them. Servers without them reject the request, and
//! are listed in pages.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Resource;
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::answers::{asked_for, trouble};
use super::{ANSWER, Closed, Event, Watch};

/// The annotation of the bookmark that ends the list (Kubernetes: `InitialEventsAnnotationKey`).
const END: &str = "k8s.io/initial-events-end";
/// The deadline of the whole list. That between two objects is [`ANSWER`], and so is that from the
/// first change to the end: a server that does not know streaming lists sends all objects, then
/// changes forever, and no end.
const STREAM_SECONDS: u32 = 600;

/// The result of a streamed list.
pub(super) enum Streamed {
    /// All objects were reported; this is the version of the list.
    Whole(String),
    /// The request is rejected, and nothing was reported: pages may work.
    NotServed,
    /// The list has broken off, and may be partly reported: pages may work, from the start.
    BrokenOff,
    /// There is no answer, for this reason; the server asks to wait for this long.
    Failed(String, Duration),
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watch<K> {
    /// Reports the present objects: without a version the answer is as new as that to a list.
    pub(super) async fn stream(&mut self) -> Result<Streamed, Closed> {
        let params = self.selected(WatchParams::streaming_lists().timeout(STREAM_SECONDS));
        let api = self.api.clone();
        let mut stream = match timeout(ANSWER, api.watch(&params, "")).await {
            Ok(Ok(stream)) => stream.boxed(),
            // Where that is for another reason than the stream, the answer to a list shows it.
            Ok(Err(kube::Error::Api(status)))
                if matches!(status.code, 400 | 403 | 404 | 405 | 422) =>
            {
                self.is_streamed = false;
                return Ok(Streamed::NotServed);
            }
            Ok(Err(error)) => {
                return Ok(Streamed::Failed(trouble("list", &error), asked_for(&error)));
            }
            Err(_) => {
                let why = "list: no answer in time".to_owned();
                return Ok(Streamed::Failed(why, Duration::ZERO));
            }
        };
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
        self.is_streamed = false;
        Ok(Streamed::BrokenOff)
    }
}
