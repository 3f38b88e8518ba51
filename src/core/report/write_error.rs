//! Why a write to the API server was not applied.

use std::time::Duration;

/// The reason why a write was not applied, or may not have been; its word in metrics is its name.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum WriteError {
    /// The object has changed since it was read, or one of this name exists; nothing was written.
    Conflict,
    /// The object is gone, or the namespace of a new one does not exist.
    Gone,
    /// The API server denies the write, with this message.
    Denied(String),
    /// The write failed, or its result is unknown: the API server was busy, broken, silent or not
    /// reachable, or the answer (a 404 without the object's name) was not about the object. A retry
    /// is safe, because every write is guarded.
    Failed {
        /// The error, as a message.
        error: String,
        /// The time that the server asks to wait.
        retry_after: Option<Duration>,
    },
}
