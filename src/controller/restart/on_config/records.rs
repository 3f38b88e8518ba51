//! The configuration that the containers of pods have observed, in a `ConfigMap` of our own with
//! one entry per pod. Without it, a change while no controller ran would go unnoticed.

use std::collections::BTreeSet;

use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::{Contents, record};

use super::{Put, Shelf};
use crate::frame::connection::Namespaces;
use crate::frame::kept_map::{Entries, KeptMap, MOST_BYTES};
use crate::frame::writer::Writer;

/// The name of the `ConfigMap`.
const RECORDS: &str = "swaplet-restart-on";

/// The records, and which of them are not stored yet.
pub struct Records {
    map: KeptMap,
    kept: Shelf,
    changed: BTreeSet<Box<str>>,
    /// Pods whose records were dropped for those of other namespaces, until somebody takes them.
    pub(super) dropped: Vec<Box<str>>,
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
    pub fn new(writer: Writer, namespace: &str) -> Self {
        Self {
            map: KeptMap::new(writer, namespace, RECORDS),
            kept: Shelf::new(MOST_BYTES),
            changed: BTreeSet::new(),
            dropped: Vec::new(),
        }
    }

    /// Returns the record of a pod.
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

    /// Drops the records of pods that do not exist.
    pub fn retain(&mut self, namespaces: &Namespaces, is_there: impl Fn(&str) -> bool) {
        let is_gone =
            |uid: &str, record: &Record| namespaces.contain(&record.namespace) && !is_there(uid);
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
    pub async fn store(&mut self) -> Result<(), WriteError> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let text = |uid: &str| self.kept.get(uid).map(|record| record.text.clone());
        let changes = self
            .changed
            .iter()
            .map(|uid| (uid.to_string(), text(uid)))
            .collect();
        let (kept, changed) = (&mut self.kept, &self.changed);
        self.map
            .change(&changes, |stored| merge(kept, changed, stored))
            .await?;
        self.changed.clear();
        Ok(())
    }

    /// Reads the stored records. Records that are changed and not stored stay as they are.
    ///
    /// # Errors
    /// Returns the error of the API server.
    pub async fn load(&mut self) -> Result<(), String> {
        let stored = self.map.read().await?;
        merge(&mut self.kept, &self.changed, stored);
        Ok(())
    }
}

/// Replaces the records with the stored ones, except for those that are changed and not stored.
fn merge(kept: &mut Shelf, changed: &BTreeSet<Box<str>>, stored: Entries) {
    let stored = stored
        .into_iter()
        .filter_map(|(uid, text)| Some((Box::from(uid), Record::read(&text)?)));
    let mut merged = Shelf::with(MOST_BYTES, stored);
    for uid in changed {
        match kept.remove(uid) {
            Some(record) => merged.insert(uid.clone(), record),
            None => drop(merged.remove(uid)),
        }
    }
    *kept = merged;
}
