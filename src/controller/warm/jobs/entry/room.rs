//! The memory that a job takes: for each of its images on each of its nodes, and for each pod that
//! it selects.

use std::collections::BTreeSet;

use swaplet_core::warm::pull_job::object::Targets;
use swaplet_core::warm::pull_job::wants;

use super::Entry;
use crate::warm::jobs::nodes::Nodes;
use crate::warm::jobs::step::room::Wanted;

/// What a node takes besides its images, as a number of images.
const NODE: usize = 4;

impl Entry {
    /// Returns how much room the job takes, or may take if it waits; `None` if it needs none, or the
    /// administrator wants it.
    pub fn wanted_room(&self, nodes: &Nodes) -> Option<Wanted> {
        if self.is_completed() || self.is_of_installation() {
            return None;
        }
        let spec = self.spec().ok()?;
        let all = nodes.all.len();
        let count = match (&self.run, &spec.targets) {
            (Some(run), _) if !self.waits_for_room && !self.is_stale => run.nodes.len(),
            (_, Targets::Names(names)) => names.len().min(all),
            (_, Targets::Pods(_)) => self.selected.count().min(all),
            // To compare those that wait with all nodes in each step would take too long.
            (_, Targets::Labels(_)) if self.waits_for_room => all,
            (_, Targets::Labels(_)) => {
                let (nodes, pods) = (nodes.all.iter(), BTreeSet::new());
                let wanted = nodes.filter(|(name, node)| wants(&spec.targets, name, node, &pods));
                wanted.count()
            }
        };
        Some(Wanted {
            waits: self.waits_for_room,
            since: self.started_at,
            // A selected pod takes about as much as an image on a node.
            cost: count
                .saturating_mul(spec.images.len() + NODE)
                .saturating_add(self.selected.count()),
        })
    }

    /// Records whether there is room for the job. Without room it has no nodes, its pods are
    /// deleted, and those that it selects are forgotten.
    pub fn has_room(&mut self, has_room: bool) {
        if self.waits_for_room == has_room {
            self.waits_for_room = !has_room;
            (self.is_stale, self.has_news) = (true, true);
            if !has_room {
                self.run = None;
                self.selected.forget();
            }
        }
    }

    /// Returns true if there is room for its nodes, and the nodes of selected pods are known.
    pub(super) fn knows_its_nodes(&self) -> bool {
        self.selected.are_known() && !self.waits_for_room
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use swaplet_core::cluster::node_table::NodeTable;
    use swaplet_core::warm::pull_job::object::{JobKind, PullJob};

    use super::*;
    use crate::frame::watch::Event;

    /// A job that selects pods.
    fn job(status: &Value) -> PullJob {
        let metadata = json!({"name": "j", "namespace": "team", "uid": "u", "generation": 1});
        let spec = json!({"image": "a", "podSelector": {"matchLabels": {"app": "web"}}});
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        let object = serde_json::from_value(object).unwrap();
        PullJob::read(JobKind::ImagePullJob, object).unwrap()
    }

    /// A list of so many pods.
    fn lists(entry: &mut Entry, count: usize) {
        entry.observe_selected(Event::ListStart);
        for number in 0..count {
            let metadata = json!({"name": "p", "namespace": "team", "uid": number.to_string()});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
            entry.observe_selected(Event::Listed(serde_json::from_value(pod).unwrap()));
        }
        entry.observe_selected(Event::ListEnd);
    }

    fn cost(entry: &Entry) -> usize {
        let nodes = Nodes::new(NodeTable::built_in(), None, false);
        entry.wanted_room(&nodes).unwrap().cost
    }

    #[test]
    fn a12_selected_pods_take_room_and_are_forgotten_where_there_is_none() {
        let mut entry = Entry::new(job(&json!({})));
        lists(&mut entry, 3);
        assert_eq!((cost(&entry), entry.knows_its_nodes()), (3, true));
        let query = entry.query().cloned();
        entry.has_room(false);
        assert!(entry.selected.nodes().is_empty() && entry.query().is_none());
        assert_eq!(cost(&entry), 3, "it needs no less than before");
        entry.has_room(true);
        assert!(entry.query().is_some() && entry.query() != query.as_ref());
        assert_eq!((cost(&entry), entry.knows_its_nodes()), (3, false));
        lists(&mut entry, 1);
        assert_eq!((cost(&entry), entry.knows_its_nodes()), (1, true));
    }

    #[test]
    fn a12_a_completed_job_keeps_none_of_the_pods_that_it_has_selected() {
        let mut entry = Entry::new(job(&json!({})));
        lists(&mut entry, 3);
        let status = json!({"startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:01:00Z", "observedGeneration": 1});
        entry.apply(job(&status));
        entry.are_followed(&BTreeSet::new());
        assert_eq!(entry.selected.count(), 0);
    }
}
