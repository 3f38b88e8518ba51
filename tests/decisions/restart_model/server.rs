//! What the API server does with writes, and what comes back to their senders.

use swaplet_core::restart::request::StatePhase;

use super::facts::{Message, SwapFacts, WriteFacts};
use super::forger::Forger;
use super::model::Restart;
use super::state::{ABSENT, Controller, Id, NOTHING, Sender, State};
use super::webhooks::Webhook;
use super::world::{Mutant, PARKED, PodChange, Stores};

/// What its sender learns of a write to the pod.
pub enum Answer {
    /// Nothing that it remembers.
    Nothing,
    /// It was stored; what it remembers of another image.
    Stored(Id),
    /// A webhook has undone this write.
    Undone(Id),
}

impl Controller {
    /// Reads the answer to its write.
    pub fn learn(&mut self, answer: &Answer) {
        match *answer {
            Answer::Nothing => {}
            Answer::Stored(stored) => (self.stored, self.in_vain) = (stored, NOTHING),
            Answer::Undone(write) => self.in_vain = write,
        }
    }
}

impl Restart {
    /// The API server takes a write, or refuses it; whether a webhook has changed it if it was
    /// taken.
    pub fn take(
        &self,
        stores: &mut Stores,
        state: &mut State,
        message: Message,
        by: Webhook,
    ) -> Answer {
        match *stores.write_facts(message.write) {
            WriteFacts::Swap(swap) => return self.take_swap(stores, state, message, swap, by),
            WriteFacts::Unmark if message.pod == state.pod => {
                state.pod = stores.change(state.pod, PodChange::Swap(message.write))
            }
            WriteFacts::Unmark => {}
            write => self.take_request(stores, state, message, write),
        }
        Answer::Nothing
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

    fn take_swap(
        &self,
        stores: &mut Stores,
        state: &mut State,
        message: Message,
        swap: SwapFacts,
        by: Webhook,
    ) -> Answer {
        if !self.accepts_swap(stores, state, message, swap) && self.mutant != Mutant::PodUnguarded {
            return Answer::Nothing;
        }
        let by_webhook = by != Webhook::None;
        // What no guard holds up is to be found although the policy would; and it is another one
        // that nobody forges what pods say.
        // What a webhook makes of an image the policy does not know; they are not used together.
        if self.is_guarded()
            && self.forger == Forger::Nobody
            && self.webhook == Webhook::None
            && !stores.admits(state.pod, message.write, state.ours)
        {
            return Answer::Nothing;
        }
        let now = stores.pod_facts(state.pod);
        let (image, to) = (now.image, swap.to);
        state.truth.wrong_pod |= stores.pod_facts(message.pod).uid != now.uid;
        if by.undoes() {
            state.pod = stores.change(state.pod, PodChange::Changed(message.write));
            return Answer::Undone(message.write);
        }
        state.ours = true;
        let was_parked = stores.plain(image) == PARKED;
        let is_back = was_parked && state.truth.parked == Some(to);
        let goes_out = !was_parked && to == PARKED;
        state.truth.other_bytes |= !is_back && !goes_out && !stores.are_same_bytes(image, to);
        state.truth.other_bytes |= self.forger != Forger::Nobody && !stores.is_honest(to);
        state.truth.parked = goes_out.then_some(image);
        let is_of_request = message.request != NOTHING && {
            let (sent_for, now) = (stores.request_facts(message.request), state.request);
            let is_present = now == ABSENT || stores.request_facts(now).uid == sent_for.uid;
            is_present && !sent_for.puts_back()
        };
        if is_of_request {
            state.truth.swaps = (state.truth.swaps + 1).min(2);
            if self.force {
                state.truth.count_before = Some(state.real.count);
            }
        }
        if !by_webhook {
            state.pod = stores.change(state.pod, PodChange::Swap(message.write));
            return Answer::Stored(NOTHING);
        }
        state.pod = stores.change(state.pod, PodChange::Changed(message.write));
        Answer::Stored(stores.answer(message.write, state.pod))
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
            let is_parked = stores.plain(state.real.image) == PARKED;
            state.truth.lie |= (!restarted || is_parked) && is_of_pod;
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
