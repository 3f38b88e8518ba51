//! The status of a set.

use serde_json::{Value, json};
use swaplet_core::restart::hot_upgrade::rollout::Counts;

use super::Kept;
use super::pods::MOST_PODS;
use crate::restart::hot_upgrade::MOST_SETS;

impl Kept {
    /// Returns the status with these counts.
    pub(super) fn status_of(&self, counts: &Counts) -> Value {
        let mut message = self.set.problems.clone();
        if self.is_left_out {
            message.push(format!(
                "there are more than {MOST_SETS} SidecarSets: this one handles no pod until another one is deleted"
            ));
        }
        if counts.failed > 0 {
            message.push(format!(
                "a new image was reverted in {} pods (`kubectl describe pod` says why), and is tried in no other of their namespaces: change the set to try again",
                counts.failed
            ));
        }
        if counts.unknown > 0 {
            message.push(format!("{} pods have no empty container", counts.unknown));
        }
        if self.pods.are_left_out {
            message.push(format!(
                "it selects more pods than are upgraded ({MOST_PODS} at most, and half of them in one namespace): the others wait until pods of it are gone"
            ));
        }
        json!({
            "observedGeneration": self.set.generation,
            "matchedPods": counts.matched,
            "updatedPods": counts.updated,
            "readyPods": counts.ready,
            "updatedReadyPods": counts.updated_ready,
            "message": message.join("; "),
        })
    }
}
