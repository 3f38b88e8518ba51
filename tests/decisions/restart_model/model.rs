//! What may happen in the model, and what must hold.

mod events;

use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;
use stateright::{Model, Property};

use super::ending::Ends;
use super::forger::Forger;
use super::state::{
    ABSENT, Controller, Event, Id, NOTHING, Real, Run, Sender, State, Step, Truth, reads_pod,
    reads_request,
};
use super::webhooks::Webhook;
use super::world::{Mutant, PodChange, Stores, started_at};
use crate::restart::world::{park_image, pod, read_pod, without_digests};

/// Readers of the request, and of the pod.
const REQUEST: u8 = reads_request(0) | reads_request(1);
const POD: u8 = reads_pod(0) | reads_pod(1);

/// A model to be explored.
#[derive(Clone)]
pub struct Restart {
    pub controllers: usize,
    pub faults: u8,
    pub policy: &'static str,
    pub force: bool,
    /// Whether the image has no alias, so that the container is parked.
    pub parks: bool,
    /// Whether a Job controls the pod.
    pub job: bool,
    /// What the node reports its image as, where it is another repository.
    pub known_as: Option<&'static str>,
    /// Whether no alias can be pulled, and each start asks the registry.
    pub moved: bool,
    /// Whether the request waits until the node has acted, for what a node does after that is seen by
    /// nobody; and nothing goes wrong but that the request is deleted.
    pub outlasts: bool,
    /// Whether it exits with 0 when it is stopped.
    pub exits_0: bool,
    /// Whether the node tells up to where it has seen the spec.
    pub observes: bool,
    /// How many requests are made, one after another.
    pub requests: u8,
    /// Whether the node does not start a container by a name by which it was started before, until
    /// the back-off of that name has ended. The first start of a pod begins none.
    pub backs_off: bool,
    /// What a webhook makes of changes of images.
    pub webhook: Webhook,
    /// Whether it changes each of them, or some, each of which is a fault.
    pub always_changed: bool,
    pub mutant: Mutant,
    /// Who writes what is not theirs.
    pub forger: Forger,
    /// No more states than these are to be explored.
    pub most_states: usize,
    /// Whether reads and refusals happen at every time, and not only where they make a difference.
    pub all_orders: bool,
    pub stores: Arc<Mutex<Stores>>,
    /// From where there is a way to the end.
    pub ends: Arc<Mutex<Ends>>,
}

impl Restart {
    pub fn new(controllers: usize, faults: u8, policy: &'static str) -> Self {
        Self {
            controllers,
            faults,
            policy,
            force: false,
            parks: false,
            job: false,
            known_as: None,
            moved: false,
            outlasts: false,
            exits_0: false,
            observes: true,
            requests: 1,
            backs_off: false,
            webhook: Webhook::None,
            always_changed: false,
            mutant: Mutant::None,
            forger: Forger::Nobody,
            most_states: usize::MAX,
            all_orders: false,
            stores: Arc::default(),
            ends: Arc::default(),
        }
    }

    /// The same for a container whose image has no alias. What is parked under `OnFailure` and
    /// `Never` is parked by force.
    pub fn parking(controllers: usize, faults: u8, policy: &'static str) -> Self {
        Self {
            parks: true,
            force: true,
            ..Self::new(controllers, faults, policy)
        }
    }

    /// The same with somebody who writes what is not theirs.
    pub fn forged(self, forger: Forger, most_states: usize) -> Self {
        Self {
            forger,
            most_states,
            ..self
        }
    }

    /// Whether somebody looks for what pods say of parked containers.
    pub fn mends(&self) -> bool {
        (self.parks || self.forger == Forger::OfNotes) && self.mutant != Mutant::NoOrphans
    }

    pub fn stores(&self) -> MutexGuard<'_, Stores> {
        self.stores.lock().unwrap()
    }

    /// Whether a restart is refused whatever happens.
    fn refuses(&self) -> bool {
        self.known_as.is_some() || self.job && self.policy != "Always" && !self.force
    }

    /// Whether the node starts the container again by itself.
    pub fn starts_again(&self, run: Run) -> bool {
        match run {
            Run::Running => false,
            Run::Ended => self.policy == "Always",
            Run::Stopped | Run::NotPulled | Run::BacksOff => self.policy != "Never",
        }
    }

    /// Whether what was undone is not written any more after long.
    fn gives_up(&self, controller: Controller) -> bool {
        let Controller {
            request,
            pod,
            in_vain,
            ..
        } = controller;
        let has_read = ![request, pod].contains(&NOTHING) && request != ABSENT;
        in_vain == NOTHING || !has_read || self.stores().decide(controller, true) != in_vain
    }

    /// Whether the patience of somebody who sees this pod may be over.
    pub fn may_be_late(&self, stores: &mut Stores, state: &State, seen: Id) -> bool {
        if !self.outlasts {
            return true;
        }
        let is_sent = !state.strays.is_empty()
            || state
                .controllers
                .iter()
                .any(|controller| controller.sent != NOTHING);
        let has_acted = stores.pod_facts(state.pod).image == state.real.image;
        !is_sent
            && has_acted
            && seen == state.pod
            && stores.change(state.pod, PodChange::Status(state.real, state.seen)) == state.pod
    }
}

