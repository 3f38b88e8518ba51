//! Reports: an Event on the object, a line in the log, a count. Reports never hold up the work:
//! they wait until no pod does, and one that cannot be sent is counted and dropped.
//!
//! Events are of the core API, for `kubectl describe` and `kubectl get events
//! --sort-by=.lastTimestamp` sort by a time that `events.k8s.io` does not let one write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::precedence::Precedence;
use super::{Target, TargetKind, failed, is_missing_right};
use crate::frame::clock::time_of_day;
use crate::frame::in_flight::{InFlight, Writes};
use crate::frame::metrics::Metrics;
use crate::frame::queue::FairQueue;
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use swaplet_core::objects::values::bounds::cut;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use tokio::sync::{mpsc, watch};
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
    queue: Arc<watch::Sender<Queue>>,
    /// Wakes the task that sends, which ends when every reporter is dropped.
    news: mpsc::Sender<()>,
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
    /// swaps of `precedence`. Where it `reports_swaps`, these get Events too, before the pods end:
    /// for a process that may end before the pods, and has no successor.
    pub fn new(
        client: Client,
        metrics: Metrics,
        health: Health,
        instance: &str,
        precedence: Precedence,
        reports_swaps: bool,
    ) -> Self {
        let (queue, (news, queued)) = (Arc::<watch::Sender<Queue>>::default(), mpsc::channel(1));
        let sender = Sender {
            client,
            metrics: metrics.clone(),
            health,
            instance: instance.into(),
        };
        let sent = send_in_turn(sender, queue.clone(), queued, precedence.clone());
        tokio::spawn(sent);
        Self {
            reports_swaps,
            metrics,
            precedence,
            queue,
            news,
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
        let waiting = Waiting {
            target,
            report,
            // Not when its turn to be sent comes: nodes write meanwhile.
            reported: time_of_day(),
            since: Instant::now(),
        };
        let mut is_queued = false;
        self.queue
            .send_modify(|queue| is_queued = queue.push(waiting));
        if !is_queued {
            self.metrics.wrote("events", "dropped");
        }
        // Where the channel is full, the task is woken already.
        let _ = self.news.try_send(());
    }

    /// Waits until the queued Events are sent, at most for the deadline of one Event. Nothing
    /// yields any more.
    pub async fn drain(&self) {
        self.precedence.lift();
        let mut queue = self.queue.subscribe();
        let _ = timeout(DEADLINE, queue.wait_for(Queue::is_done)).await;
    }
}

