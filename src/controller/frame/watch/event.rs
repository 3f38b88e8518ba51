//! What a watch tells.

use std::fmt::Debug;

use tokio::time::Instant;

/// What the stream of a watch tells.
#[derive(Debug)]
pub enum Event<K> {
    /// A list begins: what it does not name by [`Event::ListEnd`] is gone.
    ListStart,
    /// An object of the list.
    Listed(K),
    /// The list is complete.
    ListEnd,
    /// The API server has opened a watch at this moment: what happens from then on is told. Comes
    /// anew with each watch, so every 45 s.
    Current(Instant),
    /// An object was added or has changed.
    Applied(K),
    /// An object is gone; its last state.
    Deleted(K),
    /// The API server could not be listed or watched; another try follows by itself.
    Trouble(String),
    /// The API server does not allow it to be listed or watched; another try follows by itself.
    Forbidden(String),
    /// Something will not be told, for this reason, and counts as empty until the next list: one of
    /// several namespaces that must not be listed, or what a question is about that the API server
    /// does not take.
    Hidden(String),
}

impl<K> Event<K> {
    /// The same of what `read` makes of the object.
    pub fn map<T>(self, read: impl FnOnce(K) -> T) -> Event<T> {
        match self {
            Self::ListStart => Event::ListStart,
            Self::Listed(object) => Event::Listed(read(object)),
            Self::ListEnd => Event::ListEnd,
            Self::Current(since) => Event::Current(since),
            Self::Applied(object) => Event::Applied(read(object)),
            Self::Deleted(object) => Event::Deleted(read(object)),
            Self::Trouble(error) => Event::Trouble(error),
            Self::Forbidden(error) => Event::Forbidden(error),
            Self::Hidden(error) => Event::Hidden(error),
        }
    }
}
