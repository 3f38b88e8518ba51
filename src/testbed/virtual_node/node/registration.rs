//! The ownership of the Node and its Lease. A node that runs nothing must never touch those of a
//! real one. Its own objects carry an annotation with the id of the process; nothing else is
//! written, adopted or deleted.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;

/// The annotation of the Node and its Lease with the process that created or adopted them.
pub const MOCK_NODE: &str = "swaplet.io/mock-node";

/// The reason why a node is not registered. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The Node belongs to somebody else.
    #[error(
        "there is a Node {0} that no mock node made, and nothing was done to it: choose another name"
    )]
    ForeignNode(String),
    /// The Lease belongs to somebody else.
    #[error(
        "there is a Lease {0} in kube-node-lease that no mock node made, and nothing was done to it: choose another name, or delete that Lease if its node is gone for good"
    )]
    ForeignLease(String),
    /// Another mock node has the name.
    #[error(
        "another mock node is called {name}: it renewed its Lease {} s ago. Choose another name; if that process is dead, try again when the Lease is {} s old",
        .ago.as_secs(),
        .lasts.as_secs()
    )]
    Alive {
        /// The name of the node.
        name: String,
        /// The time since its Lease was renewed.
        ago: Duration,
        /// The duration of its Lease.
        lasts: Duration,
    },
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// The id of a process that runs a mock node, as in the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(pub String);

impl Owner {
    /// Returns an id that no other process has, nor another node of this one.
    pub fn unique() -> Self {
        Self(format!(
            "{:016x}",
            RandomState::new().build_hasher().finish()
        ))
    }

    fn of(metadata: &ObjectMeta) -> Option<&str> {
        let annotations = metadata.annotations.as_ref()?;
        annotations.get(MOCK_NODE).map(String::as_str)
    }

    /// Returns true if the object belongs to this process.
    pub fn has(&self, metadata: &ObjectMeta) -> bool {
        Self::of(metadata) == Some(&self.0)
    }

    /// Returns `Ok` if this process may write the existing Node and Lease.
    ///
    /// # Errors
    /// One of them belongs to no mock node, or to one that is alive.
    pub fn may_take(
        &self,
        name: &str,
        (node, lease): (Option<&Node>, Option<&Lease>),
        (now, lasts): (Timestamp, Duration),
    ) -> Result<(), Refused> {
        if node.is_some_and(|node| Self::of(node.meta()).is_none()) {
            return Err(Refused::ForeignNode(name.to_owned()));
        }
        let Some(lease) = lease.filter(|lease| !self.has(lease.meta())) else {
            return Ok(());
        };
        if Self::of(lease.meta()).is_none() {
            return Err(Refused::ForeignLease(name.to_owned()));
        }
        // A time in the future is from another clock, and from a node that is alive.
        let ago = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        match last_sign(lease).map(ago) {
            Some(ago) if ago < lasts => Err(Refused::Alive {
                name: name.to_owned(),
                ago,
                lasts,
            }),
            _ => Ok(()),
        }
    }
}

fn last_sign(lease: &Lease) -> Option<Timestamp> {
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?;
    Some(renewed.0)
}
