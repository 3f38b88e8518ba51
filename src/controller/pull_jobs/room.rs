//! Who is on which node: one job at a time has a pod on a node, and others that want it are waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Key;
use super::entry::Entry;
use crate::decide::warm::{Action, Elsewhere};
use crate::objects::warmer_pod::WarmerPod;

/// Nodes that are taken, and those that are waited for.
pub(super) struct Room {
    taken: BTreeMap<Box<str>, BTreeSet<Option<Key>>>,
    wanted: BTreeMap<Box<str>, BTreeSet<Key>>,
}

impl Room {
    pub fn of<'a>(jobs: &BTreeMap<Key, Entry>, orphans: impl Iterator<Item = &'a WarmerPod>, now: Duration) -> Self {
        let mut taken: BTreeMap<Box<str>, BTreeSet<Option<Key>>> = BTreeMap::new();
        // A pod that is being deleted may hang there for ever; its kubelet pulls no more.
        for pod in orphans.filter(|pod| !pod.deleting) {
            taken.entry(pod.node.clone()).or_default().insert(None);
        }
        for (key, entry) in jobs {
            for node in entry.active() {
                taken.entry(node.into()).or_default().insert(Some(key.clone()));
            }
        }
        let waits = |node: &str| jobs.iter().filter(|(_, entry)| entry.waits_for(node, now)).map(|(key, _)| key.clone()).collect();
        let wanted = taken.keys().map(|node| (node.clone(), waits(node))).collect();
        Self { taken, wanted }
    }

    /// What others than this job do on a node.
    pub fn elsewhere(&self, key: &Key, node: &str) -> Elsewhere {
        let others = |holders: &BTreeSet<Option<Key>>| holders.iter().any(|holder| holder.as_ref() != Some(key));
        let waiting = |jobs: &BTreeSet<Key>| jobs.iter().any(|job| job != key);
        Elsewhere { taken: self.taken.get(node).is_some_and(others), wanted: self.wanted.get(node).is_some_and(waiting) }
    }

    /// A job begins on a node.
    pub fn note(&mut self, key: &Key, node: &str, action: &Action) {
        if matches!(action, Action::Create { .. }) {
            self.taken.entry(node.into()).or_default().insert(Some(key.clone()));
        }
    }
}
