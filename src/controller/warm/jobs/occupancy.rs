//! The sharing of nodes: one job at a time has a pod on a node, and makes room for others that want
//! it. Jobs take turns, namespace by namespace.

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::warming::{Action, Elsewhere};

use super::entry::Entry;
use super::{Key, PullWrite};

/// From this many jobs with a slow pull on, a node counts as taken. A job that waits then waits for
/// one of them, which makes room after a while.
const MOST_SLOW: usize = 2;

/// How many namespaces without jobs are remembered with their last turn: else one would be the first
/// again after it had no job for a moment.
const REMEMBERED: usize = 4096;

/// The jobs with a pod on each node; `None` stands for pods of no job.
pub(crate) type Taken = BTreeMap<Box<str>, BTreeSet<Option<Key>>>;

/// The nodes that are taken, and the jobs that wait for them.
pub(crate) struct Occupancy {
    pub taken: Taken,
    wanted: BTreeMap<Box<str>, BTreeSet<Key>>,
}

impl Occupancy {
    pub fn of<'a>(
        jobs: &BTreeMap<Key, Entry>,
        orphans: impl Iterator<Item = &'a WarmerPod>,
        now: Moment,
    ) -> Self {
        let (mut taken, mut slow) = (Taken::new(), Taken::new());
        // A terminating pod may stay for ever, and its kubelet no longer pulls.
        for pod in orphans.filter(|pod| !pod.deleting) {
            taken.entry(pod.node.clone()).or_default().insert(None);
        }
        for (key, entry) in jobs {
            let held = entry.warming().map(|warming| warming.held(now));
            for (node, is_slow) in held.into_iter().flatten() {
                let holders = if is_slow { &mut slow } else { &mut taken };
                let holders = holders.entry(node.into()).or_default();
                holders.insert(Some(key.clone()));
            }
        }
        // A registry that hangs keeps no job from the node, unless several do.
        for (node, jobs) in slow.into_iter().filter(|(_, jobs)| jobs.len() >= MOST_SLOW) {
            taken.entry(node).or_default().extend(jobs);
        }
        let waiting: Vec<_> = jobs
            .iter()
            .filter(|(_, entry)| entry.has_a_slot())
            .filter_map(|(key, entry)| Some((key, entry.warming()?)))
            .filter(|(_, warming)| warming.has_more())
            .collect();
        // Two are enough to decide, for each job, whether another one waits.
        let waits = |node: &str| {
            waiting
                .iter()
                .filter(|(_, warming)| warming.waits_for(node, now))
                .map(|(key, _)| (*key).clone())
                .take(2)
                .collect()
        };
        let wanted = taken
            .keys()
            .map(|node| (node.clone(), waits(node)))
            .collect();
        Self { taken, wanted }
    }

    /// Returns what other jobs do on a node.
    pub fn elsewhere(&self, key: &Key, node: &str) -> Elsewhere {
        let others = |holders: &BTreeSet<Option<Key>>| {
            holders.iter().any(|holder| holder.as_ref() != Some(key))
        };
        let waiting = |jobs: &BTreeSet<Key>| jobs.iter().any(|job| job != key);
        let (taken, wanted) = (
            self.taken.get(node).is_some_and(others),
            self.wanted.get(node).is_some_and(waiting),
        );
        Elsewhere {
            taken,
            wanted,
            others_pull: false,
        }
    }

    /// Returns the nodes whose holders have changed since the step that left `before`.
    pub fn changes<'a>(&'a self, before: &'a Taken) -> impl Iterator<Item = &'a str> {
        before
            .iter()
            .filter(|(node, holders)| self.taken.get(*node) != Some(*holders))
            .map(|(node, _)| &**node)
    }

    /// Records that a job begins on a node.
    pub fn note(&mut self, key: &Key, node: &str, action: &Action) {
        if matches!(action, Action::Create { .. }) {
            self.taken
                .entry(node.into())
                .or_default()
                .insert(Some(key.clone()));
        }
    }
}

