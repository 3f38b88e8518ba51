//! What each step does to the world.

use super::{Step, World};

impl World {
    pub(super) fn takes(&mut self, step: Step) {
        match step {
            Step::MainEnds(at) => {
                self.ends += 1;
                let order = self.ends;
                self.changes(at, |pod| pod.main_ended = order);
            }
            Step::NodeRestarts(at) => self.changes(at, |pod| pod.restarted += 1),
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
            Step::Applied(at) => self.answered(at),
            Step::Refused(at) => {
                self.left.refusals -= 1;
                self.fails_to_write(at, false);
            }
            Step::Lost(at, applied) => {
                self.left.losses -= 1;
                if applied {
                    self.apply(at);
                }
                self.fails_to_write(at, true);
            }
            Step::BackoffEnds(at) => {
                self.known[at].backs_off = false;
                self.reconcile(at);
            }
            Step::TooLate(at) => {
                self.known[at].unseen = false;
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

    fn answered(&mut self, at: usize) {
        let applied = self.apply(at);
        let known = &mut self.known[at];
        known.in_flight = false;
        known.backs_off = !applied;
        known.unseen |= applied && !known.watched.swapped;
        // As the index does: what was written is known before the watch shows it.
        known.view.swapped |= applied;
        self.reconcile(at);
    }
}
