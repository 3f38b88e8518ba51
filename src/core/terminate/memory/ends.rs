//! By which method each sidecar was ended: what had been begun when its own end was first seen.

use super::Memory;
use crate::objects::pod::{Pod, roles};
use crate::report::decision::Method;

/// The sidecars that were seen to have ended since the main containers are done.
#[derive(Clone, Debug, Default)]
pub struct SeenEnds(Vec<(Box<str>, Option<Method>)>);

impl SeenEnds {
    fn of(&self, sidecar: &str) -> Option<Option<Method>> {
        let seen = self.0.iter().find(|(name, _)| **name == *sidecar);
        seen.map(|(_, method)| *method)
    }
}

impl Memory {
    /// The exit image that takes the place of a sidecar does not undo its end; where nothing was
    /// written, one that runs again has not ended.
    pub(super) fn observe_ends(&mut self, pod: &Pod) {
        if self.mains_done_at.is_none() {
            return self.ends.0.clear();
        }
        for sidecar in roles::sidecars(pod) {
            let name = &sidecar.name;
            let is_known = self.ends.of(name).is_some();
            if sidecar.end().is_some() && !is_known {
                let begun = self.begun(name);
                self.ends.0.push((name.clone(), begun));
            } else if sidecar.end().is_none() && is_known && self.swap_of(name).is_none() {
                self.ends.0.retain(|(known, _)| known != name);
            }
        }
    }

    fn begun(&self, sidecar: &str) -> Option<Method> {
        let is_finished = self
            .finish
            .as_ref()
            .is_some_and(|record| record.has_begun());
        if is_finished {
            Some(Method::Finish)
        } else if self.swap_of(sidecar).is_some() {
            Some(Method::Swap)
        } else {
            self.asked_at().map(|_| Method::Recreate)
        }
    }

    /// The method that ended a sidecar, or the last one that was tried where its end was not seen;
    /// `None`: it ended by itself.
    #[must_use]
    pub fn method_of(&self, sidecar: &str) -> Option<Method> {
        match self.ends.of(sidecar) {
            Some(Some(method)) => Some(method),
            // The watch may show the end before the answer to the write comes.
            Some(None) => self.swap_of(sidecar).map(|_| Method::Swap),
            None => self.ending().map(|(_, method)| method),
        }
    }
}
