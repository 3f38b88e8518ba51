//! The method by which each sidecar ended, recorded when its own end is first observed.

use super::Memory;
use crate::objects::pod::{Pod, roles};
use crate::report::decision::Method;

/// The sidecars observed to have ended since the main containers are done.
#[derive(Clone, Debug, Default)]
pub struct SeenEnds(Vec<SeenEnd>);

#[derive(Clone, Debug)]
struct SeenEnd {
    sidecar: Box<str>,
    method: Option<Method>,
}

impl SeenEnds {
    fn of(&self, sidecar: &str) -> Option<&SeenEnd> {
        self.0.iter().find(|seen| *seen.sidecar == *sidecar)
    }
}

impl Memory {
    /// Records the sidecars that have ended. The exit image that replaces one does not undo its
    /// end; if nothing was written, a sidecar that runs again has not ended.
    pub(super) fn observe_ends(&mut self, pod: &Pod) {
        if self.mains_done_at.is_none() {
            return self.ends.0.clear();
        }
        for sidecar in roles::sidecars(pod) {
            let name = &sidecar.name;
            let swapped = self.swap_of(name);
            let has_ended = sidecar.end().is_some()
                || swapped.is_some_and(|swapped| swapped.real_end.is_some());
            let is_known = self.ends.of(name).is_some();
            if has_ended && !is_known {
                let method = self.begun(name);
                self.ends.0.push(SeenEnd {
                    sidecar: name.clone(),
                    method,
                });
            } else if !has_ended && is_known && swapped.is_none() {
                self.ends.0.retain(|seen| seen.sidecar != *name);
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

    /// Returns the method that ended a sidecar, or the last one that was tried if its end was not
    /// observed; `None` if it ended by itself.
    #[must_use]
    pub fn method_of(&self, sidecar: &str) -> Option<Method> {
        match self.ends.of(sidecar) {
            // The watch may show the end before the write returns.
            Some(seen) => seen
                .method
                .or_else(|| self.swap_of(sidecar).map(|_| Method::Swap)),
            None => self.ending().map(|(_, method)| method),
        }
    }
}
