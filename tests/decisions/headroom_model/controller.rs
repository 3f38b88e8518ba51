//! The controller of the model: it does with the ledger what the index does.

use swaplet_core::cluster::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet_core::objects::job::Job;

use super::world::{Answer, JOB, Known, State, Unseen, World};

impl World {
    pub(super) fn job_is_seen(&mut self) {
        self.ledger.job(&Job {
            uid: JOB.into(),
            namespace: Box::default(),
            backoff_limit: self.limit,
            failures_borne: 6,
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
                self.known[at].counted = self.pods[at];
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
        // An older one may come after the answer.
        if state.swapped >= known.awaited {
            (known.counted, known.awaited) = (state, 0);
        }
        if state.gone {
            known.seen = false;
            known.ready = false;
            let pod = state.pod(at);
            known.unseen = Unseen::Nothing;
            self.ledger.pod_gone(&pod);
            self.reconcile_woken();
        } else {
            self.is_seen(at);
            self.reconcile(at);
        }
    }

    pub(super) fn begins(&mut self, at: usize) {
        self.known[at].ready = false;
        self.reconcile(at);
        if self.known[at].ready {
            self.known[at].ready = false;
            self.known[at].in_flight = true;
            let view = self.known[at].view;
            self.known[at].from = view.swapped;
            let need = Need::Begun(self.wanted(&view));
            self.ledger.need(&view.pod(at), need);
            for (pod, known) in self.known.iter().enumerate() {
                let extra = |state: &State| match self.doubtful {
                    true => state.others,
                    false => state.extra(),
                };
                let (all, seen) = (extra(&self.pods[pod]), extra(&known.view));
                self.excused[pod] = all.saturating_sub(seen);
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

    /// The restarts that the swaps which are still to be made may cause.
    fn wanted(&self, state: &State) -> u32 {
        u32::from(self.sidecars - state.swapped) * self.reserved()
    }

    /// The swaps in a state, as the index counts them.
    fn swapped(&self, state: &State) -> Swapped {
        let starts = u32::from(state.swapped.saturating_sub(state.restarted));
        Swapped {
            containers: state.swapped.into(),
            coming: starts * self.reserved() + u32::from(state.fails),
            left: (self.sidecars - state.swapped).into(),
        }
    }

    fn wants(&self, at: usize) -> bool {
        let known = &self.known[at];
        let view = known.view;
        let is_left = view.swapped < self.sidecars && !known.closed;
        view.main_ended > 0 && is_left && !view.finished
    }

    /// What the watch shows is the effect of all that was written, unless something is wanted.
    fn is_seen(&mut self, at: usize) {
        if !self.known[at].in_flight && !self.wants(at) {
            self.known[at].unseen = Unseen::Nothing;
        }
    }

    /// A pod that is finished waits for no room, and for no webhook.
    pub(super) fn ends_by_phase(&self, at: usize) -> bool {
        let known = &self.known[at];
        self.finishes && (known.answer == Answer::Never || known.closed)
    }

    /// As the index looks at a pod.
    pub(super) fn look_once(&mut self, at: usize) {
        let known = self.known[at];
        if !known.seen {
            return;
        }
        let view = known.view;
        let pod = view.pod(at);
        self.ledger
            .observe(&pod, self.swapped(&known.counted), self.list);
        let wants = self.wants(at);
        let answer = if wants && !self.naive {
            let restarts = self.wanted(&view);
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
            Headroom::NeverFits(_) | Headroom::Unborne { .. } => Answer::Never,
            Headroom::Wait(_) | Headroom::JobUnknown { .. } | Headroom::TooEarly => Answer::Wait,
        };
        let acts = known.answer == Answer::Go;
        known.ready = acts && !known.in_flight && !known.backs_off;
        let need = if known.in_flight || known.unseen != Unseen::Nothing {
            Need::Held
        } else if wants && !acts && !self.ends_by_phase(at) {
            Need::Waits(self.wanted(&view))
        } else {
            Need::Nothing
        };
        self.ledger.need(&pod, need);
    }
}
