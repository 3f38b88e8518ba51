//! What is remembered of a request between two looks at it. It times things; losing it changes no
//! outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use super::decision::Decision;
use crate::objects::pod::ContainerState;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Mark, RestartRequest};

/// Memory of one request. All times are durations since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// A write for this request has been handed to the writer and has not come back.
    pub in_flight: bool,
    /// No write before this time, after one that failed.
    pub not_before: Option<Duration>,
    /// Since when no daemon of OpenKruise is on the node of the request; `None` while one is, or
    /// nobody has looked.
    pub without_daemon: Option<Duration>,
    /// Since when its pod is looked for in vain; `None` while it is seen, or known to be gone, or
    /// nobody looks.
    pub unseen_since: Option<Duration>,
    /// The first time that was written down as the one since when the pod is not ready, and since
    /// when that is seen. Another one that somebody writes later does not count.
    unready: Option<(Box<str>, Duration)>,
    /// What the API server has denied of the pod.
    denied: Option<Denied>,
    containers: BTreeMap<Box<str>, Watched>,
}

/// Writes to the pod that were denied one after another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Denied {
    first: Duration,
    last: Duration,
    /// Of the last one.
    words: Box<str>,
}

/// Denials that are further from each other than this say nothing of the time between them: nothing
/// was tried.
const TRIED_WITHIN: Duration = Duration::from_secs(180);

/// What is remembered of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Watched {
    /// Since when the node is to show another container in place of this one, as the spec has this
    /// image.
    changed: Option<((Mark, Box<str>), Duration)>,
    /// Since when another container than this one is seen.
    restarted: Option<(Mark, Duration)>,
    /// Since when this container is seen running.
    running: Option<(Mark, Duration)>,
    /// Since when this container is seen running and ready.
    ready: Option<(Mark, Duration)>,
    /// Since when it waits for what may never come.
    waits: Option<Duration>,
}

impl Memory {
    /// Brings the memory up to date with the request and its pod as they are seen now. Call it
    /// before every decision.
    pub fn observe(&mut self, request: &RestartRequest, pod: &RestartPod, now: Duration) {
        if let (None, Some(since)) = (&self.unready, &request.unready_acquired) {
            self.unready = Some((since.clone(), now));
        }
        for (name, mark) in request.journal.iter().flat_map(|journal| &journal.0) {
            self.containers
                .entry(name.clone())
                .or_default()
                .observe(mark, pod, name, now);
        }
    }

    /// Takes notice of which containers wait, by a decision. Call it after every decision.
    pub fn note(&mut self, decision: &Decision, now: Duration) {
        let Some(waiting) = &decision.waiting else {
            return;
        };
        for (name, watched) in &mut self.containers {
            let waits = waiting.contains(name);
            watched.waits = waits.then(|| watched.waits.unwrap_or(now));
        }
    }

    /// The API server has denied a write to the pod, in these words.
    pub fn note_denied(&mut self, words: &str, now: Duration) {
        let first = self
            .denied
            .take()
            .filter(|denied| now <= denied.last.saturating_add(TRIED_WITHIN))
            .map_or(now, |denied| denied.first);
        let (last, words) = (now, words.into());
        self.denied = Some(Denied { first, last, words });
    }

    /// A write to the pod was applied.
    pub fn note_applied(&mut self) {
        self.denied = None;
    }

    /// For how long each write to the pod has been denied, and the last words.
    pub(crate) fn denied(&self) -> Option<(Duration, &str)> {
        let denied = self.denied.as_ref()?;
        Some((denied.last.saturating_sub(denied.first), &denied.words))
    }

    /// Since when a container waits for what may never come.
    pub(crate) fn waits_since(&self, container: &str) -> Option<Duration> {
        self.containers.get(container)?.waits
    }

    /// Since when the node is to restart the container.
    pub(crate) fn changed_at(&self, container: &str) -> Option<Duration> {
        Some(self.containers.get(container)?.changed.as_ref()?.1)
    }

    /// Since when another container is seen.
    pub(crate) fn restarted_at(&self, container: &str) -> Option<Duration> {
        Some(self.containers.get(container)?.restarted.as_ref()?.1)
    }

    /// Since when the pod is not ready for the request, as it was written down first, and since
    /// when that is seen.
    pub(crate) fn unready(&self) -> Option<&(Box<str>, Duration)> {
        self.unready.as_ref()
    }

    /// Since when the container that is there now is seen running.
    pub(crate) fn running_at(&self, container: &str) -> Option<Duration> {
        Some(self.containers.get(container)?.running.as_ref()?.1)
    }

    /// Since when the container that is there now is seen running and ready.
    pub(crate) fn ready_at(&self, container: &str) -> Option<Duration> {
        Some(self.containers.get(container)?.ready.as_ref()?.1)
    }
}

impl Watched {
    fn observe(&mut self, mark: &Mark, pod: &RestartPod, name: &str, now: Duration) {
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

/// The time stays as long as what it is about stays.
fn keep<T: PartialEq>(since: &mut Option<(T, Duration)>, what: Option<T>, now: Duration) {
    *since = match (since.take(), what) {
        (Some((before, at)), Some(what)) if before == what => Some((before, at)),
        (_, Some(what)) => Some((what, now)),
        (_, None) => None,
    };
}
