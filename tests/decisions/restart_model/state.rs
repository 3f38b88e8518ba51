//! A state of the model, and the events that lead from one to the next. Requests, pods, writes,
//! memories and images are numbers here; the real ones are in the stores (`world`), once each.

use std::hash::{Hash, Hasher};

/// The number of a thing that is kept in a store.
pub type Id = u16;
/// No thing: nothing was read yet, or nothing is sent.
pub const NOTHING: Id = 0;
/// It was looked for, and it is not there.
pub const ABSENT: Id = 1;
/// What a store gives its first thing.
pub const FIRST: Id = 2;

/// The number of an image.
pub type ImageId = u8;

/// One controller: what it has read, which may be old. What it remembers times things only, and
/// here any time may have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Controller {
    /// The request as it was read.
    pub request: Id,
    /// The pod as it was read.
    pub pod: Id,
    /// Its write under way; there is one at a time.
    pub sent: Id,
    /// The last change of an image of which a webhook has stored another one, as the answer said.
    pub stored: Id,
    /// The last write to the pod, where a webhook has undone that.
    pub in_vain: Id,
}

/// The container as it is on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Real {
    pub image: ImageId,
    pub count: u8,
    pub run: Run,
    /// How many requests had been made when it was started.
    pub since: u8,
}

impl Real {
    /// As a pod begins.
    pub const FIRST: Self = Self {
        image: super::world::ORIGINAL,
        count: 0,
        run: Run::Running,
        since: 0,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Running,
    Stopped,
    /// By itself, or where it exits so when it is stopped, with exit code 0.
    Ended,
    NotPulled,
    /// The back-off of its name has not ended.
    BacksOff,
}

/// What really happened, which nobody in the model can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// The restarts that there were when the request was made, or under force when the image was
    /// changed.
    pub count_before: Option<u8>,
    pub swaps: u8,
    /// The image that the container had before it was parked.
    pub parked: Option<ImageId>,
    pub other_bytes: bool,
    pub wrong_pod: bool,
    pub lie: bool,
    pub second_verdict: bool,
    /// A stop for a change of ours has been the end of the container.
    pub lost: bool,
}

/// A state of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The request as the API server has it.
    pub request: Id,
    /// The pod as the API server has it.
    pub pod: Id,
    pub real: Real,
    /// Up to which generation the node has seen the spec.
    pub seen: u8,
    /// The images, a bit for each, by which the node starts no container until their back-off ends.
    pub held: u32,
    /// The second is idle in models of one.
    pub controllers: [Controller; 2],
    /// Writes under way that survived their senders, and those that put back what is parked for
    /// nobody, sorted.
    pub strays: Vec<Id>,
    pub faults: u8,
    pub edits: u8,
    pub deletes: u8,
    pub requests: u8,
    /// Whether a controller has written the image that the spec has, as the API server keeps it in
    /// `managedFields`.
    pub ours: bool,
    pub truth: Truth,
}

impl Hash for State {
    /// In one piece, for it is done for every state that is met.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let [one, other] = self.controllers;
        let pair = |high: u8, low: u8| Id::from(high) << 8 | Id::from(low);
        let option = |value: Option<u8>| value.map_or(0, |value| value + 1);
        let Truth {
            count_before,
            swaps,
            parked,
            other_bytes,
            wrong_pod,
            lie,
            second_verdict,
            lost,
        } = self.truth;
        let wrongs = [other_bytes, wrong_pod, lie, second_verdict, lost, self.ours];
        let wrongs = wrongs
            .into_iter()
            .enumerate()
            .fold(0, |wrongs, (bit, wrong)| wrongs | u8::from(wrong) << bit);
        [
            self.request,
            self.pod,
            one.request,
            one.pod,
            one.sent,
            other.request,
            other.pod,
            other.sent,
            pair(self.real.image, self.real.count),
            pair(self.real.run as u8, self.seen),
            pair(self.faults, self.edits),
            pair(self.deletes, self.requests),
            pair(option(count_before), swaps),
            pair(option(parked), wrongs),
            pair(self.real.since, 0),
            (self.held >> 16) as Id,
            self.held as Id,
            one.stored,
            one.in_vain,
            other.stored,
            other.in_vain,
        ]
        .hash(hasher);
        self.strays.hash(hasher);
    }
}

