//! The memory that a job takes: for each of its images on each of its nodes.

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
            cost: count.saturating_mul(spec.images.len() + NODE),
        })
    }

    /// Records whether there is room for the job. Without room it has no nodes, and its pods are
    /// deleted.
    pub fn has_room(&mut self, has_room: bool) {
        if self.waits_for_room == has_room {
            self.waits_for_room = !has_room;
            (self.is_stale, self.has_news) = (true, true);
            if !has_room {
                self.run = None;
            }
        }
    }

    /// Returns true if there is room for its nodes, and the nodes of selected pods are known.
    pub(super) fn knows_its_nodes(&self) -> bool {
        self.selected.are_known() && !self.waits_for_room
    }
}
