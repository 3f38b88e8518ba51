//! The controller of the model: it does with the ledger what the index does.

use swaplet_core::cluster::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet_core::objects::job::Job;

use super::world::{Answer, JOB, Known, World};

impl World {
    pub(super) fn job_is_seen(&mut self) {
        self.ledger.job(&Job {
            uid: JOB.into(),
            namespace: Box::default(),
            backoff_limit: self.limit,
            bears_failure: false,
        });
    }

    /// A new life lists pods and Jobs, in either order.
    pub(super) fn controller_starts(&mut self) {
        self.events.clear();
        self.ledger = Ledger::default();
        self.known = vec![Known::default(); self.pods.len()];
        self.list += 1;
        self.ledger.pod_list_starts();
        if self.list.is_multiple_of(2) {
            self.job_is_seen();
        }
        for at in 0..self.pods.len() {
            if !self.pods[at].gone {
                self.known[at].view = self.pods[at];
                self.known[at].watched = self.pods[at];
                self.known[at].seen = true;
                self.reconcile(at);
            }
        }
        self.ledger.pod_list_ends(self.list);
        self.job_is_seen();
        self.reconcile_woken();
    }

    pub(super) fn delivered(&mut self) {
        let Some((at, state)) = self.events.pop_front() else {
            return;
        };
        let known = &mut self.known[at];
        // A view that is ahead of the watch, after our own write, goes back with it, as in the
        // index.
        known.view = state;
        known.watched = state;
        let wants = state.main_ended > 0 && !state.swapped && !state.finished;
        known.unseen &= wants || known.in_flight;
        if state.gone {
            known.seen = false;
            known.ready = false;
            let pod = state.pod(at);
            self.ledger.pod_gone(&pod);
            self.reconcile_woken();
        } else {
            self.reconcile(at);
        }
    }

    pub(super) fn begins(&mut self, at: usize) {
        self.known[at].ready = false;
        self.reconcile(at);
        if self.known[at].ready {
            self.known[at].ready = false;
            self.known[at].in_flight = true;
            let need = Need::Begun(self.sidecars.into());
            self.ledger.need(&self.known[at].view.pod(at), need);
            for (pod, known) in self.known.iter().enumerate() {
                self.excused[pod] =
                    self.pods[pod].others - known.view.others.min(self.pods[pod].others);
            }
        }
    }

    pub(super) fn reconcile(&mut self, at: usize) {
        self.look_once(at);
        self.reconcile_woken();
    }

    pub(super) fn reconcile_woken(&mut self) {
        for round in 0.. {
            let woken = self.ledger.take_wakes();
            if woken.is_empty() {
                return;
            }
            assert!(round < 100, "pods wake each other without end");
            for uid in woken {
                self.look_once(uid[1..].parse().unwrap());
            }
        }
    }

    /// A pod that is finished waits for no room.
    fn ends_by_phase(&self, at: usize) -> bool {
        self.finishes && self.known[at].answer == Answer::Never
    }

    /// As the index looks at a pod.
    pub(super) fn look_once(&mut self, at: usize) {
        let known = self.known[at];
        if !known.seen {
            return;
        }
        let view = known.view;
        let pod = view.pod(at);
        let containers = if known.watched.swapped {
            self.sidecars
        } else {
            0
        };
        let coming = containers.saturating_sub(known.watched.restarted);
        self.ledger.observe(
            &pod,
            Swapped {
                containers: containers.into(),
                coming: coming.into(),
                left: 0,
            },
            self.list,
        );
        let wants = view.main_ended > 0 && !view.swapped && !view.finished;
        let answer = if wants && !self.naive {
            let restarts = self.sidecars.into();
            if self.finishes {
                self.ledger.answer_sparing(&pod, restarts)
            } else {
                self.ledger.answer(&pod, restarts)
            }
        } else {
            Headroom::Free
        };
        let known = &mut self.known[at];
        known.answer = match answer {
            Headroom::Free if !wants => Answer::None,
            Headroom::Free | Headroom::Fits => Answer::Go,
            Headroom::NeverFits(_) => Answer::Never,
            Headroom::Wait(_) | Headroom::JobUnknown { .. } | Headroom::TooEarly => Answer::Wait,
        };
        let acts = known.answer == Answer::Go;
        known.ready = acts && !known.in_flight && !known.backs_off;
        let need = if known.in_flight || known.unseen {
            Need::Held
        } else if wants && !acts && !self.ends_by_phase(at) {
            Need::Waits(self.sidecars.into())
        } else {
            Need::Nothing
        };
        self.ledger.need(&pod, need);
    }
}
