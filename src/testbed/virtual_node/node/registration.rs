//! Whose Node and Lease these are. A node that runs nothing must never touch those of a real one:
//! what it makes carries an annotation with the id of its process, and nothing else is written,
//! taken over or deleted.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;

/// The annotation of the Node and of its Lease: which process made them, or took them over.
pub const MOCK_NODE: &str = "swaplet.io/mock-node";

/// Why a node is not registered. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The Node is somebody else's.
    #[error(
        "there is a Node {0} that no mock node made, and nothing was done to it: choose another name"
    )]
    ForeignNode(String),
    /// The Lease is somebody else's.
    #[error(
        "there is a Lease {0} in kube-node-lease that no mock node made, and nothing was done to it: choose another name, or delete that Lease if its node is gone for good"
    )]
    ForeignLease(String),
    /// Another mock node has it.
    #[error(
        "another mock node is called {name}: it renewed its Lease {} s ago. Choose another name; if that process is dead, try again when the Lease is {} s old",
        .ago.as_secs(),
        .lasts.as_secs()
    )]
    Alive {
        /// The name.
        name: String,
        /// Since its last sign of life.
        ago: Duration,
        /// How long a sign of life counts.
        lasts: Duration,
    },
    /// The API server did not do as it was asked.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// A process that plays a node, as the annotation names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(pub String);

impl Owner {
    /// One that no other process has, nor another node of this one.
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

    /// Whether the object is this process's own.
    pub fn has(&self, metadata: &ObjectMeta) -> bool {
        Self::of(metadata) == Some(&self.0)
    }

    /// Whether this process may write the Node and the Lease that are there.
    ///
    /// # Errors
    /// One is no mock node's, or is one's that lives.
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
        // A time to come is that of another clock, and of one who lives.
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
