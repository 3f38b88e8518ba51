//! What each step does.

use serde_json::json;

use super::facts::{Message, WriteFacts};
use super::forger::forged_request;
use super::model::Restart;
use super::state::{Controller, ImageId, NOTHING, Real, Run, Sender, State, Step};
use super::webhooks::Webhook;
use super::world::{EXITED, Mutant, ORIGINAL, OTHER, PARKED, PodChange, Stores};
use crate::restart::world::{read_request, request};

impl Restart {
    /// Takes a step; `None` where there is no such step from here.
    pub fn take_step(&self, stores: &mut Stores, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Look => {}
            Step::Decide(nth, late) => Self::decide(stores, state, nth, late)?,
            Step::Mend(nth) => Self::mend(stores, state, nth)?,
            Step::Deliver(sender) | Step::Change(sender) => {
                let message = Self::message(stores, state, sender);
                let changes = self.always_changed || matches!(step, Step::Change(_));
                let by = if changes { self.webhook } else { Webhook::None };
                let answer = self.take(stores, state, message, by);
                state.come_back(sender);
                if let Sender::Controller(nth) = sender {
                    state.controllers[nth].learn(&answer);
                }
            }
            Step::Drop(sender) => state.come_back(sender),
            Step::Dies(nth) => {
                let sent = state.controllers[nth].sent;
                state.controllers[nth] = Controller::NEW_LIFE;
                state.strays.extend((sent != NOTHING).then_some(sent));
            }
            Step::MakeRequest => self.make_request(stores, state),
            Step::DeleteRequest => state.request = stores.delete_request(state.request),
            Step::ForgeRequest(form, labels) => {
                state.requests -= 1;
                state.request = stores.request(read_request(&forged_request(form, labels)));
            }
            Step::ForgeJournal(form) => state.request = stores.forge_journal(state.request, form),
            Step::ForgeNote(form) => state.pod = stores.change(state.pod, PodChange::Note(form)),
            Step::UserEdits | Step::PutBack | Step::Terminate | Step::DeletePod | Step::Gone => {
                self.change_pod(stores, state, step)?
            }
            Step::Sync | Step::Report | Step::PullFails | Step::StopsOnly | Step::Crashes => {
                self.run_node(stores, state, step)?
            }
            Step::BackOffsEnd => state.held = 0,
        }
        Some(())
    }

    /// A minute after the one before.
    fn make_request(&self, stores: &mut Stores, state: &mut State) {
        let nth = self.requests - state.requests;
        state.requests -= 1;
        let mut object = request(&["app"], &json!({"forceRecreate": self.force}));
        if nth > 0 {
            object["metadata"]["uid"] = json!(format!("ru{nth}"));
            object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:0{nth}:00Z"));
        }
        state.request = stores.request(read_request(&object));
        state.truth.count_before = (!self.force).then_some(state.real.count);
        state.truth.swaps = 0;
        // What is remembered is remembered for one request.
        for controller in &mut state.controllers {
            (controller.stored, controller.in_vain) = (NOTHING, NOTHING);
            // A pod is followed anew for a request when there was none for it.
            controller.pod = NOTHING;
        }
    }

    fn message(stores: &Stores, state: &State, sender: Sender) -> Message {
        stores.read_message(state.sent_by(sender))
    }

    /// Whether the write is one of the pod.
    pub fn is_swap(stores: &Stores, state: &State, sender: Sender) -> bool {
        matches!(
            stores.write_facts(Self::message(stores, state, sender).write),
            WriteFacts::Swap(_) | WriteFacts::Unmark
        )
    }

    fn decide(stores: &mut Stores, state: &mut State, nth: usize, late: bool) -> Option<()> {
        let controller = &mut state.controllers[nth];
        let Controller { request, pod, .. } = *controller;
        let write = stores.decide(*controller, late);
        // A look without a write is a look that might as well come later: no time passes in
        // between.
        if write == NOTHING {
            return None;
        }
        controller.sent = stores.message(Message {
            write,
            request,
            pod,
        });
        Some(())
    }

    fn mend(stores: &mut Stores, state: &mut State, nth: usize) -> Option<()> {
        let Controller { request, pod, .. } = state.controllers[nth];
        let write = stores.orphan(request, pod);
        let sent = stores.message(Message {
            write,
            request: NOTHING,
            pod,
        });
        // One at a time.
        if write == NOTHING || state.strays.contains(&sent) {
            return None;
        }
        state.strays.push(sent);
        Some(())
    }

    /// The image that the node is to run.
    fn spec_image(stores: &Stores, state: &State) -> Option<ImageId> {
        let facts = stores.pod_facts(state.pod);
        (!facts.deleting).then_some(facts.image)
    }

    fn change_pod(&self, stores: &mut Stores, state: &mut State, step: Step) -> Option<()> {
        let image = Self::spec_image(stores, state);
        let change = match step {
            Step::UserEdits => PodChange::Image(image.map(|_| OTHER)?),
            Step::PutBack => {
                PodChange::Image(image.filter(|image| *image != ORIGINAL).map(|_| ORIGINAL)?)
            }
            Step::Terminate if self.policy == "Always" => return None,
            Step::Terminate => PodChange::Image(image.map(|_| EXITED)?),
            Step::DeletePod => image.map(|_| PodChange::Deleting)?,
            // The next pod of that name comes at once.
            _ => PodChange::Replaced,
        };
        match change {
            PodChange::Image(_) => {
                state.edits -= 1;
                state.ours = false;
            }
            PodChange::Deleting => state.deletes -= 1,
            _ => {
                state.real = Real::FIRST;
                state.held = 0;
                state.seen = 1;
                state.ours = false;
                state.truth.swaps = 0;
                state.truth.count_before = state.truth.count_before.map(|_| 0);
            }
        }
        state.pod = stores.change(state.pod, change);
        Some(())
    }

    fn run_node(&self, stores: &mut Stores, state: &mut State, step: Step) -> Option<()> {
        let before = state.real;
        let image = Self::spec_image(stores, state);
        let to_be_changed =
            image.filter(|image| *image != before.image && before.run == Run::Running);
        match step {
            Step::Sync => {
                to_be_changed.or(image.filter(|_| self.starts_again(before.run)))?;
                match image? {
                    name if Self::is_held(state, name) => {
                        if (before.image, before.run) == (name, Run::BacksOff) {
                            return None;
                        }
                        self.backs_off(state, name);
                    }
                    alias if self.moved && Self::is_alias(alias) => {
                        if (before.image, before.run) == (alias, Run::NotPulled) {
                            return None;
                        }
                        self.does_not_start(stores, state, alias);
                    }
                    image => self.start(stores, state, image),
                }
            }
            Step::PullFails => self.does_not_start(stores, state, to_be_changed?),
            Step::StopsOnly => {
                to_be_changed?;
                self.stop(state);
            }
            Step::Crashes if before.run != Run::Running => return None,
            Step::Crashes if self.policy == "Never" => state.real.run = Run::Stopped,
            Step::Crashes if Self::is_held(state, before.image) => state.real.run = Run::BacksOff,
            Step::Crashes => {
                // It is started again as the node knows the spec.
                let seen = state.seen;
                self.start(stores, state, before.image);
                state.seen = seen;
            }
            _ => state.pod = stores.change(state.pod, PodChange::Status(state.real, state.seen)),
        }
        Some(())
    }

    /// Neither what it had, nor what somebody else gives it.
    const fn is_alias(image: ImageId) -> bool {
        !matches!(image, ORIGINAL | PARKED | EXITED | OTHER)
    }

    fn stop(&self, state: &mut State) {
        state.real.run = if self.exits_0 {
            Run::Ended
        } else {
            Run::Stopped
        };
        state.truth.lost |= self.exits_0 && state.ours && !self.starts_again(state.real.run);
    }

    /// It was stopped, and the image is not there.
    fn does_not_start(&self, stores: &Stores, state: &mut State, image: ImageId) {
        let count = state.real.count;
        self.start(stores, state, image);
        state.real.count = count;
        self.stop(state);
        if self.starts_again(state.real.run) {
            state.real.run = Run::NotPulled;
        }
    }

    /// Whether a container was started by this name and its back-off has not ended.
    const fn is_held(state: &State, name: ImageId) -> bool {
        state.held >> name & 1 != 0
    }

    /// The node stops what runs, and does not start it by this name yet.
    fn backs_off(&self, state: &mut State, name: ImageId) {
        if state.real.run == Run::Running {
            self.stop(state);
        }
        state.real.image = name;
        if self.starts_again(state.real.run) {
            state.real.run = Run::BacksOff;
        } else {
            state.truth.lost |= state.ours;
        }
    }

    fn start(&self, stores: &Stores, state: &mut State, image: ImageId) {
        if self.backs_off {
            state.held |= 1 << image;
        }
        // More restarts than these tell nothing new.
        let ends = self.mutant == Mutant::ParkEnds && stores.plain(image) == PARKED;
        let run = if ends { Run::Ended } else { Run::Running };
        state.real = Real {
            image,
            count: (state.real.count + 1).min(5),
            run,
            since: self.requests - state.requests,
        };
        let generation = stores.pod_facts(state.pod).generation.unwrap_or_default();
        state.seen = u8::try_from(generation).unwrap();
    }
}
