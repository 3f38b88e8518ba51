//! What the containers of pods have seen, in a `ConfigMap` of our own: one entry per pod. Without
//! it, a change that happened while no controller ran would go unnoticed.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::{Contents, record};
use tokio::time::timeout;

use super::shelf::{Put, Shelf};
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::list::words;
use crate::frame::writer::{Outcome, Writer};
use crate::restart::on_config::write::RECORDS;

/// What a `ConfigMap` may hold, with a margin (`core/validation`, `MaxSecretSize`).
const MOST_BYTES: usize = 900_000;
/// For one answer of the API server.
const ANSWER: Duration = Duration::from_secs(10);

/// The records, and which of them are not stored yet.
pub struct Records {
    maps: Api<ConfigMap>,
    namespace: String,
    version: Option<String>,
    kept: Shelf,
    changed: BTreeSet<Box<str>>,
    /// Pods whose records have made room for those of other namespaces, and who were not asked for
    /// yet.
    dropped: Vec<Box<str>>,
}

/// The record of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub namespace: Box<str>,
    pub seen: Contents,
    /// As it is stored.
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
    /// None are known yet: they have to be [loaded](Self::load).
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

    /// What was recorded of a pod.
    #[must_use]
    pub fn of(&self, uid: &str) -> Option<&Contents> {
        self.kept.get(uid).map(|record| &record.seen)
    }

    /// This is the record of a pod now; whether there is room for it.
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

    /// The pods whose records have made room for those of other namespaces since this was asked the
    /// last time.
    pub fn take_dropped(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.dropped)
    }

    /// Drops the records of pods that are not there.
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

    /// Stores what has changed.
    ///
    /// # Errors
    /// Why it is not stored; what was changed stays so, and is stored with the next try.
    pub async fn store(&mut self, writer: &Writer) -> Result<(), Outcome> {
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
            Err(outcome) => {
                if matches!(
                    outcome,
                    Outcome::Conflict | Outcome::Gone | Outcome::Failed { .. }
                ) && let Err(error) = self.load().await
                {
                    tracing::debug!(error, "the records cannot be read");
                }
                Err(outcome)
            }
        }
    }

    /// Reads what is stored. What has changed here and is not stored stays as it is.
    ///
    /// # Errors
    /// What the API server answers.
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
