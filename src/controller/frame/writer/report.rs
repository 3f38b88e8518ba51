//! Reports: an Event on the object, a line in the log, a count. Reports never hold up the work:
//! they wait until no pod does, and one that cannot be sent is counted and dropped.
//!
//! Events are of the core API, for `kubectl describe` and `kubectl get events
//! --sort-by=.lastTimestamp` sort by a time that `events.k8s.io` does not let one write.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::precedence::Precedence;
use super::shares::Shares;
use super::{Target, TargetKind, is_missing_right};
use crate::frame::clock::{Clock, time_of_day};
use crate::frame::metrics::Metrics;
use crate::frame::queue::FairQueue;
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounds::cut;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::field::display;

/// The `reportingComponent` of our Events, which `events.k8s.io` calls `reportingController`.
pub const REPORTING_CONTROLLER: &str = "swaplet.io/controller";
/// The longest message that the API server accepts, in bytes.
const NOTE_BYTES: usize = 1024;
/// The longest name that the API server accepts, in bytes.
const NAME_BYTES: usize = 253;
/// The deadline of one Event.
const DEADLINE: Duration = Duration::from_secs(10);

/// A report about an object, such as a pod or its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object that the report is about.
    pub target: Target,
    /// The reason, and the message.
    pub report: Report,
}

/// A reporter, which logs reports and queues their Events.
#[derive(Clone)]
pub struct Reporter {
    reports_swaps: bool,
    metrics: Metrics,
    precedence: Precedence,
    line: mpsc::UnboundedSender<InLine>,
    places: Places,
}

/// The client that creates Events.
#[derive(Clone)]
struct Sender {
    client: Client,
    metrics: Metrics,
    health: Health,
    instance: Arc<str>,
}

impl Reporter {
    /// Returns a reporter. `instance` is its name in `reportingInstance`; its Events yield to the
    /// swaps of `precedence`.
    pub fn new(
        client: Client,
        metrics: Metrics,
        health: Health,
        instance: &str,
        precedence: Precedence,
    ) -> Self {
        let (line, waiting) = mpsc::unbounded_channel();
        let sender = Sender {
            client,
            metrics: metrics.clone(),
            health,
            instance: instance.into(),
        };
        tokio::spawn(send_in_turn(sender, waiting, precedence.clone()));
        Self {
            reports_swaps: false,
            metrics,
            precedence,
            line,
            places: Places::new(),
        }
    }

    /// Sets whether swaps get Events too, before the pods end: for a process that may end before
    /// the pods, and has no successor.
    #[must_use]
    pub fn reporting_swaps(self, reports_swaps: bool) -> Self {
        Self {
            reports_swaps,
            ..self
        }
    }

    /// Logs a report, and queues its Event if it gets one.
    pub fn report(&self, notice: Notice) {
        let Notice { target, mut report } = notice;
        // The log has as much text of tenants as Events have.
        report.note = cut(&report.note, NOTE_BYTES);
        log(&target, &report);
        let is_told_swap = self.reports_swaps && report.reason == Reason::SidecarSwapped;
        if !report.reason.is_event() && !is_told_swap {
            return;
        }
        let Some(place) = self.places.take(&target.namespace) else {
            self.metrics.wrote("events", "dropped");
            return;
        };
        let waiting = Waiting {
            target,
            report,
            // Not when its turn to be sent comes: nodes write meanwhile.
            reported: time_of_day(),
            since: Instant::now(),
        };
        if self.line.send((waiting, place)).is_err() {
            self.metrics.wrote("events", "dropped");
        }
    }

    /// Waits until the queued Events are sent, at most for the deadline of one Event. Nothing
    /// yields any more.
    pub async fn drain(&self) {
        self.precedence.lift();
        let _ = timeout(DEADLINE, self.places.all_free()).await;
    }
}

