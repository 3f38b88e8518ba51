//! The shared state of the pods of one Job: the order in which they wait.

use swaplet_core::cluster::headroom::Ledger;
use swaplet_core::objects::moment::Moment;

use super::{Effect, Index};

impl Index {
    /// Sets the last progress of each Job to now: a snapshot has not watched the pods, so the real
    /// time is unknown.
    pub fn lines_move(&mut self, now: Moment) {
        self.entries
            .values()
            .for_each(|entry| self.lines.moves(&entry.pod, now));
    }

    /// Forgets Jobs whose pods are all gone.
    pub(crate) fn forget_jobs(&mut self) {
        self.lines.keep(&self.headroom);
    }

    /// Returns the number of pods that wait for others of their Job.
    #[must_use]
    pub const fn waiting_for_headroom(&self) -> usize {
        self.headroom.waiting()
    }

    /// Records that the pods of one of several namespaces are being listed again. Restarts may have
    /// been missed there, so no swap is granted until [`part_list_ends`](Self::part_list_ends).
    pub fn part_list_starts(&mut self) {
        self.headroom.pod_list_starts();
    }

    /// Records that no such list is in progress any more. What is gone was reported gone.
    pub fn part_list_ends(&mut self, now: Moment) -> Vec<Effect> {
        self.headroom.pod_list_ends(self.list);
        self.reconcile_woken(now)
    }

    /// Updates the ledger of Jobs, and reconciles the pods concerned.
    pub fn jobs(&mut self, change: impl FnOnce(&mut Ledger), now: Moment) -> Vec<Effect> {
        change(&mut self.headroom);
        self.reconcile_woken(now)
    }

    /// Reconciles the pods whose place in their Job has changed. A reconcile moves no place, so
    /// this terminates.
    pub(crate) fn reconcile_woken(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let woken = self.headroom.take_wakes();
            if woken.is_empty() {
                return effects;
            }
            for uid in woken {
                effects.extend(self.reconcile(&uid, now));
            }
        }
    }
}
