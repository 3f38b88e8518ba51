//! The preparation of a job before a step: its nodes, its pods and its limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::pull_job::{exceeds_deadline, limits};

use super::Entry;
use crate::frame::clock::Now;
use crate::warm::jobs::entry::run::{Run, warmers};
use crate::warm::jobs::nodes::Nodes;
use crate::warm::jobs::settings::WarmSettings;

impl Entry {
    /// Updates the run to the job, the nodes and the time.
    pub fn prepare(
        &mut self,
        settings: &WarmSettings,
        nodes: &Nodes,
        pods: &BTreeMap<Box<str>, WarmerPod>,
        now: Now,
    ) {
        let spec = self.job.spec.as_ref().ok().filter(|_| !self.is_completed());
        let Some(spec) = spec else {
            self.run = None;
            return;
        };
        let is_late = self
            .started_at
            .is_some_and(|started_at| exceeds_deadline(spec, started_at, now.today));
        let warmers = warmers(&self.job, self.has_object, spec, settings);
        if self
            .run
            .as_ref()
            .is_none_or(|run| run.warmers.run != warmers.run)
        {
            self.run = Some(Run::new(
                spec.clone(),
                Arc::new(warmers),
                settings.longest_try,
            ));
            self.is_stale = true;
        }
        let Some(run) = &mut self.run else { return };
        if run.spec != *spec {
            run.change(spec);
            self.has_news = true;
        }
        let stale_nodes = std::mem::take(&mut self.stale_nodes);
        if self.waits_for_room {
            // Its nodes are looked for once there is room.
            self.is_stale = true;
        } else if std::mem::take(&mut self.is_stale) {
            run.aim(nodes, &self.selected, pods, now.moment);
            self.has_news = true;
        } else if !stale_nodes.is_empty() {
            run.aim_at(stale_nodes, nodes, &self.selected, pods, now.moment);
            self.has_news = true;
        }
        // Nodes and images that are new since then are not begun either.
        if is_late && (!run.gave_up || self.has_news) {
            run.give_up("job exceeds activeDeadlineSeconds");
            self.has_news = true;
        }
        self.try_failed_again(nodes, now.moment);
    }

    /// Sets the limits; `leaving` pods of the job are no longer needed but still there.
    pub fn bound(&mut self, leaving: usize, longest_try: Duration) {
        if let Some(run) = &mut self.run {
            run.warming
                .set_limits(limits(&run.spec, run.nodes.len(), leaving, longest_try));
        }
    }
}
