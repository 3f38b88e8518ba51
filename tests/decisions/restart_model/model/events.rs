//! The events that may come next, each with what is read at that moment.

use super::{POD, REQUEST, Restart};
use crate::restart_model::forger::Forger;
use crate::restart_model::state::{
    ABSENT, Controller, Event, NOTHING, Sender, State, Step, reads_pod, reads_request,
};
use crate::restart_model::webhooks::Webhook;
use crate::restart_model::world::{PodChange, Stores};

impl Restart {
    /// What somebody has not read yet.
    pub(super) fn unread(&self, state: &State) -> u8 {
        let of = |nth: usize| {
            let controller = &state.controllers[nth];
            let request = if controller.request == state.request {
                0
            } else {
                reads_request(nth)
            };
            request
                | if controller.pod == state.pod {
                    0
                } else {
                    reads_pod(nth)
                }
        };
        (0..self.controllers).fold(0, |unread, nth| unread | of(nth))
    }

    /// The step after each selection of these reads.
    pub(super) fn push(&self, events: &mut Vec<Event>, step: Step, unread: u8) {
        let unread = if self.all_orders { 0 } else { unread };
        let mut reads = unread;
        while reads != 0 {
            events.push(Event { step, reads });
            reads = (reads - 1) & unread;
        }
        events.push(Event { step, reads });
    }

    pub(super) fn push_controller(
        &self,
        stores: &mut Stores,
        state: &State,
        nth: usize,
        unread: u8,
        events: &mut Vec<Event>,
    ) {
        let mut steps = Vec::new();
        self.push(
            &mut steps,
            Step::Look,
            unread & (reads_request(nth) | reads_pod(nth)),
        );
        for Event { reads, .. } in steps {
            let mut controller = state.controllers[nth];
            controller.read(state, nth, reads);
            if controller.request == NOTHING || controller.pod == NOTHING {
                continue;
            }
            if controller.sent == NOTHING && controller.request != ABSENT {
                // Only who has nothing to write waits.
                let writes = stores.decide(controller, false) != NOTHING;
                if writes {
                    events.push(Event {
                        step: Step::Decide(nth, false),
                        reads,
                    });
                }
                if (!writes || controller.in_vain != NOTHING)
                    && self.may_be_late(stores, state, controller.pod)
                    && stores.decide(controller, true) != NOTHING
                {
                    events.push(Event {
                        step: Step::Decide(nth, true),
                        reads,
                    });
                }
            }
            if self.mends() && stores.orphan(controller.request, controller.pod) != NOTHING {
                events.push(Event {
                    step: Step::Mend(nth),
                    reads,
                });
            }
        }
    }

    pub(super) fn push_write(
        &self,
        stores: &Stores,
        state: &State,
        sender: Sender,
        unread: u8,
        events: &mut Vec<Event>,
    ) {
        let changed = if Self::is_swap(stores, state, sender) {
            POD
        } else {
            REQUEST
        };
        self.push(events, Step::Deliver(sender), unread & changed);
        let may_change = self.webhook != Webhook::None && !self.always_changed;
        if may_change && changed == POD && state.faults > 0 {
            self.push(events, Step::Change(sender), unread & changed);
        }
        if self.all_orders && state.faults > 0 {
            self.push(events, Step::Drop(sender), 0);
        }
    }

    /// What the node does, and what becomes of the pod.
    pub(super) fn push_node(
        &self,
        stores: &mut Stores,
        state: &State,
        unread: u8,
        events: &mut Vec<Event>,
    ) {
        self.push(events, Step::Sync, 0);
        if state.held != 0 {
            self.push(events, Step::BackOffsEnd, 0);
        }
        if stores.change(state.pod, PodChange::Status(state.real, state.seen)) != state.pod {
            self.push(events, Step::Report, unread & POD);
        }
        if stores.pod_facts(state.pod).deleting {
            self.push(events, Step::Gone, unread & POD);
        }
    }

    pub(super) fn push_faults(&self, state: &State, unread: u8, events: &mut Vec<Event>) {
        if self.outlasts {
            if state.request != ABSENT {
                self.push(events, Step::DeleteRequest, unread & REQUEST);
            }
            return;
        }
        for nth in 0..self.controllers {
            if state.controllers[nth].sent != NOTHING
                || (self.all_orders && state.controllers[nth] != Controller::NEW_LIFE)
            {
                self.push(events, Step::Dies(nth), 0);
            }
        }
        // Who writes notes does not delete requests: against both together there is the policy
        // alone that keeps notes for swaplet.
        if state.request != ABSENT && self.forger != Forger::OfNotes {
            self.push(events, Step::DeleteRequest, unread & REQUEST);
        }
        for step in self.forger.steps(state) {
            let unread = if matches!(step, Step::ForgeNote(_)) {
                unread & POD
            } else {
                unread & REQUEST
            };
            self.push(events, step, unread);
        }
        for step in [Step::PullFails, Step::StopsOnly, Step::Crashes] {
            self.push(events, step, 0);
        }
        if state.edits > 0 {
            for step in [Step::UserEdits, Step::PutBack, Step::Terminate] {
                self.push(events, step, unread & POD);
            }
        }
        if state.deletes > 0 {
            self.push(events, Step::DeletePod, unread & POD);
        }
    }
}
