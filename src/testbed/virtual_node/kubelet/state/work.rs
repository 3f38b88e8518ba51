//! What the worker of a pod does.

use std::collections::VecDeque;

use jiff::Timestamp;

/// What the worker does.
#[derive(Clone, Debug)]
pub enum Work {
    Idle,
    Syncing {
        rest: VecDeque<Step>,
        now: Doing,
        failed: bool,
    },
    /// All containers are being stopped since then.
    Terminating(Timestamp),
    /// They have ended; a list of the containers must confirm it.
    Settling(Timestamp),
    Terminated,
    Gone,
}

/// One part of a sync.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Kill(usize),
    Sandbox,
    /// A start that waits for a back-off to be over.
    Start(usize),
    /// The start after a kill in this sync: for the back-off the container still runs.
    Restart(usize),
}

/// The part of a sync that takes time.
#[derive(Clone, Debug)]
pub enum Doing {
    Nothing,
    /// Until the container has ended.
    Killing(usize),
    Sandbox(Timestamp),
    Starting(usize, Starting),
}

/// How far a start has come.
#[derive(Clone, Debug)]
pub enum Starting {
    /// An image is being pulled, since and until then: its own, or one of its volumes.
    Pulling(String, Timestamp, Timestamp),
    /// The container is being created and started.
    Creating(Timestamp),
    /// The hook after the start runs.
    Hook(Timestamp),
}

impl Starting {
    pub const fn until(&self) -> Timestamp {
        match self {
            Self::Pulling(_, _, until) | Self::Creating(until) | Self::Hook(until) => *until,
        }
    }
}
