//! Finds containers that are parked for no request, and gives them their images back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Key, MOST_GONE, Retry};
use crate::frame::clock::Now;
use crate::frame::isolated::{Defects, isolated, log, read};
use crate::frame::queue::{FairQueue, pop_due, reschedule};
use crate::frame::store::Store;
use crate::frame::watch::Event;
use crate::frame::writer::Target;
use crate::frame::writer::report::Notice;
use crate::restart::write::{RestartWrite, Stored};
use crate::terminate::index::Effect;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::report::decision::{Report, Swap};
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::reconcile::{Action, Change, ORPHAN_AFTER, Orphan, ParkImage, orphan};
use swaplet_core::restart::request::RestartRequest;

/// The maximum number of pods reconciled per turn of the loop: anybody may give pods the label.
const AT_A_TIME: usize = 16;

/// The pods with the label of parked ones.
#[derive(Default)]
pub(crate) struct Orphans {
    pods: Store<RestartPod, Seen>,
    /// The pods to reconcile now.
    fresh: FairQueue<Key>,
    /// The pods to reconcile later without an event.
    due: BTreeSet<(Moment, Key)>,
    /// The number of pods left in this turn of the loop.
    turns: usize,
    defects: Defects<Key>,
    told: Told,
}

/// What is kept beside a pod.
#[derive(Default)]
struct Seen {
    /// No write is made before this time.
    not_before: Moment,
    in_flight: bool,
    /// When the pod was first found to need a write or a report.
    since: Option<Moment>,
    /// When there is room for a report that had none.
    report_at: Option<Moment>,
    due: Option<Moment>,
    /// The reports about containers that stay parked, as far as they were made.
    reported: Vec<String>,
    retry: Retry,
}

impl Orphans {
    pub fn observe(&mut self, event: Event<RestartPodWire>, now: Moment) {
        let read = |pod: RestartPodWire| read("pod", || pod.read());
        // The loop reports troubles, once.
        let changes = self.pods.observe(event, now, read);
        for (key, _, mut seen) in changes.gone {
            reschedule(&mut self.due, &key, &mut seen.due, None);
        }
        if let Some((key, _)) = changes.put {
            self.enqueue(&key);
        }
        let Self { fresh, pods, .. } = self;
        if fresh.len() > 2 * pods.len() + MOST_GONE {
            fresh.retain(|key| pods.has(key));
        }
    }

    /// Enqueues a pod, because it or the requests for it have changed.
    pub fn enqueue(&mut self, pod: &Key) {
        if self.pods.has(pod) {
            self.fresh.push(&pod.0, pod.clone());
        }
    }

    /// Returns true if pods are left for the next turn.
    pub fn are_left(&self) -> bool {
        self.turns == 0 && !self.fresh.is_empty()
    }

    /// Returns the next time at which there is work without an event.
    pub fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Begins a turn of the loop: enqueues the pods that are due.
    pub fn begin_turn(&mut self, now: Moment) {
        self.turns = AT_A_TIME;
        while let Some(key) = pop_due(&mut self.due, now) {
            if let Some((_, seen)) = self.pods.get_mut(&key) {
                seen.due = None;
            }
            self.enqueue(&key);
        }
    }

