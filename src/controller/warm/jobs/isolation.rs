//! Isolation of panics: one in the decision about a job affects this job alone. The job and its
//! pods are left alone for a while; then it starts again, as after a restart of the process.

use std::collections::BTreeMap;

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::reason::Reason;

use super::entry::Entry;
use super::messages::Key;
use crate::frame::isolated::defects::{Defects, log};
use crate::frame::isolated::isolated;

/// The jobs, and which of them have panicked.
pub(crate) struct Jobs {
    pub all: BTreeMap<Key, Entry>,
    defects: Defects<Key>,
}

impl Jobs {
    pub fn new(all: BTreeMap<Key, Entry>) -> Self {
        Self {
            all,
            defects: Defects::default(),
        }
    }

    /// Runs `work` on each job that is not left alone.
    pub fn each<T>(&mut self, now: Moment, mut work: impl FnMut(&Key, &mut Entry) -> T) -> Vec<T> {
        let jobs = self.all.iter_mut();
        jobs.filter_map(|(key, entry)| {
            isolate(&mut self.defects, key, entry, now, |entry| work(key, entry))
        })
        .collect()
    }

    /// Runs `work` on one job, if it exists and is not left alone.
    pub fn with(&mut self, key: &Key, now: Moment, work: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.all.get_mut(key) {
            isolate(&mut self.defects, key, entry, now, work);
        }
    }

    /// Returns true if a job has panicked, and is left alone for now.
    pub fn leaves_alone(&self, key: &Key, now: Moment) -> bool {
        self.defects.is_left_alone(key, now)
    }

    /// Returns how often a decision has panicked since the last call, about a job or about a node
    /// of one.
    pub fn take_defects(&mut self) -> u64 {
        let mut count = self.defects.take_count();
        for ((kind, namespace, name), entry) in &mut self.all {
            for (node, defect) in entry.take_defects() {
                let (reason, kind) = (Reason::DecisionFailed.as_str(), kind.as_str());
                tracing::error!(reason, %namespace, kind, %name, %node, defect, "a defect in swaplet ends the work on a node; please report it");
                count += 1;
            }
        }
        count
    }
}

fn isolate<T>(
    defects: &mut Defects<Key>,
    key: &Key,
    entry: &mut Entry,
    now: Moment,
    work: impl FnOnce(&mut Entry) -> T,
) -> Option<T> {
    if defects.is_left_alone(key, now) {
        return None;
    }
    let (kind, namespace, name) = key;
    let done = isolated(name, || work(entry))
        .inspect_err(|defect| log(kind.as_str(), namespace, name, defect));
    if done.is_err() {
        entry.break_off();
        defects.meet(key.clone(), now);
    }
    done.ok()
}
