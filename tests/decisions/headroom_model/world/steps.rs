//! What each step does to the world.

use super::{Step, Unseen, World};

/// How often what is undone is tried before that is taken to last.
const QUICK_TRIES: u8 = 2;

impl World {
    pub(super) fn takes(&mut self, step: Step) {
        match step {
            Step::MainEnds(at) => {
                self.ends += 1;
                let order = self.ends;
                self.changes(at, |pod| pod.main_ended = order);
            }
            Step::NodeRestarts(at) => self.changes(at, |pod| pod.restarted += 1),
            Step::EndsBadly(at) => {
                self.left.bad_ends -= 1;
                self.excused[at] += u8::from(!self.doubtful);
                self.changes(at, |pod| {
                    pod.restarted += 1;
                    pod.fails = true;
                });
            }
            Step::StartsAgain(at) => self.changes(at, |pod| {
                pod.fails = false;
                pod.again += 1;
            }),
            Step::PodFinishes(at) => self.changes(at, |pod| pod.finished = true),
            Step::RestartsByItself(at) => {
                self.left.restarts -= 1;
                self.excused[at] += 1;
                self.changes(at, |pod| pod.others += 1);
            }
            Step::Deleted(at) => {
                self.left.deletions -= 1;
                self.changes(at, |pod| pod.gone = true);
            }
            Step::Delivered => self.delivered(),
            Step::Begins(at) => self.begins(at),
            Step::Applied(at) => self.answered(at, self.sidecars - self.known[at].from),
            Step::Partly(at) => {
                self.left.undoings = self.left.undoings.saturating_sub(1);
                self.answered(at, 1);
            }
            Step::Undone(at) => {
                self.left.undoings = self.left.undoings.saturating_sub(1);
                self.undone(at);
            }
            Step::Refused(at) => {
                self.left.refusals -= 1;
                self.fails_to_write(at, false);
            }
            Step::Lost(at, applied) => {
                self.left.losses -= 1;
                if applied {
                    self.apply(at, self.most(at) - self.known[at].from);
                }
                self.fails_to_write(at, true);
            }
            Step::BackoffEnds(at) => {
                self.known[at].backs_off = false;
                self.reconcile(at);
            }
            Step::Reopens(at) => {
                self.known[at].closed = false;
                self.reconcile(at);
            }
            Step::TooLate(at) => {
                self.known[at].unseen = Unseen::Nothing;
                self.reconcile(at);
            }
            Step::Raised => {
                self.left.raises -= 1;
                self.limit += 2;
                self.job_is_seen();
                self.reconcile_woken();
            }
            Step::Killed => {
                self.left.kills -= 1;
                self.controller_starts();
            }
        }
    }

    /// So many swaps were stored, unless the pod had changed.
    fn answered(&mut self, at: usize, swaps: u8) {
        let applied = self.apply(at, swaps);
        let known = &mut self.known[at];
        known.in_flight = false;
        known.backs_off = !applied;
        if applied {
            // As the index does: what was written is known before the watch shows it.
            let stored = known.from + swaps;
            known.view.swapped = known.view.swapped.max(stored);
            known.denials = 0;
            if known.watched.swapped < stored && stored < self.sidecars {
                (known.counted, known.awaited) = (known.view, stored);
            } else if known.watched.swapped < stored {
                known.unseen = Unseen::Stored;
            }
        }
        self.reconcile(at);
    }

    /// What was undone counts as denied; the guard may refuse it before.
    fn undone(&mut self, at: usize) {
        let known = &mut self.known[at];
        if !self.pods[at].gone && self.pods[at].swapped == known.from {
            known.denials = (known.denials + 1).min(QUICK_TRIES);
            known.closed = known.denials == QUICK_TRIES;
        }
        self.fails_to_write(at, false);
    }
}
