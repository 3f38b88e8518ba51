//! The keys of logs.

/// The container of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogKey {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
    /// True for the log of the container before the one that the status shows.
    pub previous: bool,
}
