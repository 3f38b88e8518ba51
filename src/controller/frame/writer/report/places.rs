//! The places in the queue of Events. One namespace cannot take all of them, so that a tenant with
//! very many reports keeps no others from being sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most Events of one namespace that may be queued; more are dropped, because the API server is
/// too slow.
const OF_NAMESPACE: usize = 10_000;
/// The most Events of all namespaces that may be queued.
const OF_ALL: usize = 12_000;

/// All places.
#[derive(Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Taken,
}

/// The number of places that each namespace has.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<HashMap<Box<str>, usize>>>);

/// One place, which is free again when this is dropped.
pub(super) struct Place {
    namespace: Box<str>,
    taken: Taken,
    _of_all: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            free: Arc::new(Semaphore::new(OF_ALL)),
            taken: Taken::default(),
        }
    }

    /// Takes a place for an Event of this namespace; `None` if there is none for it.
    pub(super) fn take(&self, namespace: &str) -> Option<Place> {
        let of_all = self.free.clone().try_acquire_owned().ok()?;
        let mut taken = self.taken.lock();
        let of_namespace = taken.entry(namespace.into()).or_default();
        if *of_namespace >= OF_NAMESPACE {
            return None;
        }
        *of_namespace += 1;
        Some(Place {
            namespace: namespace.into(),
            taken: self.taken.clone(),
            _of_all: of_all,
        })
    }

    /// Waits until all places are free.
    pub(super) async fn all_free(&self) {
        let all = u32::try_from(OF_ALL).unwrap_or(u32::MAX);
        let _ = self.free.acquire_many(all).await;
    }
}

impl Taken {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(of_namespace) = taken.get_mut(&self.namespace) {
            *of_namespace -= 1;
            if *of_namespace == 0 {
                taken.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_very_many_leaves_places_to_others_and_nothing_behind() {
        let places = Places::new();
        let loud: Vec<_> = (0..OF_ALL).filter_map(|_| places.take("loud")).collect();
        assert_eq!(loud.len(), OF_NAMESPACE);
        let quiet: Vec<_> = (0..OF_ALL).filter_map(|_| places.take("quiet")).collect();
        assert_eq!(quiet.len(), OF_ALL - OF_NAMESPACE);
        drop((loud, quiet));
        assert_eq!(places.free.available_permits(), OF_ALL);
        assert!(places.taken.lock().is_empty());
    }
}
