//! The state of a server, for all who read and write it at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch::{Receiver, Sender};

use super::state::State;
use crate::clock::Clock;

/// What all handles and all watches of one server share.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    clock: Clock,
    revisions: Sender<u64>,
}

impl Shared {
    /// An empty server (but for the usual namespaces) that lives by this clock.
    pub fn new(clock: Clock) -> Self {
        let state = State::new(clock);
        let revisions = Sender::new(state.store.revision());
        Self {
            state: Mutex::new(state),
            clock,
            revisions,
        }
    }

    /// Its clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Its state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not spread through the lock: every change of the state is complete
        // in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells watches that something may have changed.
    pub fn announce(&self, revision: u64) {
        self.revisions
            .send_if_modified(|known| std::mem::replace(known, revision) != revision);
    }

    /// The revisions that are announced from now on.
    pub fn subscribe(&self) -> Receiver<u64> {
        self.revisions.subscribe()
    }
}
