//! What the API server does with writes, and what comes back to their senders.

use swaplet_core::restart::request::StatePhase;

use super::facts::{Message, SwapFacts, WriteFacts};
use super::forger::Forger;
use super::model::Restart;
use super::state::{ABSENT, Id, NOTHING, Sender, State};
use super::world::{Mutant, PARKED, PodChange, Stores};

impl Restart {
    /// The API server takes a write, or refuses it.
    pub fn take(&self, stores: &mut Stores, state: &mut State, message: Message) {
        match *stores.write_facts(message.write) {
            WriteFacts::Swap(swap) => self.take_swap(stores, state, message, swap),
            WriteFacts::Unmark if message.pod == state.pod => {
                state.pod = stores.change(state.pod, PodChange::Swap(message.write))
            }
            WriteFacts::Unmark => {}
            write => self.take_request(stores, state, message, write),
        }
    }

    /// Whether the API server takes a change of the pod.
    fn accepts_swap(
        &self,
        stores: &Stores,
        state: &State,
        message: Message,
        swap: SwapFacts,
    ) -> bool {
        let (now, read) = (stores.pod_facts(state.pod), stores.pod_facts(message.pod));
        let unguarded = self.mutant == Mutant::GenerationUnguarded;
        let same_generation = swap.generation == now.generation || unguarded;
        // A version of a pod is its content here.
        let same_version = !swap.is_noted || message.pod == state.pod || unguarded;
        read.uid == now.uid && now.image == swap.from && same_generation && same_version
    }

    fn take_swap(&self, stores: &mut Stores, state: &mut State, message: Message, swap: SwapFacts) {
        if !self.accepts_swap(stores, state, message, swap) && self.mutant != Mutant::PodUnguarded {
            return;
        }
        // What no guard holds up is to be found although the policy would; and it is another one
        // that nobody forges what pods say.
        if self.is_guarded()
            && self.forger == Forger::Nobody
            && !stores.admits(state.pod, message.write, state.ours)
        {
            return;
        }
        state.ours = true;
        let now = stores.pod_facts(state.pod);
        let (image, to) = (now.image, swap.to);
        state.truth.wrong_pod |= stores.pod_facts(message.pod).uid != now.uid;
        let is_back = image == PARKED && state.truth.parked == Some(to);
        let goes_out = image != PARKED && to == PARKED;
        state.truth.other_bytes |= !is_back && !goes_out && !stores.are_same_bytes(image, to);
        state.truth.other_bytes |= self.forger != Forger::Nobody && !stores.is_honest(to);
        state.truth.parked = goes_out.then_some(image);
        if message.request != NOTHING && !stores.request_facts(message.request).puts_back() {
            state.truth.swaps = (state.truth.swaps + 1).min(2);
            if self.force {
                state.truth.count_before = Some(state.real.count);
            }
        }
        state.pod = stores.change(state.pod, PodChange::Swap(message.write));
    }

    fn take_request(
        &self,
        stores: &mut Stores,
        state: &mut State,
        message: Message,
        write: WriteFacts,
    ) {
        let is_current =
            state.request == message.request || self.mutant == Mutant::RequestUnguarded;
        if state.request == ABSENT || !is_current {
            return;
        }
        if write == WriteFacts::Delete {
            state.request = ABSENT;
            return;
        }
        let written = stores.write(state.request, message.write);
        let (before, after) = (
            stores.request_facts(state.request),
            stores.request_facts(written),
        );
        state.truth.second_verdict |= before.state.phase.is_final() && before.state != after.state;
        if after.state.phase == StatePhase::Succeeded && before.state.phase != StatePhase::Succeeded
        {
            let restarted = state
                .truth
                .count_before
                .is_some_and(|count| state.real.count > count);
            // What is said of a pod that has just been replaced is not said of the next one.
            let is_of_pod = before.pod_uid.as_ref() == Some(&stores.pod_facts(state.pod).uid);
            state.truth.lie |= (!restarted || state.real.image == PARKED) && is_of_pod;
        }
        state.request = stores.without_what_is_gone(written);
    }

    /// Whether every write is guarded as it is to be.
    pub const fn is_guarded(&self) -> bool {
        !matches!(
            self.mutant,
            Mutant::RequestUnguarded | Mutant::PodUnguarded | Mutant::GenerationUnguarded
        )
    }

    /// Refuses at once what will be refused whenever it comes: the versions of an object never come
    /// back, so what is not made to the newest one is refused for good. The refusal changes nothing
    /// but that its sender may go on, and a sender may always wait.
    pub fn refuse_early(&self, stores: &Stores, state: &mut State) {
        if !self.is_guarded() || self.all_orders {
            return;
        }
        let strays = std::mem::take(&mut state.strays);
        state.strays = strays
            .into_iter()
            .filter(|sent| !self.is_refused(stores, state, *sent))
            .collect();
        for nth in 0..self.controllers {
            let sent = state.controllers[nth].sent;
            if sent != NOTHING && self.is_refused(stores, state, sent) {
                state.come_back(Sender::Controller(nth));
            }
        }
    }

    fn is_refused(&self, stores: &Stores, state: &State, sent: Id) -> bool {
        let message = stores.read_message(sent);
        match *stores.write_facts(message.write) {
            WriteFacts::Swap(swap) => !self.accepts_swap(stores, state, message, swap),
            WriteFacts::Unmark => message.pod != state.pod,
            _ => state.request != message.request,
        }
    }
}
