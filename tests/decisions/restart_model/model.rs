//! What may happen in the model, and what must hold.

use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;
use stateright::{Model, Property};
use swaplet::decide::restart::{Action as Write, Change, Made};
use swaplet::image::ImageReference;
use swaplet::objects::restart_request::{Parking, StatePhase};

use super::state::{Controller, Event, Message, State, Truth};
use super::world::{Mutant, OTHER, PodChange, Real, Run, Stores};
use crate::expect::EXIT;
use crate::restart::world::{PARK, images, pod, read_pod, read_request, request, without_digests};

/// A model to be explored.
#[derive(Clone)]
pub struct Restart {
    pub controllers: usize,
    pub faults: u8,
    pub policy: &'static str,
    pub force: bool,
    /// Whether the image has no alias, so that the container is parked.
    pub parks: bool,
    /// Whether the node tells up to where it has seen the spec.
    pub observes: bool,
    pub mutant: Mutant,
    pub stores: Arc<Mutex<Stores>>,
}

impl Restart {
    pub fn new(controllers: usize, faults: u8, policy: &'static str) -> Self {
        Self { controllers, faults, policy, force: false, parks: false, observes: true, mutant: Mutant::None, stores: Arc::default() }
    }

    /// The same for a container whose image has no alias. What is parked under `OnFailure` and `Never` is parked by force.
    pub fn parking(controllers: usize, faults: u8, policy: &'static str) -> Self {
        Self { parks: true, force: true, ..Self::new(controllers, faults, policy) }
    }

