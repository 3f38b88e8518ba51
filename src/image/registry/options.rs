//! The options of connections to registries.

use std::time::Duration;

/// The deadline of one request: a registry that needs longer for a few kilobytes is not there.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The waits before the second, third and fourth try: together under four seconds, so that a person
/// at a terminal does not give up first.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// The access to a repository. Some registries refuse a login that asks for more than the
/// credentials may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only reading is allowed.
    Pull,
    /// Reading and writing are allowed.
    PullAndPush,
}

/// The options of a connection to a registry.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// The access to log in for.
    pub access: Access,
    /// Hosts, with or without port, that are used without TLS. Loopback addresses need not be
    /// listed.
    pub plain_http: Vec<String>,
    /// The deadline of one request.
    pub timeout: Duration,
    /// The waits between tries of a request that failed with 429 or 5xx; their number is the number
    /// of further tries. A registry that asks for a longer wait gets it.
    pub pauses: Vec<Duration>,
    /// Receives a message about each retry.
    pub note: fn(&str),
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            access: Access::PullAndPush,
            plain_http: Vec::new(),
            timeout: TIMEOUT,
            pauses: PAUSES.to_vec(),
            note: |text| tracing::warn!("{text}"),
        }
    }
}
