//! The shared state of the pods of one Job: the restarts that it allows.

use std::collections::HashSet;

use swaplet_core::cluster::headroom::Ledger;
use swaplet_core::objects::moment::Moment;

use super::isolation::SOON;
use super::{Effect, Index};
use crate::frame::queue::reschedule;

impl Index {
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

    /// Reconciles the pods for which the sums of their Job have changed, each once: one that is woken
    /// again by the others has its turn a second later, so this ends whatever pods do to each other.
    pub(crate) fn reconcile_woken(&mut self, now: Moment) -> Vec<Effect> {
        let (mut effects, mut decided) = (Vec::new(), HashSet::new());
        loop {
            let woken = self.headroom.take_wakes();
            if woken.is_empty() {
                return effects;
            }
            for uid in woken {
                if decided.insert(uid.clone()) {
                    effects.extend(self.reconcile(&uid, now));
                } else {
                    self.reconcile_soon(&uid, now);
                }
            }
        }
    }

    /// Enqueues a pod for the next second.
    pub(crate) fn reconcile_soon(&mut self, uid: &str, now: Moment) {
        if let Some(entry) = self.entries.get_mut(uid) {
            let soon = entry.due.into_iter().chain([now + SOON]).min();
            reschedule(&mut self.due, &entry.pod.uid, &mut entry.due, soon);
        }
    }
}