impl Sender {
    /// Sends an Event. Fails if the API server has not answered, or not now.
    async fn send(&self, waiting: &Waiting) -> Result<(), WriteError> {
        let Waiting {
            target,
            report,
            reported,
            ..
        } = waiting;
        let api: Api<Event> = Api::namespaced(self.client.clone(), &target.namespace);
        let event = self.event(target, report, *reported);
        let answer = timeout(DEADLINE, api.create(&PostParams::default(), &event)).await;
        let is_answered = match &answer {
            Ok(Ok(_)) => true,
            Ok(Err(kube::Error::Api(status))) => {
                matches!(status.code, 400..=499) && status.code != 429
            }
            _ => false,
        };
        let outcome = match answer {
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
        is_answered
            .then_some(())
            .ok_or_else(|| failed("the API server has not answered"))
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

// The queue of Events: they are sent in turns by namespace, and behind all swaps. So very many of
// one tenant keep no others waiting; nor do those that hang behind a webhook, which have their
// share of what may be in flight.
//
// The queue is bounded in number, where one namespace cannot take all places, and in time: an Event
// that has waited long is sent although there are swaps, but no two at once then.

/// The most Events of one namespace that may wait; more are dropped, because the API server is too
/// slow.
const OF_NAMESPACE: usize = 10_000;
/// The most Events of all namespaces that may wait.
const OF_ALL: usize = 12_000;

/// The most Events in flight at once while there are no swaps.
const AT_ONCE: usize = 8;

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
    waiting: BTreeMap<u64, Waiting>,
    arrived: u64,
    /// The number of Events that were taken, and are not answered.
    in_flight: usize,
}

impl Queue {
    /// Adds an Event. Returns false if there is no place for it.
    fn push(&mut self, next: Waiting) -> bool {
        let namespace = &next.target.namespace;
        let has_place = self.waiting.len() < OF_ALL && self.turns.len_of(namespace) < OF_NAMESPACE;
        if has_place {
            self.arrived += 1;
            self.turns.push(namespace, self.arrived);
            self.waiting.insert(self.arrived, next);
        }
        has_place
    }

    /// Removes and returns the Event whose turn it is among the namespaces that may have one, with
    /// the time since when any of these has waited.
    fn pop_of(&mut self, may_go: impl Fn(&str) -> bool) -> Option<(Waiting, Instant)> {
        let oldest = self.turns.firsts(&may_go).min()?;
        let since = self.waiting.get(oldest)?.since;
        let next = self.waiting.remove(&self.turns.pop_of(may_go)?)?;
        self.in_flight += 1;
        Some((next, since))
    }

    fn is_done(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }
}

/// Sends the queued Events until every reporter is dropped.
async fn send_in_turn(
    sender: Sender,
    queue: Arc<watch::Sender<Queue>>,
    mut queued: mpsc::Receiver<()>,
    precedence: Precedence,
) {
    let mut under_way = InFlight::new(AT_ONCE, |next: &Waiting| &next.target.namespace);
    let mut is_open = true;
    loop {
        let next = under_way.turn(|may_begin| {
            let mut taken = None;
            queue.send_modify(|queue| taken = queue.pop_of(may_begin));
            taken
        });
        let Some((next, oldest)) = next else {
            tokio::select! {
                more = queued.recv(), if is_open => is_open = more.is_some(),
                true = answered(&mut under_way, &queue) => {}
                else => return,
            }
            continue;
        };
        if !precedence.yield_with(next.since, oldest).await {
            // Those that hang would hold up all others.
            while under_way.len() > under_way.suspects() && answered(&mut under_way, &queue).await {
            }
        }
        under_way.begin(sender.clone(), next, |sender, next| {
            Box::pin(sender.send(next))
        });
    }
}

/// Waits until the next Event is answered, or has failed. Returns false if none is in flight.
async fn answered(under_way: &mut Writes<Waiting, ()>, queue: &watch::Sender<Queue>) -> bool {
    let is_one = under_way.next().await.is_some();
    if is_one {
        queue.send_modify(|queue| queue.in_flight -= 1);
    }
    is_one
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

    use super::*;
    use crate::frame::writer::TargetKind;

    fn event(namespace: &str, name: &str) -> Waiting {
        Waiting {
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
        }
    }

    #[test]
    fn a_namespace_with_very_many_leaves_places_to_others_and_nothing_behind() {
        let mut queue = Queue::default();
        let mut taken = |namespace: &str| {
            let pushed = (0..OF_ALL).filter(|_| queue.push(event(namespace, "a")));
            pushed.count()
        };
        assert_eq!(taken("loud"), OF_NAMESPACE);
        assert_eq!(taken("quiet"), OF_ALL - OF_NAMESPACE);
        while queue.pop_of(|_| true).is_some() {
            queue.in_flight -= 1;
        }
        assert!(queue.is_done() && queue.turns.is_empty());
        assert!(queue.push(event("loud", "a")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_very_many_events_keeps_no_other_waiting() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        for name in ["a1", "a2", "a3"] {
            assert!(queue.push(event("loud", name)));
        }
        advance(Duration::from_secs(1)).await;
        assert!(queue.push(event("modest", "b1")));
        let mut sent = Vec::new();
        while let Some((next, oldest)) = queue.pop_of(|_| true) {
            sent.push((next.target.name.into_string(), oldest));
        }
        let names: Vec<_> = sent.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a1", "b1", "a2", "a3"]);
        assert!(sent.iter().all(|(_, oldest)| *oldest == start));
    }
}
