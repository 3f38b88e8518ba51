//! The memory of a request between two reconciles. It times things; losing it changes no outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use super::decision::{Change, Decision};
use crate::objects::moment::Moment;
use crate::objects::pod::ContainerState;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Mark, RestartRequest};

/// The memory of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// True while a write for this request is in flight.
    pub in_flight: bool,
    /// No write before this time, after one that failed.
    pub not_before: Option<Moment>,
    /// The time since when no daemon of OpenKruise is on the node of the request; `None` while one
    /// is, or that is unknown.
    pub without_daemon: Option<Moment>,
    /// The time since when the pod is watched for but not observed; `None` while it is observed,
    /// known to be gone, or not watched.
    pub unseen_since: Option<Moment>,
    /// The first recorded value of the time since when the pod is not ready, and when it was
    /// observed. A value that is written later does not count.
    unready: Option<(Box<str>, Moment)>,
    /// The last consecutive writes to the pod that were not applied.
    in_vain: Option<InVain>,
    containers: BTreeMap<Box<str>, Watched>,
}

/// Consecutive writes to the pod that were denied, or failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InVain {
    first: Moment,
    last: Moment,
    /// The error of the last one.
    words: Box<str>,
}

/// The longest time between two such writes that count as consecutive: in a longer one nothing was
/// tried.
const TRIED_WITHIN: Duration = Duration::from_secs(180);

/// The memory of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Watched {
    /// The time since when the node is to replace this container, with this image in the spec.
    changed: Option<((Mark, Box<str>), Moment)>,
    /// The time since when another container than this one is observed.
    restarted: Option<(Mark, Moment)>,
    /// The time since when this container is observed running.
    running: Option<(Mark, Moment)>,
    /// The time since when this container is observed running and ready.
    ready: Option<(Mark, Moment)>,
    /// The time since when it waits for a condition that may never come true.
    waits: Option<Moment>,
    /// The last change of its image, as a webhook has changed it.
    stored: Option<Stored>,
}

/// A change of an image of which a webhook has made another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    /// The image before.
    pub from: Box<str>,
    /// The image that was written.
    pub to: Box<str>,
    /// The image that was stored.
    pub image: Box<str>,
}

impl Memory {
    /// Updates the memory from the request and its pod as they are now. Call it before every
    /// decision.
    pub fn observe(&mut self, request: &RestartRequest, pod: &RestartPod, now: Moment) {
        if let (None, Some(since)) = (&self.unready, &request.unready_acquired) {
            self.unready = Some((since.clone(), now));
        }
        // Others may write any journal, and another one each time.
        self.containers
            .retain(|name, _| request.mark(name).is_some());
        for (name, mark) in request.journal.iter().flat_map(|journal| &journal.0) {
            self.containers
                .entry(name.clone())
                .or_default()
                .observe(mark, pod, name, now);
        }
    }

    /// Records which containers wait, according to a decision. Call it after every decision.
    pub fn note(&mut self, decision: &Decision, now: Moment) {
        let Some(waiting) = &decision.waiting else {
            return;
        };
        for (name, watched) in &mut self.containers {
            let waits = waiting.contains(name);
            watched.waits = waits.then(|| watched.waits.unwrap_or(now));
        }
    }

    /// Records that a write to the pod was denied or failed, with this error, or that a webhook has
    /// undone one to the request.
    pub fn note_in_vain(&mut self, words: &str, now: Moment) {
        let first = self
            .in_vain
            .take()
            .filter(|before| now <= before.last + TRIED_WITHIN)
            .map_or(now, |before| before.first);
        let (last, words) = (now, words.into());
        self.in_vain = Some(InVain { first, last, words });
    }

    /// Records that a write to the pod was applied.
    pub fn note_applied(&mut self) {
        self.in_vain = None;
    }

