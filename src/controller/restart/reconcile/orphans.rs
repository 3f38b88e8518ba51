//! Pods in which containers are parked, to give those that are parked for nobody their images back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use swaplet_core::report::decision::{Report, Swap};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::reconcile::{Action, Change, ORPHAN_AFTER, Orphan, ParkImage, orphan};
use swaplet_core::restart::request::RestartRequest;

use super::by_pod::Key;
use super::retry::Retry;
use crate::frame::clock::Now;
use crate::frame::isolated::defects::{Defects, log, read};
use crate::frame::isolated::isolated;
use crate::frame::queue::{FairQueue, pop_due, reschedule};
use crate::frame::watch::Event;
use crate::frame::writer::report::Notice;
use crate::frame::writer::{Outcome, Target};
use crate::restart::write::{RestartWrite, Stored, is_later};
use crate::terminate::index::Effect;

/// As many pods are looked at in one turn of the loop: anybody may give pods the label.
const AT_A_TIME: usize = 16;

/// The pods with the label of parked ones.
#[derive(Default)]
pub(crate) struct Orphans {
    pods: BTreeMap<Key, Seen>,
    /// Pods to be looked at now.
    fresh: FairQueue<Key>,
    /// Pods to be looked at later although nothing happens.
    due: BTreeSet<(Duration, Key)>,
    /// How many pods may still be looked at in this turn of the loop.
    turns: usize,
    list: u64,
    defects: Defects<Key>,
    /// What is to be told, and is not passed on yet.
    news: Vec<Effect>,
}

struct Seen {
    pod: RestartPod,
    /// No write before this time; whether one is under way.
    not_before: Duration,
    in_flight: bool,
    /// Since when something is to be done about it.
    since: Option<Duration>,
    due: Option<Duration>,
    /// Of containers that stay parked, what was told of them.
    told: Vec<String>,
    retry: Retry,
    list: u64,
}

impl Orphans {
    pub fn see(&mut self, event: Event<RestartPodWire>, now: Duration) {
        match event {
            Event::ListStart => self.list += 1,
            Event::Listed(pod) | Event::Applied(pod) => {
                if let Some(pod) = read("pod", || pod.read()) {
                    self.apply(pod, now);
                }
            }
            Event::ListEnd => {
                let gone: Vec<_> = self
                    .pods
                    .iter()
                    .filter(|(_, seen)| seen.list != self.list)
                    .map(|(key, _)| key.clone())
                    .collect();
                gone.iter().for_each(|key| self.forget(key));
            }
            Event::Deleted(pod) => {
                if let Some(pod) = read("pod", || pod.read()) {
                    self.forget(&key(&pod));
                }
            }
            // The loop tells it, once.
            Event::Current(_) | Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {}
        }
    }

    fn apply(&mut self, pod: RestartPod, now: Duration) {
        let (key, list) = (key(&pod), self.list);
        match self
            .pods
            .get_mut(&key)
            .filter(|seen| seen.pod.pod.uid == pod.pod.uid)
        {
            Some(seen) => (seen.pod, seen.list) = (pod, list),
            None => {
                self.forget(&key);
                let (told, retry) = (Vec::new(), Retry::default());
                let seen = Seen {
                    pod,
                    not_before: now,
                    in_flight: false,
                    since: None,
                    due: None,
                    told,
                    retry,
                    list,
                };
                self.pods.insert(key.clone(), seen);
            }
        }
        self.look_at(&key);
    }

    fn forget(&mut self, key: &Key) {
        if let Some(due) = self.pods.remove(key).and_then(|seen| seen.due) {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// Something about a pod, or about the requests for it, is new.
    pub fn look_at(&mut self, pod: &Key) {
        if self.pods.contains_key(pod) {
            self.fresh.push(&pod.0, pod.clone());
        }
    }

    /// Whether pods are left that had no turn.
    pub fn are_left(&self) -> bool {
        self.turns == 0 && !self.fresh.is_empty()
    }

    /// When to look again although nothing happened.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A turn of the loop begins.
    pub fn begin_turn(&mut self, now: Duration) {
        self.turns = AT_A_TIME;
        while let Some(key) = pop_due(&mut self.due, now) {
            if let Some(seen) = self.pods.get_mut(&key) {
                seen.due = None;
            }
            self.look_at(&key);
        }
    }

    /// The next write of this turn; `of_pod` gives the requests for a pod, the one of this name
    /// among them.
    pub fn next_write<'a>(
        &mut self,
        of_pod: impl Fn(&Key, &str) -> Vec<&'a RestartRequest>,
        park: Option<&ParkImage>,
        now: Now,
    ) -> Option<RestartWrite> {
        while let Some(key) = (self.turns > 0).then(|| self.fresh.pop()).flatten() {
            self.turns -= 1;
            let write = self.look(&key, &of_pod, park, now);
            if write.is_some() {
                return write;
            }
        }
        None
    }

    fn look<'a>(
        &mut self,
        key: &Key,
        of_pod: impl Fn(&Key, &str) -> Vec<&'a RestartRequest>,
        park: Option<&ParkImage>,
        now: Now,
    ) -> Option<RestartWrite> {
        let (seen, news) = (self.pods.get_mut(key)?, &mut self.news);
        let left_alone = self.defects.left_alone_until(key, now.since_start);
        // The pod says for which one it is parked.
        let requests = seen
            .pod
            .parked
            .as_ref()
            .map(|parked| of_pod(key, &parked.name))
            .unwrap_or_default();
        let looked = left_alone.is_none().then(|| {
            isolated(&key.1, || {
                seen.next_write(requests.into_iter(), park, now, news)
            })
        });
        let (write, again) = match looked {
            None => (None, left_alone),
            Some(Ok(write)) => (write, seen.again()),
            Some(Err(defect)) => {
                log("pod", &key.0, &key.1, &defect);
                seen.since = None;
                (None, Some(self.defects.meet(key.clone(), now.since_start)))
            }
        };
        reschedule(&mut self.due, key, &mut seen.due, again);
        write
    }

