//! The stored form of the contents that a pod has loaded: one entry of swaplet's own `ConfigMap`,
//! under the uid of the pod.

use serde::{Deserialize, Serialize};

use super::pod::ConfiguredPod;
use super::{Contents, as_text, from_text};

#[derive(Serialize, Deserialize)]
struct Stored {
    /// `namespace/name`
    pod: String,
    /// The contents, as [`as_text`] writes them.
    seen: serde_json::Value,
}

/// Returns the entry of a pod that has loaded these contents.
pub fn text(pod: &ConfiguredPod, seen: &Contents) -> String {
    let stored = Stored {
        pod: format!("{}/{}", pod.namespace, pod.name),
        seen: serde_json::from_str(&as_text(seen)).unwrap_or_default(),
    };
    // An object of texts is always JSON.
    serde_json::to_string(&stored).unwrap_or_default()
}

/// Parses an entry to the pod's namespace and contents; `None` if swaplet did not write it.
pub fn read(text: &str) -> Option<(Box<str>, Contents)> {
    let stored: Stored = serde_json::from_str(text).ok()?;
    let (namespace, _) = stored.pod.split_once('/')?;
    Some((namespace.into(), from_text(&stored.seen.to_string())?))
}