impl Sender {
    /// Sends an Event. Returns false if that has failed.
    async fn send(&self, waiting: &Waiting) -> bool {
        let Waiting {
            target,
            report,
            reported,
            ..
        } = waiting;
        let api: Api<Event> = Api::namespaced(self.client.clone(), &target.namespace);
        let event = self.event(target, report, *reported);
        let outcome = match timeout(DEADLINE, api.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => {
                self.health.has(Right::SendEvents);
                "applied"
            }
            // An earlier run of this process, or another replica, has created it.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => "conflict",
            // It would be logged with each Event.
            Ok(Err(kube::Error::Api(status))) if is_missing_right(&status.message) => {
                if self.health.lacks(Right::SendEvents, &status.message) {
                    tracing::warn!(
                        error = status.message,
                        "{}; their text is in this log instead",
                        Right::SendEvents.without()
                    );
                }
                "denied"
            }
            Ok(Err(error)) => {
                tracing::warn!(namespace = &*target.namespace, object = &*target.name, %error, "event not sent");
                "failed"
            }
            Err(_) => "failed",
        };
        self.metrics.wrote("events", outcome);
        outcome != "failed"
    }

    fn event(&self, target: &Target, report: &Report, now: Timestamp) -> Event {
        let (api_version, kind) = match target.kind {
            TargetKind::Pod => ("v1", "Pod"),
            TargetKind::Job => ("batch/v1", "Job"),
            TargetKind::Workload(kind) => (kind.api_version(), kind.as_str()),
            TargetKind::PullJob(kind) => ("apps.kruise.io/v1alpha1", kind.as_str()),
        };
        let word = |word: &str| Some(word.to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(target, report)),
                namespace: word(&target.namespace),
                ..ObjectMeta::default()
            },
            action: word(action(report.reason)),
            count: Some(1),
            event_time: Some(MicroTime(now)),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            message: Some(report.note.clone()),
            reason: word(report.reason.as_str()),
            involved_object: ObjectReference {
                api_version: word(api_version),
                kind: word(kind),
                name: word(&target.name),
                namespace: word(&target.namespace),
                uid: word(&target.uid),
                ..ObjectReference::default()
            },
            reporting_component: word(REPORTING_CONTROLLER),
            reporting_instance: word(&self.instance),
            type_: word(if report.reason.is_warning() {
                "Warning"
            } else {
                "Normal"
            }),
            ..Event::default()
        }
    }
}

const fn action(reason: Reason) -> &'static str {
    match reason {
        reason if reason.regards_restart() => "Restart",
        reason if reason.regards_pull() => "Pull",
        _ => "Terminate",
    }
}

/// Returns the name of an Event. The same words about the same object have the same name, so one
/// Event exists however often they are reported, by any replica. The end of a pod has one name
/// whatever the words: another run of the process knows less of how it came.
fn event_name(target: &Target, report: &Report) -> String {
    let note: &str = if report.reason.is_end() {
        ""
    } else {
        &report.note
    };
    let words = format!("{}\n{}\n{note}", target.uid, report.reason);
    let suffix = format!(".{}{}", rank(report.reason), short_digest(words, 7));
    let name = cut(&target.name, NAME_BYTES - suffix.len());
    format!("{}{suffix}", name.trim_end_matches(['.', '-']))
}

/// Returns the rank of an Event among those of one second, because kubectl leaves these in the
/// order of their names. Those of nodes end in a time in nanoseconds, which until 2030 begins with
/// 17 to 1a: a write comes before what the node made of it, and the result after.
const fn rank(reason: Reason) -> &'static str {
    match reason {
        Reason::RestartOnChanged => "00",
        Reason::SidecarSwapped | Reason::RecreateRequested | Reason::ContainerRestarting => "01",
        Reason::PhaseWritten => "f1",
        Reason::ContainerRestarted
        | Reason::RestartFailed
        | Reason::HotUpgraded
        | Reason::HotUpgradeFailed
        | Reason::SidecarEnded
        | Reason::PodFailedAfterSwap
        | Reason::PodFailedAfterFinish
        | Reason::PodFailedAfterRecreate => "f2",
        _ => "f0",
    }
}

fn log(target: &Target, report: &Report) {
    let Target {
        kind,
        namespace,
        name,
        uid,
    } = target;
    let named = |wanted| (*kind == wanted).then(|| display(name));
    let (pod, job) = (named(TargetKind::Pod), named(TargetKind::Job));
    let workload = match kind {
        TargetKind::Workload(kind) => Some(display(format!("{} {name}", kind.as_str()))),
        TargetKind::PullJob(kind) => Some(display(format!("{} {name}", kind.as_str()))),
        TargetKind::Pod | TargetKind::Job => None,
    };
    let reason = report.reason.as_str();
    if report.reason.is_warning() {
        tracing::warn!(%namespace, pod, job, workload, %uid, reason, "{}", report.note);
    } else {
        tracing::info!(%namespace, pod, job, workload, %uid, reason, "{}", report.note);
    }
}

