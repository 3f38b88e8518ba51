//! The configuration that the containers of pods have observed, in a `ConfigMap` of our own with
//! one entry per pod. Without it, a change while no controller ran would go unnoticed.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::{Contents, record};
use tokio::time::timeout;

use super::shelf::{Put, Shelf};
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::list::words;
use crate::frame::writer::Writer;
use crate::restart::on_config::write::RECORDS;

/// The maximum size of the `ConfigMap` in bytes, with a margin (`core/validation`,
/// `MaxSecretSize`).
const MOST_BYTES: usize = 900_000;
/// The deadline of one request to the API server.
const ANSWER: Duration = Duration::from_secs(10);

/// The records, and which of them are not stored yet.
pub struct Records {
    maps: Api<ConfigMap>,
    namespace: String,
    version: Option<String>,
    kept: Shelf,
    changed: BTreeSet<Box<str>>,
    /// Pods whose records were dropped for those of other namespaces, until they are returned once.
    dropped: Vec<Box<str>>,
}

/// The record of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub namespace: Box<str>,
    pub seen: Contents,
    /// The record as it is stored.
    pub text: String,
}

impl Record {
    fn of(pod: &ConfiguredPod, seen: &Contents) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            seen: seen.clone(),
            text: record::text(pod, seen),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (namespace, seen) = record::read(text)?;
        Some(Self {
            namespace,
            seen,
            text: text.to_owned(),
        })
    }
}

impl Records {
    /// Returns an empty set of records, to be [loaded](Self::load).
    #[must_use]
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            maps: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            version: None,
            kept: Shelf::new(MOST_BYTES),
            changed: BTreeSet::new(),
            dropped: Vec::new(),
        }
    }

    /// Returns the record of a pod.
    #[must_use]
    pub fn of(&self, uid: &str) -> Option<&Contents> {
        self.kept.get(uid).map(|record| &record.seen)
    }

    /// Sets the record of a pod; returns false if there is no room for it.
    pub fn keep(&mut self, pod: &ConfiguredPod, seen: &Contents) -> bool {
        if self.of(&pod.uid) == Some(seen) {
            return true;
        }
        let Put::Kept(dropped) = self.kept.put(&pod.uid, Record::of(pod, seen)) else {
            return false;
        };
        self.changed.insert(pod.uid.clone());
        self.changed.extend(dropped.iter().cloned());
        self.dropped.extend(dropped);
        true
    }

    /// Returns the pods whose records were dropped for those of other namespaces since the last
    /// call.
    pub fn take_dropped(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.dropped)
    }

    /// Drops the records of pods that do not exist.
    pub fn retain(&mut self, namespaces: &Namespaces, is_there: impl Fn(&str) -> bool) {
        let is_gone =
            |uid: &str, record: &Record| namespaces.has(&record.namespace) && !is_there(uid);
        let gone: Vec<_> = self
            .kept
            .iter()
            .filter(|(uid, record)| is_gone(uid, record))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            self.kept.remove(&uid);
            self.changed.insert(uid);
        }
    }

    /// Stores the changed records.
    ///
    /// # Errors
    /// Returns why they were not stored; they stay changed, and the next call retries.
    pub async fn store(&mut self, writer: &Writer) -> Result<(), WriteError> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let text = |uid: &str| self.kept.get(uid).map(|record| record.text.clone());
        let changes = self
            .changed
            .iter()
            .map(|uid| (uid.to_string(), text(uid)))
            .collect();
        match writer
            .record(&self.namespace, self.version.as_deref(), &changes)
            .await
        {
            Ok(version) => {
                self.version = version;
                self.changed.clear();
                Ok(())
            }
            Err(refused) => {
                if !matches!(refused, WriteError::Denied(_))
                    && let Err(error) = self.load().await
                {
                    tracing::debug!(error, "the records cannot be read");
                }
                Err(refused)
            }
        }
    }

    /// Reads the stored records. Records that are changed and not stored stay as they are.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn load(&mut self) -> Result<(), String> {
        let answer = timeout(ANSWER, self.maps.get_opt(RECORDS))
            .await
            .map_err(|_| "no answer in time".to_owned())?;
        let map = answer.map_err(|error| words(&error))?.unwrap_or_default();
        let stored = map
            .data
            .into_iter()
            .flatten()
            .filter_map(|(uid, text)| Some((Box::from(uid), Record::read(&text)?)));
        let mut kept = Shelf::with(MOST_BYTES, stored);
        for uid in &self.changed {
            match self.kept.remove(uid) {
                Some(record) => kept.insert(uid.clone(), record),
                None => drop(kept.remove(uid)),
            }
        }
        self.version = map.metadata.resource_version;
        self.kept = kept;
        Ok(())
    }
}