    /// Records what the API server has stored of a change of images, if that is not what was
    /// written: another image, or the image without the record of the one before.
    pub fn note_stored(&mut self, change: &Change, pod: &RestartPod) {
        for swap in &change.swaps {
            let Some((_, container, _)) = pod.find(&swap.container) else {
                continue;
            };
            let is_another = ![&swap.from, &swap.to].contains(&&container.image);
            let is_unrecorded = container.image == swap.to
                && pod.parked.is_none()
                && (change.note.as_ref()).is_some_and(|note| note.parked.is_some());
            let stored = (is_another || is_unrecorded).then(|| Stored {
                from: swap.from.clone(),
                to: swap.to.clone(),
                image: container.image.clone(),
            });
            self.containers
                .entry(swap.container.clone())
                .or_default()
                .stored = stored;
        }
    }

    /// Returns for how long every write to the pod has been in vain, and the last error.
    pub(crate) fn in_vain(&self) -> Option<(Duration, &str)> {
        let in_vain = self.in_vain.as_ref()?;
        Some((in_vain.last.since(in_vain.first), &in_vain.words))
    }

    /// Returns what a webhook has made of the last change of the container's image.
    pub(crate) fn stored(&self, container: &str) -> Option<&Stored> {
        self.containers.get(container)?.stored.as_ref()
    }

    /// Returns since when a container waits for a condition that may never come true.
    pub(crate) fn waits_since(&self, container: &str) -> Option<Moment> {
        self.containers.get(container)?.waits
    }

    /// Returns since when the node is to restart the container.
    pub(crate) fn changed_at(&self, container: &str) -> Option<Moment> {
        Some(self.containers.get(container)?.changed.as_ref()?.1)
    }

    /// Returns since when another container is observed.
    pub(crate) fn restarted_at(&self, container: &str) -> Option<Moment> {
        Some(self.containers.get(container)?.restarted.as_ref()?.1)
    }

    /// Returns since when the pod is not ready for the request, as first recorded, and when that
    /// was observed.
    pub(crate) fn unready(&self) -> Option<&(Box<str>, Moment)> {
        self.unready.as_ref()
    }

    /// Returns since when the present container is observed running.
    pub(crate) fn running_at(&self, container: &str) -> Option<Moment> {
        Some(self.containers.get(container)?.running.as_ref()?.1)
    }

    /// Returns since when the present container is observed running and ready.
    pub(crate) fn ready_at(&self, container: &str) -> Option<Moment> {
        Some(self.containers.get(container)?.ready.as_ref()?.1)
    }
}

impl Watched {
    fn observe(&mut self, mark: &Mark, pod: &RestartPod, name: &str, now: Moment) {
        let Some((_, container, details)) = pod.find(name) else {
            return;
        };
        let Some(status) = &container.status else {
            return;
        };
        let changed = mark.intent.is_some();
        let restarted = mark.shows_another(status);
        let running = matches!(status.state, ContainerState::Running { .. });
        let ready = details.ready && running;
        keep(
            &mut self.changed,
            changed.then(|| (mark.clone(), container.image.clone())),
            now,
        );
        keep(&mut self.restarted, restarted.then(|| mark.clone()), now);
        keep(&mut self.running, running.then(|| Mark::of(status)), now);
        keep(&mut self.ready, ready.then(|| Mark::of(status)), now);
    }
}

/// Keeps the time of a fact while the fact stays the same; sets it to `now` for another one.
fn keep<T: PartialEq>(since: &mut Option<(T, Moment)>, what: Option<T>, now: Moment) {
    *since = match (since.take(), what) {
        (Some((before, at)), Some(what)) if before == what => Some((before, at)),
        (_, Some(what)) => Some((what, now)),
        (_, None) => None,
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::restart::pod::RestartPodWire;
    use crate::restart::request::Journal;

    #[test]
    fn nothing_is_kept_of_containers_that_the_journal_names_no_more() {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}});
        let pod = serde_json::from_value::<RestartPodWire>(pod).unwrap();
        let pod = pod.read().unwrap();
        let mut memory = Memory::default();
        for number in 0..100 {
            let name = Box::<str>::from(format!("c{number}"));
            let request = RestartRequest {
                journal: Some(Journal([(name, Mark::default())].into())),
                ..RestartRequest::default()
            };
            memory.observe(&request, &pod, Moment::START);
        }
        assert_eq!(memory.containers.len(), 1);
    }
}
