//! Whether a restart can still end.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::forger::Forger;
use super::model::Restart;
use super::state::{ABSENT, Controller, NOTHING, Run, Sender, State, Step, Truth};
use super::store::Mix;
use super::webhooks::Webhook;
use super::world::{EXITED, PARKED, Stores};

/// States without what makes no difference to the end: what was read before, and what happened.
pub type Ends = HashSet<State, BuildHasherDefault<Mix>>;

impl Restart {
    /// Nothing is left to be done: the request has its verdict, and the container is as the spec
    /// says.
    fn is_settled(&self, stores: &Stores, state: &State) -> bool {
        if self.is_told(stores, state) {
            return true;
        }
        let completed = state.request == ABSENT || stores.request_facts(state.request).is_over;
        let facts = stores.pod_facts(state.pod);
        if facts.deleting || !completed {
            return completed;
        }
        let runs = state.real.run == Run::Running;
        let has_ended = !runs && !self.starts_again(state.real.run);
        let as_specified = runs && state.real.image == facts.image;
        // The record of a container that does not start again stays: it goes where one is seen
        // running, and is nobody's need where none will.
        stores.plain(facts.image) != PARKED
            && (has_ended || !facts.is_noted && (as_specified || state.real.image == EXITED))
    }

    /// The container stays parked, and a Warning says what a human can do: that is an end where
    /// somebody writes what is not theirs, and nowhere else.
    fn is_told(&self, stores: &Stores, state: &State) -> bool {
        let gave_up =
            || state.request != ABSENT && stores.request_facts(state.request).gave_up_parked;
        let is_parked = stores.plain(stores.pod_facts(state.pod).image) == PARKED;
        (self.forger != Forger::Nobody || self.webhook != Webhook::None)
            && is_parked
            && (gave_up() || stores.stays(state.request, state.pod))
    }

    /// Whether there is a way without faults to where nothing is left to be done. On it everybody
    /// reads before they decide, so it is the same way whatever they had read.
    pub fn can_end(&self, state: &State) -> bool {
        let mut ends = self.ends.lock().unwrap();
        let mut stores = self.stores();
        let start = self.without_past(state.clone());
        let mut met = Ends::from_iter([start.clone()]);
        let mut path = vec![(start, None)];
        while let Some((at, next)) = path.last_mut() {
            if next.is_none() && (ends.contains(at) || self.is_settled(&stores, at)) {
                ends.extend(path.into_iter().map(|(state, _)| state));
                return true;
            }
            let next = next.get_or_insert_with(|| self.after_fair_steps(&mut stores, at));
            match next.pop() {
                Some(state) if met.insert(state.clone()) => path.push((state, None)),
                Some(_) => {}
                None => drop(path.pop()),
            }
        }
        false
    }

    fn without_past(&self, mut state: State) -> State {
        for controller in &mut state.controllers {
            *controller = Controller {
                sent: controller.sent,
                in_vain: controller.in_vain,
                ..Controller::NEW_LIFE
            };
        }
        state.sort(self.controllers);
        State {
            faults: 0,
            edits: 0,
            deletes: 0,
            requests: 0,
            truth: Truth::default(),
            ..state
        }
    }

    /// A state as the API server and the node have it. A fault that comes to nothing is spent and
    /// changes nothing else, so faults are left out.
    pub fn without_controllers(state: State) -> State {
        let controllers = [Controller::NEW_LIFE; 2];
        State {
            controllers,
            strays: Vec::new(),
            faults: 0,
            edits: 0,
            deletes: 0,
            ..state
        }
    }

    /// Where what the system does by itself leads to; what leads to the end soonest is last.
    fn after_fair_steps(&self, stores: &mut Stores, state: &State) -> Vec<State> {
        let mut read = state.clone();
        let mut steps = vec![Step::Report, Step::Sync];
        if state.held != 0 {
            steps.push(Step::BackOffsEnd);
        }
        if stores.pod_facts(state.pod).deleting {
            steps.push(Step::Gone);
        }
        for nth in 0..self.controllers {
            let controller = &mut read.controllers[nth];
            (controller.request, controller.pod) = (state.request, state.pod);
            if self.mends() {
                steps.push(Step::Mend(nth));
            }
            if controller.sent != NOTHING {
                steps.push(Step::Deliver(Sender::Controller(nth)));
            } else if state.request != ABSENT {
                let controller = *controller;
                let waits = stores.decide(controller, false) == NOTHING;
                let late = waits && self.may_be_late(stores, state, state.pod);
                steps.push(Step::Decide(nth, late));
                if controller.in_vain != NOTHING && !late {
                    steps.push(Step::Decide(nth, true));
                }
            }
        }
        steps.extend((0..state.strays.len()).map(|nth| Step::Deliver(Sender::Stray(nth))));
        let after = |step| {
            let mut next = read.clone();
            self.take_step(stores, &mut next, step)?;
            self.refuse_early(stores, &mut next);
            Some(self.without_past(next))
        };
        steps.into_iter().filter_map(after).collect()
    }
}
