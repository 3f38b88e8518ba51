//! The events of a watch.

use std::fmt::Debug;

use tokio::time::Instant;

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
