//! The state of a server, shared by all concurrent readers and writers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch::{Receiver, Sender};

use super::state::State;
use crate::clock::Clock;

/// The part that all handles and all watches of one server share.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    clock: Clock,
    revisions: Sender<u64>,
}

impl Shared {
    /// Returns a server with only the usual namespaces that runs on this clock.
    pub fn new(clock: Clock) -> Self {
        let state = State::new(clock);
        let revisions = Sender::new(state.store.revision());
        Self {
            state: Mutex::new(state),
            clock,
            revisions,
        }
    }

    /// Returns the clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not spread through the lock: every change of the state is complete
        // in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies watches of a possible change.
    pub fn announce(&self, revision: u64) {
        self.revisions
            .send_if_modified(|known| std::mem::replace(known, revision) != revision);
    }

    /// Returns a receiver of the revisions announced from now on.
    pub fn subscribe(&self) -> Receiver<u64> {
        self.revisions.subscribe()
    }
}
