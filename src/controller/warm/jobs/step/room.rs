//! The room for jobs: each takes memory for each of its images on each of its nodes, and any tenant
//! creates jobs. Those for which there is no room wait without nodes, and their status says so.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::warm::jobs::{Key, PullJobs};

/// The room of all jobs, as a number of images on nodes; each takes about 140 bytes.
const ALL: usize = 2_000_000;
/// The room of a namespace. One job may take more, as with 255 images on 5000 nodes.
const EACH: usize = 1_000_000;

/// The room that a job wants.
pub(crate) struct Wanted {
    pub waits: bool,
    /// When the job began.
    pub since: Option<Timestamp>,
    /// The number of images on nodes.
    pub cost: usize,
}

impl PullJobs {
    pub(crate) fn share_room(&mut self) {
        let nodes = &self.nodes;
        let jobs = self.jobs.all.iter();
        let wanted = jobs.filter_map(|(key, entry)| Some((key, entry.wanted_room(nodes)?)));
        let waiting = without_room(wanted.collect(), (ALL, EACH));
        for (key, entry) in &mut self.jobs.all {
            entry.has_room(!waiting.contains(key));
        }
    }
}

/// Returns the jobs for which there is no room: of all, or of their namespace. Namespaces have one
/// turn after another for one job each. In each turn, and within a namespace, those come first that
/// have room already, because what they have done would be lost; then in a turn the smallest, and
/// within a namespace those that have begun first.
fn without_room(mut wanted: Vec<(&Key, Wanted)>, (all, each): (usize, usize)) -> BTreeSet<Key> {
    let sum: usize = wanted.iter().map(|(_, job)| job.cost).sum();
    if sum <= all.min(each) {
        return BTreeSet::new();
    }
    wanted.sort_by_key(|(key, job)| (job.waits, job.since.unwrap_or(Timestamp::MAX), *key));
    let mut lines: BTreeMap<&str, Vec<(&Key, Wanted)>> = BTreeMap::new();
    // In reverse, because the last one is taken first.
    for (key, job) in wanted.into_iter().rev() {
        lines.entry(&key.1).or_default().push((key, job));
    }
    let (mut in_all, mut in_namespaces) = (0, BTreeMap::<&str, usize>::new());
    let mut waiting = BTreeSet::new();
    while !lines.is_empty() {
        let mut turn: Vec<_> = lines.values_mut().filter_map(Vec::pop).collect();
        // A job that is new has done nothing.
        turn.sort_by_key(|(_, job)| (job.waits || job.since.is_none(), job.cost));
        for (key, job) in turn {
            let in_namespace = in_namespaces.entry(&key.1).or_default();
            let fits_beside = *in_namespace == 0 || *in_namespace + job.cost <= each;
            if fits_beside && (in_all == 0 || in_all + job.cost <= all) {
                *in_namespace += job.cost;
                in_all += job.cost;
            } else {
                waiting.insert(key.clone());
            }
        }
        lines.retain(|_, line| !line.is_empty());
    }
    waiting
}

#[cfg(test)]
mod tests {
    use swaplet_core::warm::pull_job::object::JobKind;

    use super::*;

    /// The names of the jobs that wait, of 100 in all and 50 for each namespace.
    fn waiting(jobs: &[(&str, &str, usize, bool)]) -> Vec<String> {
        let key = |(namespace, name, ..): &(&str, &str, usize, bool)| -> Key {
            (JobKind::ImagePullJob, (*namespace).into(), (*name).into())
        };
        let keys: Vec<Key> = jobs.iter().map(key).collect();
        let wanted = |(_, name, cost, waits): &(&str, &str, usize, bool)| Wanted {
            waits: *waits,
            since: (*name != "new").then_some(Timestamp::UNIX_EPOCH),
            cost: *cost,
        };
        let wanted = keys.iter().zip(jobs.iter().map(wanted)).collect();
        let waiting = without_room(wanted, (100, 50));
        waiting.into_iter().map(|key| key.2.into()).collect()
    }

    #[test]
    fn a12_a_namespace_has_half_of_the_room_or_one_job() {
        let x = |cost, waits| ("a", "x", cost, waits);
        let y = |cost, waits| ("a", "y", cost, waits);
        assert_eq!(waiting(&[x(25, false), y(25, false)]), [""; 0]);
        assert_eq!(waiting(&[x(25, false), y(26, false)]), ["y"]);
        assert_eq!(waiting(&[x(25, true), y(26, false)]), ["x"]);
        assert_eq!(waiting(&[x(250, false)]), [""; 0]);
        assert_eq!(waiting(&[x(250, false), y(1, false)]), ["y"]);
    }

    #[test]
    fn a12_another_namespace_has_its_turn_before_the_second_job_of_one() {
        let mut jobs = vec![("a", "w", 20, false), ("a", "x", 20, false)];
        jobs.extend([("b", "y", 50, false), ("c", "z", 20, true)]);
        assert_eq!(waiting(&jobs), ["x"]);
        jobs.push(("d", "v", 60, true));
        assert_eq!(waiting(&jobs), ["x", "v"]);
    }

    #[test]
    fn u110_a_job_that_has_room_keeps_it_beside_a_smaller_one_that_comes_later() {
        let jobs = [("a", "x", 90, false), ("b", "new", 20, false)];
        assert_eq!(waiting(&jobs), ["new"]);
    }
}