    /// Returns the next write of this turn, of a namespace that `may_begin` one; `of_pod` returns the
    /// requests for a pod, including the one of this name. Reports are added to `news`.
    pub fn next_write<'a>(
        &mut self,
        of_pod: impl Fn(&Key, &str) -> Vec<&'a RestartRequest>,
        park: Option<&ParkImage>,
        now: Now,
        may_begin: &dyn Fn(&str) -> bool,
        news: &mut Vec<Effect>,
    ) -> Option<RestartWrite> {
        while let Some(key) = (self.turns > 0)
            .then(|| self.fresh.pop_of(may_begin))
            .flatten()
        {
            self.turns -= 1;
            let write = self.reconcile(&key, &of_pod, park, now, news);
            if write.is_some() {
                return write;
            }
        }
        None
    }

    fn reconcile<'a>(
        &mut self,
        key: &Key,
        of_pod: impl Fn(&Key, &str) -> Vec<&'a RestartRequest>,
        park: Option<&ParkImage>,
        now: Now,
        news: &mut Vec<Effect>,
    ) -> Option<RestartWrite> {
        let (pod, seen) = self.pods.get_mut(key)?;
        let told = &mut self.told;
        let left_alone = self.defects.left_alone_until(key, now.moment);
        // The pod names the request for which it is parked.
        let requests = pod
            .parked
            .as_ref()
            .map(|parked| of_pod(key, &parked.name))
            .unwrap_or_default();
        let looked = left_alone.is_none().then(|| {
            isolated(&key.1, || {
                seen.next_write(pod, requests.into_iter(), park, now, news, told)
            })
        });
        let (write, again) = match looked {
            None => (None, left_alone),
            Some(Ok(write)) => (write, seen.again()),
            Some(Err(defect)) => {
                log("pod", &key.0, &key.1, &defect);
                seen.since = None;
                (None, Some(self.defects.meet(key.clone(), now.moment)))
            }
        };
        reschedule(&mut self.due, key, &mut seen.due, again);
        write
    }

    /// Returns the pod of a write, and how many restarts the write causes in it.
    pub fn restarts_of(&self, write: &RestartWrite) -> Option<(&Pod, u32)> {
        let Action::Swap(change) = &write.action else {
            return None;
        };
        let request = &write.request;
        let key = (request.namespace.clone(), request.pod_name.clone());
        let (pod, _) = self.pods.get(&key)?;
        Some((&pod.pod, change.restarts()))
    }

    /// Returns the number of decisions that panicked since the last call.
    pub fn take_defects(&mut self) -> u64 {
        self.defects.take_count()
    }

    /// Handles the outcome of a write; returns what to report.
    pub fn written(
        &mut self,
        write: RestartWrite,
        outcome: Result<Stored, WriteError>,
        now: Moment,
    ) -> Vec<Notice> {
        let key = (
            write.request.namespace.clone(),
            write.request.pod_name.clone(),
        );
        let Some((_, seen)) = self.pods.get_mut(&key) else {
            return outcome.map_or_else(|_| Vec::new(), |_| write.notices());
        };
        seen.in_flight = false;
        self.fresh.push(&key.0, key.clone());
        match outcome {
            Ok(stored) => {
                seen.retry = Retry::default();
                if let Stored::Pod(pod) = stored {
                    let state = (pod.pod.uid.clone(), pod.pod.version.clone());
                    drop(self.pods.answered(key, state, &write.seen, *pod, now));
                }
                write.notices()
            }
            Err(error) => {
                let (not_before, news) = seen.retry.after(&write, &error, now);
                seen.not_before = not_before;
                news
            }
        }
    }
}

impl Seen {
    /// Returns the next time at which there is work without an event; `None` if a write is in
    /// flight.
    fn again(&self) -> Option<Moment> {
        let observed = self.since.map(|since| since + ORPHAN_AFTER);
        let at = observed.map(|at| at.max(self.not_before));
        at.or(self.report_at).filter(|_| !self.in_flight)
    }