    fn stores(&self) -> MutexGuard<'_, Stores> {
        self.stores.lock().unwrap()
    }

    /// Whether the node starts the container again by itself.
    fn starts_again(&self, run: Run) -> bool {
        match run {
            Run::Running => false,
            Run::Ended => self.policy == "Always",
            Run::Stopped | Run::NotPulled => self.policy != "Never",
        }
    }

    /// Nothing is left to be done: the request has its verdict, and the container is as the spec says.
    pub fn is_settled(&self, state: &State) -> bool {
        let stores = self.stores();
        let completed = state.request.is_none_or(|id| {
            let request = stores.read_request(id);
            request.is_completed() && !request.active && request.states.iter().all(|state| state.phase.is_final())
        });
        let Some(pod) = state.pod.filter(|pod| !stores.read_pod(*pod).pod.deleting) else { return completed };
        let image = stores.container(pod).image;
        if *image == *PARK {
            return false;
        }
        let as_specified = state.real.run == Run::Running && state.real.image == image;
        completed && (as_specified || (state.real.run != Run::Running && !self.starts_again(state.real.run)) || *state.real.image == *EXIT)
    }

    fn spec_image(&self, state: &State) -> Option<Box<str>> {
        let stores = self.stores();
        let pod = state.pod.filter(|pod| !stores.read_pod(*pod).pod.deleting)?;
        Some(stores.container(pod).image)
    }

    fn change_pod(&self, state: &mut State, change: PodChange) {
        if let Some(pod) = state.pod {
            state.pod = Some(self.stores().change(pod, change));
        }
    }

    /// The API server takes a write, or refuses it.
    fn take(&self, state: &mut State, message: &Message) -> Made {
        let write = self.stores().action(message.write);
        match &write {
            Write::Swap(change) => self.take_swap(state, message, change),
            _ => self.take_request(state, message, &write),
        }
    }

    fn take_swap(&self, state: &mut State, message: &Message, change: &Change) -> Made {
        let Some(pod) = state.pod else { return Made::No };
        let (from, to) = (&change.swaps[0].from, &change.swaps[0].to);
        let (now, read) = {
            let stores = self.stores();
            (stores.read_pod(pod), message.pod.map(|read| stores.read_pod(read)))
        };
        let image = now.pod.containers[0].image.clone();
        let same_pod = read.is_some_and(|read| read.pod.uid == now.pod.uid);
        let same_generation = change.generation == now.generation || self.mutant == Mutant::GenerationUnguarded;
        // A version of a pod is its content here.
        let same_version = change.note.is_none() || message.pod == state.pod || self.mutant == Mutant::GenerationUnguarded;
        let guarded = same_pod && image == *from && same_generation && same_version;
        if !guarded && self.mutant != Mutant::PodUnguarded {
            return Made::No;
        }
        state.truth.wrong_pod |= !same_pod;
        let is_back = *image == *PARK && state.truth.parked.as_ref() == Some(to);
        let goes_out = *image != *PARK && **to == *PARK;
        state.truth.other_bytes |= !is_back && !goes_out && !same_bytes(&image, to);
        state.truth.parked = goes_out.then_some(image);
        if !self.puts_back(message) {
            state.truth.swaps = (state.truth.swaps + 1).min(2);
            if self.force {
                state.truth.count_before = Some(state.real.count);
            }
        }
        let note = change.note.as_ref().map(|note| note.parked.clone()).filter(|_| self.mutant != Mutant::ParksWithoutNote);
        self.change_pod(state, PodChange::Swap(to.clone(), note));
        Made::Yes
    }

    fn puts_back(&self, message: &Message) -> bool {
        let Some(request) = message.request else { return true };
        let request = self.stores().read_request(request);
        let intent = request.mark("app").and_then(|mark| mark.intent.as_ref());
        intent.is_some_and(|intent| intent.back.is_some() || intent.parking == Some(Parking::Back))
    }

    fn take_request(&self, state: &mut State, message: &Message, write: &Write) -> Made {
        let Some(request) = state.request else { return Made::No };
        if Some(request) != message.request && self.mutant != Mutant::RequestUnguarded {
            return Made::No;
        }
        if matches!(write, Write::Delete) {
            state.request = None;
            return Made::Yes;
        }
        if let (Write::Accept(_), Some(seen), false) = (write, message.pod, self.force) {
            let shown = self.stores().container(seen).status.map(|status| u8::try_from(status.restart_count).unwrap());
            state.truth.count_before = shown;
        }
        let before = self.stores().read_request(request);
        let after = self.stores().write(request, message.write, self.mutant);
        state.request = Some(after);
        let after = self.stores().read_request(after);
        let verdict = after.state("app").phase;
        state.truth.second_verdict |= before.state("app").phase.is_final() && before.state("app") != after.state("app");
        if verdict == StatePhase::Succeeded && before.state("app").phase != verdict {
            let restarted = state.truth.count_before.is_some_and(|count| state.real.count > count);
            // What is said of a pod that has just been replaced is not said of the next one.
            let pod = state.pod.map(|pod| self.stores().read_pod(pod).pod.uid.clone());
            let is_parked = *state.real.image == *PARK;
            state.truth.lie |= (!restarted || is_parked) && pod == before.pod_uid;
            state.truth.succeeded = true;
        }
        state.truth.failed |= verdict == StatePhase::Failed;
        Made::Yes
    }

    fn come_back(&self, state: &mut State, message: &Message, made: Made) {
        let (Some(sender), Some(request)) = (message.from, message.request) else { return };
        let made = if self.mutant == Mutant::LostIsRefused && made == Made::Perhaps { Made::No } else { made };
        let controller = &mut state.controllers[sender];
        controller.busy = false;
        controller.memory = self.stores().settle(controller.memory, request, message.write, made);
    }

    fn start(&self, state: &mut State, image: Box<str>) {
        // More restarts than these tell nothing new.
        let ends = self.mutant == Mutant::ParkEnds && *image == *PARK;
        let run = if ends { Run::Ended } else { Run::Running };
        state.real = Real { image, count: (state.real.count + 1).min(5), run };
        let generation = state.pod.and_then(|pod| self.stores().read_pod(pod).generation);
        state.seen = generation.unwrap_or_default();
    }
}

/// Whether both names are of the same image.
fn same_bytes(one: &str, other: &str) -> bool {
    match (ImageReference::parse(one), ImageReference::parse(other)) {
        (Ok(one), Ok(other)) => one.is_alias_of(&other),
        _ => false,
    }
}

