//! How logs are named.

/// Of which container a log is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogKey {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// Whether it is that of the container before the one that the status shows.
    pub previous: bool,
}
