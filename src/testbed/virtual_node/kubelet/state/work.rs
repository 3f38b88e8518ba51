//! The work of a pod's worker.

use std::collections::VecDeque;

use jiff::Timestamp;

/// The state of the worker.
#[derive(Clone, Debug)]
pub enum Work {
    Idle,
    Syncing {
        rest: VecDeque<Step>,
        now: Doing,
        failed: bool,
    },
    /// All containers are being stopped since this time.
    Terminating(Timestamp),
    /// All have ended; a list of the containers must confirm it.
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
    /// The start after a kill in this sync: for the back-off the container is still running.
    Restart(usize),
}

/// The part of a sync that takes time.
#[derive(Clone, Debug)]
pub enum Doing {
    Nothing,
    /// Lasts until the container has ended.
    Killing(usize),
    Sandbox(Timestamp),
    Starting(usize, Starting),
}

/// The progress of a start.
#[derive(Clone, Debug)]
pub enum Starting {
    /// An image is being pulled, with start and end of the pull: its own, or one of its volumes.
    Pulling(String, Timestamp, Timestamp),
    /// The container is being created and started.
    Creating(Timestamp),
    /// The postStart hook is running.
    Hook(Timestamp),
}

impl Starting {
    pub const fn until(&self) -> Timestamp {
        match self {
            Self::Pulling(_, _, until) | Self::Creating(until) | Self::Hook(until) => *until,
        }
    }
}
