//! A map that is kept in a ConfigMap of swaplet's own, for the next run of the process and beside
//! other replicas. What a value means, which of two values of a key counts, which entries to drop
//! where there is no room, and when to write, is its owner's business.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::Patch;
use serde_json::json;
use swaplet_core::report::write_error::WriteError;
use tokio::time::timeout;

use super::list::words;
use super::writer::{FIELD_MANAGER, Writer, creation, failed, params, requests_for};

/// The maximum size of all entries in bytes, with a margin (`core/validation`, `MaxSecretSize`).
pub(crate) const MOST_BYTES: usize = 900_000;
/// The deadline of a read.
const ANSWER: Duration = Duration::from_secs(10);

/// Entries, by their keys.
pub(crate) type Entries = BTreeMap<String, String>;
/// New entries, and `None` for those to remove, by their keys.
pub(crate) type Changes = BTreeMap<String, Option<String>>;

/// A ConfigMap that is written only as it was last read or written.
pub(crate) struct KeptMap {
    writer: Writer,
    /// `metadata.namespace`
    pub namespace: String,
    name: &'static str,
    /// The version that was last read or written; `None` where there is no ConfigMap.
    version: Option<String>,
    /// The keys of that version.
    keys: BTreeSet<String>,
}

impl KeptMap {
    /// Returns a map that has not been read.
    pub fn new(writer: Writer, namespace: &str, name: &'static str) -> Self {
        Self {
            writer,
            namespace: namespace.to_owned(),
            name,
            version: None,
            keys: BTreeSet::new(),
        }
    }

    /// Reads all entries; there are none where there is no ConfigMap.
    ///
    /// # Errors
    /// Returns the error of the API server, or that its answer does not come in time.
    pub async fn read(&mut self) -> Result<Entries, String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.writer.client.clone(), &self.namespace);
        let answer = timeout(ANSWER, maps.get_opt(self.name))
            .await
            .map_err(|_| "no answer in time".to_owned())?;
        let map = answer.map_err(|error| words(&error))?;
        Ok(self.observe(map.unwrap_or_default()))
    }

    /// Like [`change`](Self::change): writes these entries and removes all others.
    pub async fn replace(
        &mut self,
        entries: Entries,
        merge: impl FnOnce(Entries),
    ) -> Result<(), WriteError> {
        let mut changes: Changes = self.keys.iter().map(|key| (key.clone(), None)).collect();
        changes.extend(entries.into_iter().map(|(key, text)| (key, Some(text))));
        self.change(&changes, merge).await
    }

    /// Makes the changes, if nobody else has written since the last read or write.
    ///
    /// # Errors
    /// Returns [`WriteError::Conflict`] or [`WriteError::Gone`] if somebody has: then the entries
    /// are read again and passed to `merge`, and the next write begins from them.
    pub async fn change(
        &mut self,
        changes: &Changes,
        merge: impl FnOnce(Entries),
    ) -> Result<(), WriteError> {
        match self.write(changes).await {
            Ok(map) => {
                self.observe(map);
                Ok(())
            }
            Err(overtaken @ (WriteError::Conflict | WriteError::Gone)) => {
                merge(self.read().await.map_err(failed)?);
                Err(overtaken)
            }
            Err(error) => Err(error),
        }
    }

    async fn write(&self, changes: &Changes) -> Result<ConfigMap, WriteError> {
        let maps = requests_for::<ConfigMap>(&(), Some(&self.namespace));
        self.writer.in_time("configmaps", async {
            let built = match &self.version {
                Some(version) => {
                    let patch = json!({"metadata": {"resourceVersion": version}, "data": changes});
                    maps.patch(self.name, &params(), &Patch::Merge(patch))
                }
                None => {
                    let labels = json!({"app.kubernetes.io/managed-by": FIELD_MANAGER});
                    let data: BTreeMap<_, _> = changes.iter().filter_map(|(key, text)| Some((key, text.as_ref()?))).collect();
                    let map = json!({"metadata": {"name": self.name, "namespace": self.namespace, "labels": labels}, "data": data});
                    creation(&maps, &map)
                }
            };
            self.writer.decoded(built, &[]).await
        })
        .await
    }

    /// Takes this as the latest version, and returns its entries.
    fn observe(&mut self, map: ConfigMap) -> Entries {
        let entries = map.data.unwrap_or_default();
        self.version = map.metadata.resource_version;
        self.keys = entries.keys().cloned().collect();
        entries
    }
}

/// Returns those entries that fit into a ConfigMap; earlier ones go first.
pub(crate) fn fitting(entries: impl Iterator<Item = (String, String)>) -> Entries {
    let mut room = MOST_BYTES;
    let fits = |(key, text): &(String, String)| {
        let left = room.checked_sub(key.len() + text.len());
        room = left.unwrap_or(room);
        left.is_some()
    };
    entries.filter(fits).collect()
}
