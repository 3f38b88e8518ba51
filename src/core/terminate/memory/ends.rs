//! The method by which each sidecar ended, and where its log is, recorded when its own end is first
//! observed.

use super::{Memory, SwapRecord};
use crate::objects::pod::evidence::exit_image_shown;
use crate::objects::pod::{Container, Pod, roles};
use crate::report::decision::Method;

/// The sidecars observed to have ended since the main containers are done.
#[derive(Clone, Debug, Default)]
pub struct SeenEnds(Vec<SeenEnd>);

#[derive(Clone, Debug)]
struct SeenEnd {
    sidecar: Box<str>,
    method: Option<Method>,
    is_told: bool,
}

/// The place where the node has the log of a sidecar that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// The log of the container that the status shows.
    Current,
    /// The log of the container before the exit image.
    Previous,
    /// No log: the node shows nothing of the sidecar itself any more (kubelets before 1.36 drop it
    /// about a second after the exit image has ended).
    Gone,
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
                    is_told: false,
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

    /// Returns the sidecars that a method has ended and that no earlier call returned, each with
    /// the place of its log.
    pub fn take_new_ends(&mut self, pod: &Pod) -> Vec<(Box<str>, LogPlace)> {
        let mut new = Vec::new();
        for sidecar in roles::sidecars(pod) {
            let name = &sidecar.name;
            let is_new = self.ends.of(name).is_some_and(|seen| !seen.is_told);
            if is_new && self.method_of(name).is_some() {
                new.push((name.clone(), log_place(sidecar, self.swap_of(name))));
            }
        }
        for seen in &mut self.ends.0 {
            seen.is_told |= new.iter().any(|(name, _)| *name == seen.sidecar);
        }
        new
    }
}

fn log_place(sidecar: &Container, swapped: Option<&SwapRecord>) -> LogPlace {
    let Some(swapped) = swapped else {
        return LogPlace::Current;
    };
    let image = sidecar.status.as_ref().map(|status| &*status.image);
    let shows_exit_image =
        image.is_some_and(|image| exit_image_shown(image, &swapped.to) == Some(true));
    match &swapped.real_end {
        // Both ends may look the same: times are whole seconds.
        Some(_) if shows_exit_image => LogPlace::Previous,
        Some(real) if sidecar.end() != Some(real) => LogPlace::Previous,
        None if shows_exit_image => LogPlace::Gone,
        Some(_) | None => LogPlace::Current,
    }
}