// The places in the queue of Events. One namespace cannot take all of them, so that a tenant with
// very many reports keeps no others from being sent.

/// The most Events of one namespace that may be queued; more are dropped, because the API server is
/// too slow.
const OF_NAMESPACE: usize = 10_000;
/// The most Events of all namespaces that may be queued.
const OF_ALL: usize = 12_000;

/// All places.
#[derive(Clone)]
struct Places {
    free: Arc<Semaphore>,
    taken: Taken,
}

/// The number of places that each namespace has.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<HashMap<Box<str>, usize>>>);

/// One place, which is free again when this is dropped.
struct Place {
    namespace: Box<str>,
    taken: Taken,
    _of_all: OwnedSemaphorePermit,
}

impl Places {
    fn new() -> Self {
        Self {
            free: Arc::new(Semaphore::new(OF_ALL)),
            taken: Taken::default(),
        }
    }

    /// Takes a place for an Event of this namespace; `None` if there is none for it.
    fn take(&self, namespace: &str) -> Option<Place> {
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
    async fn all_free(&self) {
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
mod places_tests {
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

// The queue of Events: they are sent in turns by namespace, and behind all swaps. So very many of
// one tenant keep no others waiting; nor do those that hang behind a webhook, which have their
// share of what may be in flight.
//
// The queue is bounded in number by the reporter, and in time: an Event that has waited long is
// sent although there are swaps, but no two at once then.

/// The most Events in flight at once while there are no swaps.
const AT_ONCE: usize = 8;

/// An Event to send, with its place in the queue, which is free when it is sent.
type InLine = (Waiting, Place);

/// The content of an Event.
struct Waiting {
    target: Target,
    report: Report,
    /// The time of day of the report.
    reported: Timestamp,
    since: Instant,
}

/// The Events that wait, by the number of their arrival.
#[derive(Default)]
struct Queue {
    turns: FairQueue<u64>,
    waiting: BTreeMap<u64, InLine>,
    arrived: u64,
}

impl Queue {
    fn push(&mut self, next: InLine) {
        self.arrived += 1;
        self.turns.push(&next.0.target.namespace, self.arrived);
        self.waiting.insert(self.arrived, next);
    }

    /// Removes and returns the Event whose turn it is among the namespaces that may have one, with
    /// the time since when any of these has waited.
    fn pop_of(&mut self, may_go: impl Fn(&str) -> bool) -> Option<(InLine, Instant)> {
        let mut waiting = self.waiting.values();
        let (first, _) = waiting.find(|(next, _)| may_go(&next.target.namespace))?;
        let oldest = first.since;
        let next = self.waiting.remove(&self.turns.pop_of(may_go)?)?;
        Some((next, oldest))
    }
}

/// Sends the queued Events until every reporter is dropped.
async fn send_in_turn(
    sender: Sender,
    mut line: mpsc::UnboundedReceiver<InLine>,
    precedence: Precedence,
) {
    let (mut queue, mut under_way) = (Queue::default(), JoinSet::new());
    let (clock, mut shares, mut is_open) = (Clock::start(), Shares::default(), true);
    loop {
        while let Ok(next) = line.try_recv() {
            queue.push(next);
        }
        let now = clock.now();
        let next = if under_way.len() < AT_ONCE {
            shares.next(AT_ONCE, now, |may_begin| queue.pop_of(may_begin))
        } else {
            None
        };
        let Some(((next, place), oldest)) = next else {
            tokio::select! {
                next = line.recv(), if is_open => match next {
                    Some(next) => queue.push(next),
                    None => is_open = false,
                },
                Some(Ok(sent)) = under_way.join_next() => note(&mut shares, sent, clock.now()),
                else => return,
            }
            continue;
        };
        if !precedence.yield_with(next.since, oldest).await {
            // Those that hang would hold up all others.
            while under_way.len() > shares.suspects(clock.now())
                && let Some(Ok(sent)) = under_way.join_next().await
            {
                note(&mut shares, sent, clock.now());
            }
        }
        shares.began(&next.target.namespace);
        let sender = sender.clone();
        under_way.spawn(async move {
            let is_answered = sender.send(&next).await;
            drop(place);
            (next.target.namespace, is_answered)
        });
    }
}

/// Records whether an Event of this namespace was answered.
fn note(shares: &mut Shares, (namespace, is_answered): (Box<str>, bool), now: Moment) {
    if is_answered {
        shares.answered(&namespace);
    } else {
        shares.failed(&namespace, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str) -> Target {
        Target {
            kind: TargetKind::Pod,
            namespace: "ns".into(),
            name: name.into(),
            uid: "u1".into(),
        }
    }

    fn report(note: &str) -> Report {
        Report {
            reason: Reason::SidecarSwapped,
            note: note.to_owned(),
        }
    }

    #[test]
    fn the_same_words_have_the_same_name() {
        assert_eq!(
            event_name(&target("a"), &report("x")),
            event_name(&target("a"), &report("x"))
        );
        assert_ne!(
            event_name(&target("a"), &report("x")),
            event_name(&target("a"), &report("y"))
        );
    }

    #[test]
    fn a_pod_has_one_end_in_whatever_words() {
        let end = |uid: &str, reason, note: &str| {
            let target = Target {
                uid: uid.into(),
                ..target("a")
            };
            let note = note.to_owned();
            event_name(&target, &Report { reason, note })
        };
        let reported = end("u1", Reason::SidecarEnded, "x");
        assert_eq!(reported, end("u1", Reason::SidecarEnded, "y"));
        assert_ne!(reported, end("u2", Reason::SidecarEnded, "x"));
        assert_ne!(reported, end("u1", Reason::PodFailedAfterSwap, "x"));
    }

    /// Within one second nothing but the name tells them apart.
    #[test]
    fn a5_names_of_one_second_are_in_the_order_of_events() {
        let name = |reason, note: &str| {
            let note = note.to_owned();
            event_name(&target("a"), &Report { reason, note })
        };
        let nanoseconds = 1_795_557_600_000_000_000_i64;
        for n in 0..100 {
            let in_order = [
                name(Reason::SidecarSwapped, &format!("swap {n}")),
                format!("a.{nanoseconds:x}"),
                name(Reason::SwapRejected, &format!("rejected {n}")),
                name(Reason::PhaseWritten, &format!("phase {n}")),
                name(Reason::SidecarEnded, &format!("end {n}")),
            ];
            assert!(in_order.is_sorted(), "{in_order:?}");
        }
    }

    #[test]
    fn names_fit() {
        assert!(event_name(&target(&"a".repeat(253)), &report("x")).len() <= NAME_BYTES);
    }
}

#[cfg(test)]
mod line_tests {
    use std::time::Duration;

    use swaplet_core::report::reason::Reason;
    use tokio::time::advance;

    use super::Places;
    use super::*;
    use crate::frame::writer::TargetKind;

    fn event(places: &Places, namespace: &str, name: &str) -> InLine {
        let waiting = Waiting {
            target: Target {
                kind: TargetKind::Pod,
                namespace: namespace.into(),
                name: name.into(),
                uid: "u".into(),
            },
            report: Report {
                reason: Reason::SidecarEnded,
                note: String::new(),
            },
            reported: Timestamp::UNIX_EPOCH,
            since: Instant::now(),
        };
        (waiting, places.take(namespace).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_very_many_events_keeps_no_other_waiting() {
        let (places, mut queue, start) = (Places::new(), Queue::default(), Instant::now());
        for name in ["a1", "a2", "a3"] {
            queue.push(event(&places, "loud", name));
        }
        advance(Duration::from_secs(1)).await;
        queue.push(event(&places, "modest", "b1"));
        let mut sent = Vec::new();
        while let Some(((next, _), oldest)) = queue.pop_of(|_| true) {
            sent.push((next.target.name.into_string(), oldest));
        }
        let names: Vec<_> = sent.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a1", "b1", "a2", "a3"]);
        assert!(sent.iter().all(|(_, oldest)| *oldest == start));
    }
}
