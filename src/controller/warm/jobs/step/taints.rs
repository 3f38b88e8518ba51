//! The startup taint of nodes, which is removed once jobs of type `Never` have their images there.

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::startup_taint::{STARTUP_TAINT, Untaint};

use crate::frame::writer::is_missing_right;
use crate::warm::jobs::PullJobs;
use crate::warm::jobs::PullWrite;
use crate::warm::jobs::entry::Entry;

/// What a node lacks until all jobs are known, as where they may not be listed.
const NOT_LISTED: &str = "which jobs want the node is not known";

impl PullJobs {
    /// Returns the removals for nodes whose time is over, or that lack no image.
    pub(crate) fn untaint(&mut self, now: Moment) -> Vec<PullWrite> {
        let has_seen_all = self.has_seen_all();
        let Some(taints) = &mut self.nodes.startup_taints else {
            return Vec::new();
        };
        let counts = |entry: &&Entry| {
            !entry.has_object()
                || self
                    .settings
                    .startup_taint_namespaces
                    .contains(entry.namespace())
        };
        let untaints = taints.step(now, |node| {
            if !has_seen_all {
                return Some(NOT_LISTED.to_owned());
            }
            self.jobs
                .all
                .values()
                .filter(counts)
                .find_map(|entry| entry.owes(node))
        });
        untaints
            .into_iter()
            .map(|untaint| PullWrite::Untaint(Box::new(untaint)))
            .collect()
    }

    /// Records and logs the result of a removal.
    pub(crate) fn untainted(
        &mut self,
        untaint: &Untaint,
        answer: &Result<(), WriteError>,
        now: Moment,
    ) {
        let node = &untaint.node;
        match (answer, &untaint.missing) {
            (Ok(()), None) => {
                tracing::info!(%node, "the images are there; the taint {STARTUP_TAINT} is removed")
            }
            (Ok(()), Some(missing)) => {
                tracing::warn!(%node, missing, "the time limit has passed; the taint {STARTUP_TAINT} is removed")
            }
            _ => {}
        }
        let Some(taints) = &mut self.nodes.startup_taints else {
            return;
        };
        let is_missing = matches!(answer, Err(WriteError::Denied(why)) if is_missing_right(why));
        let Some(why) = taints.written(untaint, answer, is_missing, now) else {
            return;
        };
        if is_missing {
            tracing::warn!(%node, why, "nodes keep the taint {STARTUP_TAINT}: bind the ClusterRole swaplet-warm-startup-taint; trying again each minute");
        } else {
            tracing::warn!(%node, why, "this node keeps the taint {STARTUP_TAINT}, because it cannot be changed; trying again");
        }
    }
}