impl State {
    /// Two controllers that change places are the same state; so are writes.
    pub fn sort(&mut self, controllers: usize) {
        if controllers == 2 && self.controllers[0] > self.controllers[1] {
            self.controllers.swap(0, 1);
        }
        self.strays.sort_unstable();
    }

    /// A write is under way no more; its sender, if it still lives, may go on.
    pub fn come_back(&mut self, sender: Sender) {
        match sender {
            Sender::Controller(nth) => self.controllers[nth].sent = NOTHING,
            Sender::Stray(nth) => drop(self.strays.remove(nth)),
        }
    }

    /// The write under way.
    pub fn sent_by(&self, sender: Sender) -> Id {
        match sender {
            Sender::Controller(nth) => self.controllers[nth].sent,
            Sender::Stray(nth) => self.strays[nth],
        }
    }
}

impl Controller {
    /// It has just been started.
    pub const NEW_LIFE: Self = Self {
        request: NOTHING,
        pod: NOTHING,
        sent: NOTHING,
        stored: NOTHING,
        in_vain: NOTHING,
    };

    /// The controller at this place reads what it reads of these.
    pub fn read(&mut self, state: &State, nth: usize, reads: u8) {
        if reads & reads_request(nth) != 0 {
            self.request = state.request;
        }
        if reads & reads_pod(nth) != 0 {
            self.pod = state.pod;
        }
    }
}

/// A step, and what was read just before it.
///
/// A controller may read at any time, but what it has read shows only when it decides, and it is
/// the same until the thing read changes. So everything that can come of reading is found if it is
/// read just before a decision, and just before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub step: Step,
    /// A bit for each: the request and the pod by the first controller, the request and the pod by
    /// the second.
    pub reads: u8,
}

/// The bit of [`Event::reads`] of a controller that reads the request.
pub const fn reads_request(nth: usize) -> u8 {
    1 << (2 * nth)
}

/// The bit of [`Event::reads`] of a controller that reads the pod.
pub const fn reads_pod(nth: usize) -> u8 {
    2 << (2 * nth)
}

/// Whose write it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Controller(usize),
    Stray(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing but the reads.
    Look,
    /// A controller decides; `true` where all that it waits for has lasted too long.
    Decide(usize, bool),
    /// A controller puts back what it sees parked for nobody.
    Mend(usize),
    /// Its sender reads the answer, unless it is gone: all that it can remember of that is what a
    /// webhook has made of a write.
    Deliver(Sender),
    /// The same, and a webhook changes what is stored.
    Change(Sender),
    /// It is lost. Whoever is to send it might as well not have decided.
    Drop(Sender),
    Dies(usize),
    /// The node does what the spec says.
    Sync,
    /// The node tells how the container is.
    Report,
    PullFails,
    /// All back-offs end.
    BackOffsEnd,
    /// The container was stopped, and the node dies before it starts the next one.
    StopsOnly,
    Crashes,
    UserEdits,
    PutBack,
    Terminate,
    DeletePod,
    Gone,
    MakeRequest,
    DeleteRequest,
    /// Somebody makes the request, with this journal, and with the labels of one that was taken up.
    ForgeRequest(u8, bool),
    /// Somebody writes this journal into the request.
    ForgeJournal(u8),
    /// Somebody writes this into the pod, about parked containers.
    ForgeNote(u8),
}

impl Step {
    /// Whether it costs nothing: the system does it by itself, or it is the one request that is
    /// made.
    pub const fn is_free(self) -> bool {
        matches!(
            self,
            Self::Look
                | Self::Decide(..)
                | Self::Mend(_)
                | Self::Deliver(_)
                | Self::Sync
                | Self::BackOffsEnd
                | Self::Report
                | Self::Gone
                | Self::MakeRequest
        )
    }
}
