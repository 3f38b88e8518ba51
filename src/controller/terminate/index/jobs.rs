//! What the pods of one Job have in common: who waits for whom.

use std::time::Duration;

use swaplet_core::cluster::headroom::Ledger;

use super::{Effect, Index};

impl Index {
    /// Nobody knows when the pods of each Job got any further, for who asks has not watched them:
    /// so it was just now.
    pub fn lines_move(&mut self, now: Duration) {
        self.entries
            .values()
            .for_each(|entry| self.lines.moves(&entry.pod, now));
    }

    /// Jobs whose pods are all gone are forgotten.
    pub(crate) fn forget_jobs(&mut self) {
        self.lines.keep(&self.headroom);
    }

    /// How many pods wait for others of their Job.
    #[must_use]
    pub const fn waiting_for_headroom(&self) -> usize {
        self.headroom.waiting()
    }

    /// Changes what is known of Jobs, and looks at the pods that this concerns.
    pub fn jobs(&mut self, change: impl FnOnce(&mut Ledger), now: Duration) -> Vec<Effect> {
        change(&mut self.headroom);
        self.look_at_woken(now)
    }

    /// Looks at the pods whose place in their Job has changed. To look at a pod again moves
    /// nobody's place, so this comes to an end.
    pub(crate) fn look_at_woken(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let woken = self.headroom.take_wakes();
            if woken.is_empty() {
                return effects;
            }
            for uid in woken {
                effects.extend(self.look(&uid, now));
            }
        }
    }
}
