//! What a pod has seen, as it is stored: one entry of a `ConfigMap` of our own, under the uid of
//! the pod.

use serde::{Deserialize, Serialize};

use super::pod::ConfiguredPod;
use super::{Contents, as_text, from_text};

#[derive(Serialize, Deserialize)]
struct Stored {
    /// `namespace/name`
    pod: String,
    /// [`as_text`]
    seen: serde_json::Value,
}

/// The entry of a pod that has seen this.
#[must_use]
pub fn text(pod: &ConfiguredPod, seen: &Contents) -> String {
    let stored = Stored {
        pod: format!("{}/{}", pod.namespace, pod.name),
        seen: serde_json::from_str(&as_text(seen)).unwrap_or_default(),
    };
    // An object of texts is always JSON.
    serde_json::to_string(&stored).unwrap_or_default()
}

/// The namespace of the pod, and what it has seen; `None` where the entry is none of ours.
#[must_use]
pub fn read(text: &str) -> Option<(Box<str>, Contents)> {
    let stored: Stored = serde_json::from_str(text).ok()?;
    let (namespace, _) = stored.pod.split_once('/')?;
    Some((namespace.into(), from_text(&stored.seen.to_string())?))
}