    /// What is to be told since this was asked the last time.
    pub fn take_news(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.news)
    }

    /// How often a decision has panicked since this was asked the last time.
    pub fn take_defects(&mut self) -> u64 {
        self.defects.take_count()
    }

    /// A write has come back; what is to be told.
    pub fn written(
        &mut self,
        write: RestartWrite,
        outcome: Result<Stored, Outcome>,
        now: Duration,
    ) -> Vec<Notice> {
        let key = (
            write.request.namespace.clone(),
            write.request.pod_name.clone(),
        );
        let Some(seen) = self.pods.get_mut(&key) else {
            return write.notices();
        };
        seen.in_flight = false;
        self.fresh.push(&key.0, key.clone());
        match outcome {
            Ok(stored) => {
                if let Stored::Pod(pod) = stored
                    && pod.pod.uid == seen.pod.pod.uid
                    && is_later(&pod.pod.version, &seen.pod.pod.version, &write.seen)
                {
                    seen.pod = *pod;
                }
                seen.retry = Retry::default();
                write.notices()
            }
            Err(outcome) => {
                let (not_before, news) = seen.retry.after(&write, &outcome, now);
                seen.not_before = not_before;
                news
            }
        }
    }
}

impl Seen {
    /// When to look again although nothing happened.
    fn again(&self) -> Option<Duration> {
        Some((self.since? + ORPHAN_AFTER).max(self.not_before)).filter(|_| !self.in_flight)
    }

    fn next_write<'a>(
        &mut self,
        requests: impl Iterator<Item = &'a RestartRequest> + Clone,
        park: Option<&ParkImage>,
        now: Now,
        news: &mut Vec<Effect>,
    ) -> Option<RestartWrite> {
        let Now { since_start, today } = now;
        let found = orphan(&self.pod, requests, |image| {
            park.is_some_and(|park| park.is(image))
        });
        // What stays parked, and was told, waits for a human.
        let Some(Orphan {
            change,
            stays,
            request,
        }) = found.filter(|found| found.change.is_some() || found.stays != self.told)
        else {
            self.since = None;
            return None;
        };
        let since = *self.since.get_or_insert(since_start);
        if self.in_flight || since_start < (since + ORPHAN_AFTER).max(self.not_before) {
            return None;
        }
        if stays != self.told {
            news.extend(stays.iter().flat_map(|words| self.tells(words)));
            self.told = stays;
        }
        let change = change?;
        self.in_flight = true;
        Some(RestartWrite {
            done: brought_back(&change, &request),
            request,
            pod: Some(Target::of(&self.pod.pod)),
            seen: self.pod.pod.version.clone(),
            action: Action::Swap(change),
            today,
            is_for_orphan: true,
        })
    }

    fn tells(&self, words: &str) -> [Effect; 2] {
        let report = Report {
            reason: Reason::RestartFailed,
            note: words.to_owned(),
        };
        [
            Effect::Decided(report.reason),
            Effect::Notice(Notice {
                target: Target::of(&self.pod.pod),
                report,
            }),
        ]
    }
}

/// Nobody misses what a pod says of containers that are not parked.
fn brought_back(change: &Change, request: &RestartRequest) -> Vec<Report> {
    if change.swaps.is_empty() {
        return Vec::new();
    }
    let name = &request.name;
    let note = format!(
        "putting the image before back, because ContainerRecreateRequest {name} is gone or over: {}",
        Swap::list(&change.swaps)
    );
    vec![Report {
        reason: Reason::ContainerRestarting,
        note,
    }]
}

fn key(pod: &RestartPod) -> Key {
    (pod.pod.namespace.clone(), pod.pod.name.clone())
}
