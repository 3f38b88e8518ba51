//! Pods in which containers are parked, to give those that are parked for nobody their images back.

use std::collections::BTreeMap;
use std::time::Duration;

use super::retry::Retry;
use super::{Key, Now};
use crate::decide::decision::Report;
use crate::decide::reason::Reason;
use crate::decide::restart::{Action, ORPHAN_AFTER, Orphan, orphan};
use crate::defects::{Defects, log, read};
use crate::index::Notice;
use crate::isolated::isolated;
use crate::objects::restart_pod::{RestartPod, RestartPodWire};
use crate::objects::restart_request::RestartRequest;
use crate::watch::Event;
use crate::writer::{Outcome, Target};
use crate::writer_restart::{RestartWrite, Stored};

/// The pods with the label of parked ones.
#[derive(Default)]
pub(super) struct Orphans {
    pods: BTreeMap<Key, Seen>,
    list: u64,
    defects: Defects<Key>,
}

struct Seen {
    pod: RestartPod,
    /// No write before this time; whether one is under way.
    not_before: Duration,
    in_flight: bool,
    /// Since when a container is seen parked for nobody.
    since: Option<Duration>,
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
            Event::ListEnd => self.pods.retain(|_, seen| seen.list == self.list),
            Event::Deleted(pod) => {
                if let Some(pod) = read("pod", || pod.read()) {
                    self.pods.remove(&key(&pod));
                }
            }
            // The loop tells it, once.
            Event::Current(_) | Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {}
        }
    }

    fn apply(&mut self, pod: RestartPod, now: Duration) {
        let list = self.list;
        match self.pods.get_mut(&key(&pod)).filter(|seen| seen.pod.pod.uid == pod.pod.uid) {
            Some(seen) => (seen.pod, seen.list) = (pod, list),
            None => {
                let seen = Seen { pod, not_before: now, in_flight: false, since: None, retry: Retry::default(), list };
                self.pods.insert(key(&seen.pod), seen);
            }
        }
    }

    /// When to look again although nothing happened.
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        let due = |seen: &Seen| Some((seen.since? + ORPHAN_AFTER).max(seen.not_before)).filter(|_| !seen.in_flight);
        self.pods.values().filter_map(due).chain(self.defects.next_due(now)).min()
    }

    /// The next write; these requests are all that there are.
    pub fn next_write<'a>(&mut self, requests: impl Iterator<Item = &'a RestartRequest> + Clone, now: Now) -> Option<RestartWrite> {
        self.pods.iter_mut().find_map(|(key, seen)| {
            if self.defects.is_left_alone(key, now.since_start) {
                return None;
            }
            isolated(&key.1, || seen.next_write(requests.clone(), now)).unwrap_or_else(|defect| {
                log("pod", &key.0, &key.1, &defect);
                seen.since = None;
                self.defects.meet(key.clone(), now.since_start);
                None
            })
        })
    }

    /// How often a decision has panicked since this was asked the last time.
    pub fn take_defects(&mut self) -> u64 {
        self.defects.take_count()
    }

    /// A write has come back; what is to be told.
    pub fn written(&mut self, write: RestartWrite, outcome: Result<Stored, Outcome>, now: Duration) -> Vec<Notice> {
        let key = (write.request.namespace.clone(), write.request.pod_name.clone());
        let Some(seen) = self.pods.get_mut(&key) else { return write.notices() };
        seen.in_flight = false;
        match outcome {
            Ok(stored) => {
                if let Stored::Pod(pod) = stored {
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
    fn next_write<'a>(&mut self, requests: impl Iterator<Item = &'a RestartRequest>, now: Now) -> Option<RestartWrite> {
        let Now { since_start, today } = now;
        let Some(Orphan { change, request }) = orphan(&self.pod, requests) else {
            self.since = None;
            return None;
        };
        let since = *self.since.get_or_insert(since_start);
        if self.in_flight || since_start < (since + ORPHAN_AFTER).max(self.not_before) {
            return None;
        }
        self.in_flight = true;
        let changes: Vec<_> = change.swaps.iter().map(|swap| format!("{} ({} -> {})", swap.container, swap.from, swap.to)).collect();
        let note = format!(
            "putting the image before back, because ContainerRecreateRequest {} is gone or over: {}",
            request.name,
            changes.join(", ")
        );
        let done = vec![Report { reason: Reason::ContainerRestarting, note }];
        let pod = Some(Target::of(&self.pod.pod));
        Some(RestartWrite { request, pod, action: Action::Swap(change), done, today, is_for_orphan: true })
    }
}

fn key(pod: &RestartPod) -> Key {
    (pod.pod.namespace.clone(), pod.pod.name.clone())
}
