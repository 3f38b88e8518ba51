//! Lists as the beginning of a watch (Kubernetes: streaming lists, KEP-3157): each object comes by
//! itself, so neither side ever holds a page of them. Servers without them reject the request, and
//! are listed in pages.

use std::fmt::Debug;

use futures::StreamExt as _;
use kube::Resource;
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

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
    /// The request is rejected, failed or was not answered, and nothing was reported: pages may
    /// work, for proxies pass lists that hold back or refuse watches.
    NotServed,
    /// The list has broken off, and may be partly reported: pages may work, from the start.
    BrokenOff,
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watch<K> {
    /// Reports the present objects: without a version the answer is as new as that to a list.
    pub(super) async fn stream(&mut self) -> Result<Streamed, Closed> {
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
