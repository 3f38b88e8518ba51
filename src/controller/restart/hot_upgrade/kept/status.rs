//! The status of a set.

use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::hot_upgrade::rollout::Counts;

use super::pods::MOST_PODS;
use super::{Kept, STATUS_EVERY};
use crate::restart::hot_upgrade::MOST_SETS;
use crate::restart::hot_upgrade::write::HotWrite;

impl Kept {
    /// Returns the write of the status with these counts, if it is to be written now.
    pub(super) fn next_status(&mut self, counts: &Counts, now: Moment) -> Option<HotWrite> {
        let status = self.status_of(counts);
        if status == self.status || self.is_status_under_way {
            return None;
        }
        let mut due = self.status_due;
        if status == self.stored.0 {
            due = due.max(self.stored.1);
        }
        if due > now {
            self.wake(due);
            return None;
        }
        self.status_due = now + STATUS_EVERY;
        self.is_status_under_way = true;
        self.status = status.clone();
        Some(HotWrite::Status {
            set: self.set.name.clone(),
            uid: self.set.uid.clone(),
            status,
        })
    }

    /// Returns the status with these counts.
    fn status_of(&self, counts: &Counts) -> Value {
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
