//! The consequences of an answer or an event of a watch.

use std::fmt::Display;
use std::time::Duration;

use kube::Resource;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};

use super::LONGEST_ASKED;

/// Returns the message of an error, cut because it may repeat what a tenant has written.
pub(super) fn trouble(what: &str, error: &dyn Display) -> String {
    cut(&format!("{what}: {error}"), MESSAGE)
}

/// Returns true if the request itself is rejected, from any sender: by the API server (400), by it
/// or a proxy for its length (414, 431), or here, because no URL is as long.
pub(super) const fn is_no_question(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 400 | 414 | 431),
        kube::Error::BuildRequest(_) => true,
        _ => false,
    }
}

/// Returns how long a busy server asks to wait (Kubernetes: `retryAfterSeconds` of a Status), at
/// most [`LONGEST_ASKED`]; zero if it does not.
pub(super) fn asked_for(error: &kube::Error) -> Duration {
    let kube::Error::Api(status) = error else {
        return Duration::ZERO;
    };
    let seconds = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(seconds.into()).min(LONGEST_ASKED)
}

/// Returns true if `present` is the older version. Versions of one resource are numbers that grow
/// (Kubernetes: KEP-5504); anything else is not compared.
pub(super) fn is_before(present: &str, known: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    number(present)
        .zip(number(known))
        .is_some_and(|(present, known)| present < known)
}

pub(super) fn advance<K: Resource>(version: &mut String, object: &K) {
    if let Some(newer) = &object.meta().resource_version {
        version.clone_from(newer);
    }
}