/// The order in which jobs may begin on free nodes.
#[derive(Default)]
pub(crate) struct Turns {
    last: u64,
    /// When each namespace last began on a node, as a sequence number.
    namespaces: BTreeMap<Box<str>, u64>,
    /// When each job last began on a node, as a sequence number.
    jobs: BTreeMap<Key, u64>,
}

impl Turns {
    /// Returns the jobs in their order. The installation's own images come first, because they are
    /// few and small, and nodes with the startup taint wait for them. Then come the namespaces that
    /// have waited longest, and in each the job that has: however many jobs it has, a namespace
    /// gets one turn.
    pub fn order(&mut self, jobs: &BTreeMap<Key, Entry>) -> Vec<Key> {
        self.jobs.retain(|key, _| jobs.contains_key(key));
        self.forget(jobs);
        let mut order: Vec<&Key> = jobs.keys().collect();
        order.sort_by_key(|key| {
            let is_of_installation = jobs.get(*key).is_some_and(Entry::is_of_installation);
            (
                !is_of_installation,
                self.namespaces.get(&key.1).copied(),
                self.jobs.get(*key).copied(),
            )
        });
        order.into_iter().cloned().collect()
    }

    /// Forgets the namespaces without jobs, if there are very many.
    fn forget(&mut self, jobs: &BTreeMap<Key, Entry>) {
        if self.namespaces.len() > REMEMBERED {
            let present: BTreeSet<&str> = jobs.keys().map(|key| &*key.1).collect();
            self.namespaces
                .retain(|namespace, _| present.contains(&**namespace));
        }
    }

    /// Records that a job begins on a node.
    pub fn note(&mut self, write: &PullWrite) {
        if let PullWrite::Warm {
            key,
            action: Action::Create { .. },
            ..
        } = write
        {
            self.last += 1;
            self.namespaces.insert(key.1.clone(), self.last);
            self.jobs.insert(key.clone(), self.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::warm::pull_job::object::{JobKind, PullJob};

    use super::*;
    use crate::warm::jobs::key_of;

    fn jobs(namespaces: &[&str]) -> BTreeMap<Key, Entry> {
        let job = |namespace: &str| {
            let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob",
                "metadata": {"name": "j", "namespace": namespace, "uid": namespace}, "spec": {"image": "a"}});
            PullJob::read(
                JobKind::ImagePullJob,
                serde_json::from_value(object).unwrap(),
            )
            .unwrap()
        };
        let jobs = namespaces.iter().map(|namespace| job(namespace));
        jobs.map(|job| (key_of(&job), Entry::new(job.into())))
            .collect()
    }

    fn order(turns: &mut Turns, namespaces: &[&str]) -> Vec<String> {
        let order = turns.order(&jobs(namespaces));
        order.into_iter().map(|key| key.1.into()).collect()
    }

    impl Turns {
        fn begins(&mut self, namespace: &str) {
            self.last += 1;
            self.namespaces.insert(namespace.into(), self.last);
        }
    }

    #[test]
    fn a9_who_has_no_job_for_a_moment_keeps_its_place_behind_those_that_wait() {
        let mut turns = Turns::default();
        turns.begins("modest");
        turns.begins("greedy");
        assert_eq!(order(&mut turns, &["modest"]), ["modest"]);
        assert_eq!(
            order(&mut turns, &["greedy", "modest"]),
            ["modest", "greedy"]
        );
    }

    #[test]
    fn namespaces_without_jobs_are_forgotten_where_there_are_too_many() {
        let mut turns = Turns::default();
        turns.begins("present");
        for number in 1..REMEMBERED {
            turns.begins(&format!("n{number}"));
        }
        order(&mut turns, &["present"]);
        assert_eq!(turns.namespaces.len(), REMEMBERED);
        turns.begins("one too many");
        order(&mut turns, &["present"]);
        assert_eq!(turns.namespaces.len(), 1);
        assert!(turns.namespaces.contains_key("present"));
    }
}
