//! A state of the model, and the events that lead from one to the next.

use super::world::Real;

/// One controller: what it has read, which may be old, and what it remembers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Controller {
    pub request: Option<Option<u32>>,
    pub pod: Option<Option<u32>>,
    pub memory: u32,
    pub busy: bool,
}

/// A write under way. It survives its sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    pub from: Option<usize>,
    pub write: u32,
    /// The request as it was read; `None` where it is about what is parked for nobody.
    pub request: Option<u32>,
    pub pod: Option<u32>,
}

/// What really happened, which nobody in the model can read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Truth {
    /// The restarts that were shown to whoever took the request up, or under force those there were when the image was changed.
    pub count_before: Option<u8>,
    pub swaps: u8,
    /// The image that the container had before it was parked.
    pub parked: Option<Box<str>>,
    pub other_bytes: bool,
    pub wrong_pod: bool,
    pub lie: bool,
    pub second_verdict: bool,
    pub succeeded: bool,
    pub failed: bool,
}

/// A state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub request: Option<u32>,
    pub pod: Option<u32>,
    pub real: Real,
    /// Up to which generation the node has seen the spec.
    pub seen: i64,
    pub controllers: Vec<Controller>,
    pub net: Vec<Message>,
    pub faults: u8,
    pub edits: u8,
    pub deletes: u8,
    pub requests: u8,
    pub truth: Truth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    ReadRequest(usize),
    ReadPod(usize),
    Decide(usize, bool),
    /// A controller puts back what it sees parked for nobody.
    Mend(usize),
    Deliver(usize),
    /// It is applied, and the answer is lost.
    DeliverLost(usize),
    Drop(usize),
    Dies(usize),
    /// The node does what the spec says.
    Sync,
    /// The node tells how the container is.
    Report,
    PullFails,
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
}

impl Event {
    /// Whether the system does it by itself, so that it is to be expected.
    pub const fn is_fair(self) -> bool {
        matches!(
            self,
            Self::ReadRequest(_)
                | Self::ReadPod(_)
                | Self::Decide(..)
                | Self::Mend(_)
                | Self::Deliver(_)
                | Self::Sync
                | Self::Report
                | Self::Gone
        )
    }
}
