//! The record of upgrades, written to a pod together with an image, so that another run of the
//! process continues where this one ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The annotation of a pod that holds the [`Record`].
pub const RECORD: &str = "swaplet.io/hot-upgrade";

/// The upgrades of a pod, by name of the sidecar in the `SidecarSet`. Anyone who may change the pod
/// can write it: it decides when an upgrade continues, never to which image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record(pub BTreeMap<Box<str>, Entry>);

/// An upgrade that is in progress, or the last one that was taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Entry {
    /// The new image of the upgrade.
    pub image: Box<str>,
    /// The container's status before it got the new image
    /// ([`UpgradeContainer::run`](super::pod::UpgradeContainer::run)).
    pub run: Box<str>,
    /// The `imageID` of the empty image; empty if the node did not report it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub bytes: Box<str>,
    /// `metadata.generation` of the pod before the container got the new image; `None` if the API
    /// server counts none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The generation of the `SidecarSet` for which it was taken back; `None` until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i64>,
    /// Images of earlier upgrades that were taken back since the container was last seen to work: a
    /// kubelet does not break off a pull, so it may start them all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Box<str>>,
}

/// The most images that are recorded as taken back. Of more, the first may still be pulled.
const MOST_EARLIER: usize = 8;

impl Entry {
    /// Returns the images of this upgrade, which was taken back, and of those before it.
    pub fn all(&self) -> Vec<Box<str>> {
        let mut all = self.earlier.clone();
        all.retain(|image| *image != self.image);
        all.push(self.image.clone());
        if all.len() > MOST_EARLIER {
            all.remove(1);
        }
        all
    }
}

impl Record {
    /// Parses the value of the annotation; empty if that fails.
    pub fn read(value: &str) -> Self {
        serde_json::from_str(value).unwrap_or_default()
    }

    /// Returns the value of the annotation; `None` if empty, so that the annotation goes.
    pub fn as_text(&self) -> Option<String> {
        let is_there = !self.0.is_empty();
        is_there.then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Returns a copy with this entry for the sidecar, or without one for `None`.
    pub fn with(&self, sidecar: &str, entry: Option<Entry>) -> Self {
        let mut record = self.clone();
        match entry {
            Some(entry) => record.0.insert(sidecar.into(), entry),
            None => record.0.remove(sidecar),
        };
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_anything_else_is_empty() {
        let entry = Entry {
            image: "mesh:2".into(),
            run: "containerd://1 0".into(),
            ..Entry::default()
        };
        let record = Record::default().with("mesh", Some(entry.clone()));
        let text = record.as_text().unwrap();
        assert_eq!(
            text,
            r#"{"mesh":{"image":"mesh:2","run":"containerd://1 0"}}"#
        );
        assert_eq!(Record::read(&text), record);
        assert_eq!(record.with("mesh", None).as_text(), None);
        let failed = Entry {
            failed: Some(3),
            ..entry
        };
        let failed = record.with("mesh", Some(failed));
        assert_eq!(Record::read(&failed.as_text().unwrap()), failed);
        for strange in [
            "",
            "{",
            "[]",
            "1",
            r#"{"mesh":1}"#,
            r#"{"mesh":{"image":2}}"#,
        ] {
            assert_eq!(Record::read(strange), Record::default(), "{strange}");
        }
    }
}