impl Model for Restart {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let mut object = if self.parks { without_digests(self.policy) } else { pod(self.policy) };
        object["metadata"]["generation"] = json!(1);
        object["status"]["containerStatuses"][0]["state"] = json!({"running": {}});
        if self.observes {
            object["status"]["observedGeneration"] = json!(1);
        } else {
            object["status"]["observedGeneration"] = json!(null);
        }
        // Only what happens to one container is explored; the other one keeps the pod alive.
        let mut stores = self.stores();
        stores.parks = self.parks;
        let memory = stores.new_memory();
        let pod = stores.pod(read_pod(&object));
        let controller = Controller { request: None, pod: None, memory, busy: false };
        vec![State {
            request: None,
            pod: Some(pod),
            real: Real { image: images("app").0.into(), count: 0, run: Run::Running },
            seen: 1,
            controllers: vec![controller; self.controllers],
            net: Vec::new(),
            faults: self.faults,
            edits: 1,
            deletes: 1,
            requests: 1,
            truth: Truth::default(),
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        let faulty = state.faults > 0;
        for (nth, controller) in state.controllers.iter().enumerate() {
            if controller.request != Some(state.request) {
                events.push(Event::ReadRequest(nth));
            }
            if controller.pod != Some(state.pod) {
                events.push(Event::ReadPod(nth));
            }
            if let (false, Some(Some(request)), Some(pod)) = (controller.busy, controller.request, controller.pod) {
                // Only who has nothing to write waits.
                let late = self.stores().decide(request, pod, controller.memory, false).0.is_none();
                events.push(Event::Decide(nth, late));
            }
            if let (true, Some(request), Some(Some(pod))) =
                (self.parks && self.mutant != Mutant::NoOrphans, controller.request, controller.pod)
                && self.stores().orphan(request, pod).is_some()
            {
                events.push(Event::Mend(nth));
            }
            if faulty {
                events.push(Event::Dies(nth));
            }
        }
        for nth in 0..state.net.len() {
            events.push(Event::Deliver(nth));
            if faulty {
                events.extend([Event::DeliverLost(nth), Event::Drop(nth)]);
            }
        }
        if state.requests > 0 && state.pod.is_some() {
            events.push(Event::MakeRequest);
        }
        if faulty && state.request.is_some() {
            events.push(Event::DeleteRequest);
        }
        if state.pod.is_some() {
            events.extend([Event::Sync, Event::Report, Event::Gone]);
            if faulty {
                events.extend([Event::PullFails, Event::StopsOnly, Event::Crashes]);
                events.extend([Event::UserEdits, Event::PutBack, Event::Terminate, Event::DeletePod]);
            }
        }
    }

    fn next_state(&self, last: &State, event: Event) -> Option<State> {
        let mut state = last.clone();
        if !event.is_fair() && event != Event::MakeRequest {
            state.faults -= 1;
        }
        match event {
            Event::ReadRequest(nth) => state.controllers[nth].request = Some(state.request),
            Event::ReadPod(nth) => state.controllers[nth].pod = Some(state.pod),
            Event::Decide(nth, late) => {
                let controller = &mut state.controllers[nth];
                let (request, pod) = (controller.request??, controller.pod?);
                let (write, memory) = self.stores().decide(request, pod, controller.memory, late);
                // A look without a write is a look that might as well come later: no time passes in between.
                let write = write?;
                controller.memory = memory;
                controller.busy = true;
                state.net.push(Message { from: Some(nth), write, request: Some(request), pod });
            }
            Event::Mend(nth) => {
                let controller = &state.controllers[nth];
                let (request, pod) = (controller.request?, controller.pod??);
                let write = self.stores().orphan(request, pod)?;
                let message = Message { from: None, write, request: None, pod: Some(pod) };
                // One at a time.
                if state.net.contains(&message) {
                    return None;
                }
                state.net.push(message);
            }
            Event::Deliver(nth) => {
                let message = state.net.remove(nth);
                let made = self.take(&mut state, &message);
                self.come_back(&mut state, &message, made);
            }
            Event::DeliverLost(nth) => {
                let message = state.net.remove(nth);
                self.take(&mut state, &message);
                self.come_back(&mut state, &message, Made::Perhaps);
            }
            Event::Drop(nth) => {
                let message = state.net.remove(nth);
                self.come_back(&mut state, &message, Made::Perhaps);
            }
            Event::Dies(nth) => {
                let memory = self.stores().new_memory();
                state.controllers[nth] = Controller { request: None, pod: None, memory, busy: false };
                state.net.iter_mut().filter(|message| message.from == Some(nth)).for_each(|message| message.from = None);
            }
            Event::Sync => {
                let image = self.spec_image(&state)?;
                let differs = image != state.real.image && (state.real.run == Run::Running || self.starts_again(state.real.run));
                if !differs && !self.starts_again(state.real.run) {
                    return None;
                }
                self.start(&mut state, image);
            }
            Event::Report => {
                let (real, seen) = (state.real.clone(), state.seen);
                self.change_pod(&mut state, PodChange::Status(real, seen));
            }
            Event::PullFails => {
                let image = self.spec_image(&state).filter(|image| *image != state.real.image && state.real.run == Run::Running)?;
                self.start(&mut state, image);
                state.real.count = last.real.count;
                state.real.run = if self.policy == "Never" { Run::Stopped } else { Run::NotPulled };
            }
            Event::StopsOnly => {
                self.spec_image(&state).filter(|image| *image != state.real.image && state.real.run == Run::Running)?;
                state.real.run = Run::Stopped;
            }
            Event::Crashes => {
                if state.real.run != Run::Running {
                    return None;
                }
                // It is started again as the node knows the spec.
                let image = state.real.image.clone();
                let seen = state.seen;
                if self.policy == "Never" {
                    state.real.run = Run::Stopped;
                } else {
                    self.start(&mut state, image);
                    state.seen = seen;
                }
            }
            Event::UserEdits if state.edits > 0 => {
                self.spec_image(&state)?;
                state.edits -= 1;
                self.change_pod(&mut state, PodChange::Image(OTHER.into()));
            }
            Event::PutBack if state.edits > 0 => {
                self.spec_image(&state).filter(|image| **image != *images("app").0)?;
                state.edits -= 1;
                self.change_pod(&mut state, PodChange::Image(images("app").0.into()));
            }
            Event::Terminate if state.edits > 0 && self.policy != "Always" => {
                self.spec_image(&state)?;
                state.edits -= 1;
                self.change_pod(&mut state, PodChange::Image(EXIT.into()));
            }
            Event::UserEdits | Event::PutBack | Event::Terminate => return None,
            Event::DeletePod => {
                self.spec_image(&state).filter(|_| state.deletes > 0)?;
                state.deletes -= 1;
                self.change_pod(&mut state, PodChange::Deleting);
            }
            // The next pod of that name comes at once.
            Event::Gone => {
                let deleting = self.stores().read_pod(state.pod?).pod.deleting;
                if !deleting {
                    return None;
                }
                self.change_pod(&mut state, PodChange::Replaced);
                state.real = Real { image: images("app").0.into(), count: 0, run: Run::Running };
                state.seen = 1;
                state.truth.swaps = 0;
            }
            Event::MakeRequest => {
                state.requests -= 1;
                let object = read_request(&request(&["app"], &json!({"forceRecreate": self.force})));
                state.request = Some(self.stores().request(object));
            }
            Event::DeleteRequest => state.request = None,
        }
        state.net.sort();
        if let [one, other] = &mut state.controllers[..]
            && one > other
        {
            std::mem::swap(one, other);
            state.net.iter_mut().for_each(|message| message.from = message.from.map(|from| 1 - from));
            state.net.sort();
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("S1 what is written is the same image", |_, state: &State| !state.truth.other_bytes),
            Property::always("S3 no write meets another pod", |_, state: &State| !state.truth.wrong_pod),
            Property::always("S4 one change per request", |_, state: &State| state.truth.swaps <= 1),
            Property::always("S5 success is true", |_, state: &State| !state.truth.lie),
            Property::always("I12 one verdict", |_, state: &State| !state.truth.second_verdict),
            Property::sometimes("R1 a restart succeeds", |_, state: &State| state.truth.succeeded),
        ]
    }
}