    fn next_write<'a>(
        &mut self,
        pod: &RestartPod,
        requests: impl Iterator<Item = &'a RestartRequest> + Clone,
        park: Option<&ParkImage>,
        now: Now,
        news: &mut Vec<Effect>,
        told: &mut Told,
    ) -> Option<RestartWrite> {
        let Now { moment, today } = now;
        self.report_at = None;
        let found = orphan(pod, requests, |image| {
            park.is_some_and(|park| park.is(image))
        });
        // Containers that stay parked, and were reported, wait for a human.
        let Some(Orphan {
            change,
            stays,
            request,
        }) = found.filter(|found| found.change.is_some() || self.is_news(&found.stays))
        else {
            self.since = None;
            return None;
        };
        let since = *self.since.get_or_insert(moment);
        // A record that no container needs may go at once.
        let is_over = change
            .as_ref()
            .is_some_and(|change| change.swaps.is_empty());
        let after = if is_over {
            Duration::ZERO
        } else {
            ORPHAN_AFTER
        };
        if self.in_flight || moment < (since + after).max(self.not_before) {
            return None;
        }
        let report_at = self.report(&pod.pod, &stays, told, moment, news);
        // A record goes once it is told which image it has.
        let is_untold = is_over && report_at.is_some();
        let Some(change) = change.filter(|_| !is_untold) else {
            // A change that is found later is observed for as long as any other.
            (self.since, self.report_at) = (None, report_at);
            return None;
        };
        self.in_flight = true;
        Some(RestartWrite {
            done: brought_back(&change, &request),
            request,
            pod: Some(Target::of(&pod.pod)),
            seen: pod.pod.version.clone(),
            action: Action::Swap(change),
            today,
            is_for_orphan: true,
        })
    }

    fn is_news(&self, stays: &[String]) -> bool {
        stays.iter().any(|words| !self.reported.contains(words))
    }

    /// Reports the containers that stay parked, each once. Returns when there is room for those
    /// that have none now.
    fn report(
        &mut self,
        pod: &Pod,
        stays: &[String],
        told: &mut Told,
        now: Moment,
        news: &mut Vec<Effect>,
    ) -> Option<Moment> {
        self.reported.retain(|words| stays.contains(words));
        for words in stays {
            if self.reported.contains(words) {
                continue;
            }
            if let Err(again) = told.take(&pod.namespace, now) {
                return Some(again);
            }
            news.extend(reports(pod, words));
            self.reported.push(words.clone());
        }
        None
    }
}

fn reports(pod: &Pod, words: &str) -> [Effect; 2] {
    let report = Report::new(Reason::RestartFailed, words);
    [
        Effect::Decided(report.reason),
        Effect::Notice(Notice {
            target: Target::of(pod),
            report,
        }),
    ]
}

/// Reports that images were put back; a mark without parked containers needs no report.
fn brought_back(change: &Change, request: &RestartRequest) -> Vec<Report> {
    if change.swaps.is_empty() {
        return Vec::new();
    }
    let name = &request.name;
    let note = format!(
        "putting the previous image back, because ContainerRecreateRequest {name} is deleted or completed: {}",
        Swap::list(&change.swaps)
    );
    vec![Report::new(Reason::ContainerRestarting, note)]
}

// The bound of reports about containers that stay parked. Pods and requests of a tenant decide what
// is said, and the tenant may change them as often as they like.

/// The maximum number of reports about the pods of a namespace in one period.
const MOST: usize = 64;
/// The length of a period.
const PERIOD: Duration = Duration::from_secs(600);

/// The periods in which namespaces have reports.
#[derive(Default)]
struct Told(BTreeMap<Box<str>, Period>);

struct Period {
    end: Moment,
    left: usize,
}

impl Told {
    /// Takes the room of one report about a pod of this namespace.
    ///
    /// # Errors
    /// The time when there is room again.
    fn take(&mut self, namespace: &str, now: Moment) -> Result<(), Moment> {
        self.0.retain(|_, period| now < period.end);
        let period = self.0.entry(namespace.into()).or_insert(Period {
            end: now + PERIOD,
            left: MOST,
        });
        if period.left == 0 {
            return Err(period.end);
        }
        period.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_very_many_leaves_room_to_others_and_nothing_behind() {
        let (mut told, now) = (Told::default(), Moment::START);
        let loud = (0..1000).filter(|_| told.take("loud", now).is_ok());
        assert_eq!(loud.count(), MOST);
        assert_eq!(told.take("loud", now), Err(now + PERIOD));
        assert_eq!(told.take("quiet", now), Ok(()));
        assert_eq!(told.take("loud", now + PERIOD), Ok(()));
        assert_eq!(told.0.len(), 1);
    }
}