impl Model for Restart {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let mut object = if self.parks {
            without_digests(self.policy)
        } else {
            pod(self.policy)
        };
        object["metadata"]["generation"] = json!(1);
        object["status"]["containerStatuses"][0]["state"] =
            json!({"running": {"startedAt": started_at(0).to_string()}});
        if let Some(known_as) = self.known_as {
            object["status"]["containerStatuses"][0]["imageID"] = json!(known_as);
        }
        if self.moved {
            object["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        }
        if self.job {
            let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "ju", "controller": true});
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        if self.observes {
            object["status"]["observedGeneration"] = json!(1);
        } else {
            object["status"]["observedGeneration"] = json!(null);
        }
        // Only what happens to one container is explored; the other one keeps the pod alive.
        let mut stores = self.stores();
        stores.park = self.parks.then(park_image);
        stores.mutant = self.mutant;
        stores.webhook = self.webhook;
        let mut state = State {
            request: ABSENT,
            pod: stores.pod(read_pod(&object)),
            real: Real::FIRST,
            seen: 1,
            held: 0,
            controllers: [Controller::NEW_LIFE; 2],
            strays: Vec::new(),
            faults: self.faults,
            // Where all is to end, an image of the user's that cannot be pulled either is a trap of
            // theirs.
            edits: u8::from(self.forger == Forger::Nobody && !self.outlasts),
            deletes: u8::from(self.forger == Forger::Nobody),
            requests: self.requests,
            ours: false,
            truth: Truth::default(),
        };
        self.read_again(&mut stores, &mut state);
        vec![state]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        let mut stores = self.stores();
        let unread = self.unread(state);
        if self.all_orders {
            let bits = (0..8).map(|bit| 1 << bit).filter(|bit| unread & bit != 0);
            events.extend(bits.map(|reads| Event {
                step: Step::Look,
                reads,
            }));
        }
        for nth in 0..self.controllers {
            self.push_controller(&mut stores, state, nth, unread, events);
            if state.controllers[nth].sent != NOTHING {
                self.push_write(&stores, state, Sender::Controller(nth), unread, events);
            }
        }
        for nth in 0..state.strays.len() {
            self.push_write(&stores, state, Sender::Stray(nth), unread, events);
        }
        let is_free = state.request == ABSENT || stores.request_facts(state.request).is_over;
        if state.requests > 0 && is_free {
            self.push(events, Step::MakeRequest, unread & REQUEST);
        }
        self.push_node(&mut stores, state, unread, events);
        if state.faults > 0 {
            self.push_faults(state, unread, events);
        }
    }

    fn next_state(&self, last: &State, event: Event) -> Option<State> {
        let mut state = last.clone();
        for nth in 0..self.controllers {
            state.controllers[nth].read(last, nth, event.reads);
        }
        if !event.step.is_free() {
            state.faults -= 1;
        }
        let mut stores = self.stores();
        self.take_step(&mut stores, &mut state, event.step)?;
        let is_local = matches!(event.step, Step::Decide(..) | Step::Mend(_) | Step::Look);
        if event.reads != 0 && !is_local && (state.request, state.pod) == (last.request, last.pod) {
            return None;
        }
        self.refuse_early(&stores, &mut state);
        if self.is_idle(last, &state, event.step) {
            return None;
        }
        self.read_again(&mut stores, &mut state);
        state.sort(self.controllers);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let always = vec![
            Property::always(
                "S1 what is written is the same image",
                |_, state: &State| !state.truth.other_bytes,
            ),
            Property::always("S3 no write meets another pod", |_, state: &State| {
                !state.truth.wrong_pod
            }),
            Property::always("no trap", |model: &Self, state: &State| {
                model.can_end(state)
            }),
            Property::sometimes("R1 a restart succeeds", |model: &Self, state: &State| {
                state.request != ABSENT && model.stores().request_facts(state.request).succeeded()
            }),
            Property::always(
                "W4 no write is repeated for ever",
                |model: &Self, state: &State| {
                    let mut controllers = state.controllers.iter();
                    controllers.all(|controller| model.gives_up(*controller))
                },
            ),
        ];
        // Whoever writes the journal has said what was there before, so what a verdict says is
        // theirs.
        if self.forger != Forger::Nobody {
            return always;
        }
        let of_honest_requests = vec![
            Property::always("W1 no stop is the end of the work", |_, state: &State| {
                !state.truth.lost
            }),
            Property::always(
                "W2 what is refused is not touched",
                |model: &Self, state: &State| !model.refuses() || state.truth.swaps == 0,
            ),
            Property::always("S4 one change per request", |_, state: &State| {
                state.truth.swaps <= 1
            }),
            Property::always("S5 success is true", |_, state: &State| !state.truth.lie),
            Property::always("I12 one verdict", |_, state: &State| {
                !state.truth.second_verdict
            }),
        ];
        always.into_iter().chain(of_honest_requests).collect()
    }
}
