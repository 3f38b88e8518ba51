//! What controllers have read, as far as it can make a difference.

use super::forger::Forger;
use super::model::Restart;
use super::state::{ABSENT, Controller, Id, NOTHING, State, Step};
use super::world::Stores;

impl Restart {
    /// Lets everybody read again whose older read can lead to nothing that a newer one does not
    /// lead to. Who has read what is there now can do all that somebody can do who has read nothing
    /// yet: either may read later, and only the first still has what was there.
    pub fn read_again(&self, stores: &mut Stores, state: &mut State) {
        if self.all_orders {
            return;
        }
        if state.faults == 0 {
            // They are faults.
            (state.edits, state.deletes) = (0, 0);
        }
        for nth in 0..self.controllers {
            let Controller { request, pod, .. } = state.controllers[nth];
            if !self.may_matter(stores, state, request) {
                state.controllers[nth].request = state.request;
            }
            let is_over = match state.request {
                ABSENT => state.requests == 0,
                request => stores.request_facts(request).is_over && state.requests == 0,
            };
            // What is parked for nobody is brought back in the newest version of the pod only.
            if pod == NOTHING || is_over && self.is_guarded() {
                state.controllers[nth].pod = state.pod;
            }
        }
    }

    /// A decision whose write is refused at once is a read, which might as well come later.
    pub fn is_idle(&self, last: &State, state: &State, step: Step) -> bool {
        match step {
            Step::Decide(nth, _) => !self.all_orders && state.controllers[nth].sent == NOTHING,
            Step::Mend(_) => !self.all_orders && state.strays == last.strays,
            _ => false,
        }
    }

    /// Whether an older version of the request may lead to a write that is taken: not to one of the
    /// request.
    fn may_matter(&self, stores: &mut Stores, state: &State, request: Id) -> bool {
        if request == NOTHING || request == state.request {
            return false;
        }
        if !self.is_guarded() || self.forger != Forger::Nobody {
            return true;
        }
        let brings_back = |request| request != ABSENT && stores.request_facts(request).brings_back;
        // Who has not seen the request under way puts back images, and takes records away.
        let is_under_way =
            |request| request != ABSENT && stores.request_facts(request).is_under_way;
        let differs = |holds: &dyn Fn(Id) -> bool| !holds(request) && holds(state.request);
        let mends = self.mends() && (differs(&brings_back) || differs(&is_under_way));
        mends || self.may_swap(stores, state, request)
    }

    /// Whether an older version of the request may lead to a change of the pod as it is now, or
    /// will be: a change to another image is made to the generation for which it was written down.
    fn may_swap(&self, stores: &Stores, state: &State, request: Id) -> bool {
        if request == ABSENT {
            return false;
        }
        let (facts, pod) = (stores.request_facts(request), stores.pod_facts(state.pod));
        let is_of_pod = facts.pod_uid.as_ref() == Some(&pod.uid) && !pod.deleting;
        let intent = facts
            .intent
            .as_ref()
            .filter(|_| is_of_pod && !facts.is_completed);
        intent.is_some_and(|intent| facts.puts_back() || intent.generation >= pod.generation)
    }
}
