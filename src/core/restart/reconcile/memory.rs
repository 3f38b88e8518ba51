//! The memory of a request between two reconciles. It times things; losing it changes no outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use super::decision::Decision;
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
    /// The last consecutive writes to the pod that the API server has denied.
    denied: Option<Denied>,
    containers: BTreeMap<Box<str>, Watched>,
}

/// Consecutive writes to the pod that were denied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Denied {
    first: Moment,
    last: Moment,
    /// The message of the last denial.
    words: Box<str>,
}

/// The longest time between two denials that count as consecutive: in a longer one nothing was
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

    /// Records that the API server has denied a write to the pod, with this message.
    pub fn note_denied(&mut self, words: &str, now: Moment) {
        let first = self
            .denied
            .take()
            .filter(|denied| now <= denied.last + TRIED_WITHIN)
            .map_or(now, |denied| denied.first);
        let (last, words) = (now, words.into());
        self.denied = Some(Denied { first, last, words });
    }

    /// Records that a write to the pod was applied.
    pub fn note_applied(&mut self) {
        self.denied = None;
    }

    /// Returns for how long every write to the pod has been denied, and the last message.
    pub(crate) fn denied(&self) -> Option<(Duration, &str)> {
        let denied = self.denied.as_ref()?;
        Some((denied.last.since(denied.first), &denied.words))
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
