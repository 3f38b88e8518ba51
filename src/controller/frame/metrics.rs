//! Counters and measurements. Every label has a closed set of values: none is the name of an
//! object.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::report::decision::Method;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::ending::{Code, Ends};
use tokio::time::Instant;

use super::watch::Event;
use super::watch::age::WatchAges;

/// The buckets of waits and ends: from a quick write (0.1 s) over a kubelet's usual two seconds to
/// sidecars that take hours to be ended.
const DELAYS: [f64; 14] = [
    0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14_400.0,
];
/// The buckets of one request: from a good round trip to the longest `--write-timeout`.
const ROUND_TRIPS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 120.0,
];
/// The buckets of one image pull: from a few layers that are mostly there to images of models, on a
/// slow line.
const PULLS: [f64; 11] = [
    0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0,
];

/// The labels of a series, with their values.
type Labels<const N: usize> = [(&'static str, &'static str); N];

const fn of_reason(reason: Reason) -> Labels<1> {
    [("reason", reason.as_str())]
}

const fn of_write(resource: &'static str, outcome: &'static str) -> Labels<2> {
    [("resource", resource), ("outcome", outcome)]
}

fn of_method(method: &'static str, class: NodeClass) -> Labels<2> {
    [("method", method), ("class", class.as_str())]
}

fn of_verdict(verdict: Proved, class: NodeClass) -> Labels<2> {
    [("verdict", verdict.as_str()), ("class", class.as_str())]
}

/// A duration, and the labels that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The time by the clock of this process: statuses have whole seconds of other machines.
    pub after: Duration,
    /// The method that was tried.
    pub method: Method,
    /// The class of the pod's node at the time of the decision.
    pub class: NodeClass,
}

/// The metrics of one controller.
#[derive(Clone)]
pub struct Metrics {
    decisions: Family<Labels<1>, Counter>,
    pods: Family<Labels<1>, Gauge>,
    verdicts: Family<Labels<2>, Counter>,
    writes: Family<Labels<2>, Counter>,
    write_durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
    writes_in_flight: Gauge,
    watch_troubles: Family<Labels<1>, Counter>,
    /// 1 in the process that leads, or is alone.
    pub leads: Gauge,
    /// Pods that wait for a write.
    pub waiting: Gauge,
    /// Requests to restart containers that are not completed.
    pub requests: Gauge,
    /// Jobs that pull images and are not completed.
    pub pull_jobs: Gauge,
    /// Pods that wait for others of their Job.
    pub waiting_for_headroom: Gauge,
    /// The time since the API server was last heard of, by watch.
    pub watch_ages: WatchAges,
    oldest: Oldest,
    until_written: Family<Labels<2>, Histogram, fn() -> Histogram>,
    until_ended: Family<Labels<2>, Histogram, fn() -> Histogram>,
    pulls: Histogram,
    ends: EndMetrics,
}

impl Metrics {
    /// Registers the metrics under the prefix `swaplet`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::new();
        let registry = registry.sub_registry_with_prefix("swaplet");
        registry.register(
            "build",
            "The version of swaplet",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        metrics.register_state(registry);
        metrics.register_work(registry);
        metrics.begin_at_zero();
        metrics
    }

    fn new() -> Self {
        Self {
            decisions: Family::default(),
            pods: Family::default(),
            verdicts: Family::default(),
            writes: Family::default(),
            write_durations: Family::new_with_constructor(|| Histogram::new(ROUND_TRIPS)),
            writes_in_flight: Gauge::default(),
            watch_troubles: Family::default(),
            leads: Gauge::default(),
            waiting: Gauge::default(),
            requests: Gauge::default(),
            pull_jobs: Gauge::default(),
            waiting_for_headroom: Gauge::default(),
            watch_ages: WatchAges::default(),
            oldest: Oldest::default(),
            until_written: Family::new_with_constructor(|| Histogram::new(DELAYS)),
            until_ended: Family::new_with_constructor(|| Histogram::new(DELAYS)),
            pulls: Histogram::new(PULLS),
            ends: EndMetrics::new(),
        }
    }

    /// Registers the metrics of the present state.
    fn register_state(&self, registry: &mut Registry) {
        let mut register = |name, help, gauge: &Gauge| registry.register(name, help, gauge.clone());
        register(
            "leads",
            "Whether this process leads, or is alone",
            &self.leads,
        );
        register("waiting", "Pods that wait for a write", &self.waiting);
        register(
            "waiting_for_headroom",
            "Pods that wait until a swap no longer fails their Job",
            &self.waiting_for_headroom,
        );
        register(
            "requests",
            "ContainerRecreateRequests that are kept because they still need work",
            &self.requests,
        );
        register(
            "pull_jobs",
            "Jobs that pull images and are not completed",
            &self.pull_jobs,
        );
        register(
            "writes_in_flight",
            "Write requests that have not been answered",
            &self.writes_in_flight,
        );
        registry.register(
            "pods",
            "Pods that are kept in memory, by the latest decision",
            self.pods.clone(),
        );
        registry.register_collector(Box::new(Ages {
            watches: self.watch_ages.clone(),
            oldest: self.oldest.clone(),
        }));
    }

    /// Registers the metrics of the work done.
    fn register_work(&self, registry: &mut Registry) {
        registry.register(
            "decisions",
            "Changes of the decision about a pod, by reason",
            self.decisions.clone(),
        );
        let verdicts = self.verdicts.clone();
        registry.register(
            "node_verdicts",
            "What pods have proved about how their node treats a changed image",
            verdicts,
        );
        registry.register(
            "writes",
            "Write requests, by resource and outcome",
            self.writes.clone(),
        );
        registry.register(
            "watch_troubles",
            "Failures to list or watch, by resource",
            self.watch_troubles.clone(),
        );
        let (durations, written, ended) = (
            self.write_durations.clone(),
            self.until_written.clone(),
            self.until_ended.clone(),
        );
        registry.register_with_unit(
            "write_duration",
            "Duration of write requests",
            Unit::Seconds,
            durations,
        );
        let help = "From main containers observed done to an applied write that ends the pod";
        registry.register_with_unit("mains_done_to_write", help, Unit::Seconds, written);
        registry.register_with_unit(
            "write_to_end",
            "From the first write to end a pod to its end",
            Unit::Seconds,
            ended,
        );
        registry.register_with_unit(
            "image_pull",
            "Duration of image pulls of kubelets for jobs",
            Unit::Seconds,
            self.pulls.clone(),
        );
        self.ends.register(registry);
    }

    /// Creates the counters of alerts with the value zero: Prometheus sees no increase in a counter
    /// that appears with its first count.
    fn begin_at_zero(&self) {
        for reason in Reason::ALL {
            drop(self.decisions.get_or_create(&of_reason(reason)));
        }
        for (resource, outcome) in product(
            &["pods", "pods/status", PLURAL, "events"],
            &["applied", "conflict", "gone", "denied", "failed"],
        ) {
            drop(self.writes.get_or_create(&of_write(resource, outcome)));
        }
        for (verdict, class) in product(Proved::ALL, NodeClass::ALL) {
            drop(self.verdicts.get_or_create(&of_verdict(verdict, class)));
        }
        for resource in ["pods", "jobs", "nodes"] {
            drop(self.watch_troubles.get_or_create(&[("resource", resource)]));
        }
    }

    /// Counts a change of the decision about a pod.
    pub fn decided(&self, reason: Reason) {
        self.decisions.get_or_create(&of_reason(reason)).inc();
    }

    /// Counts panics of decisions about objects that are not pods.
    pub fn decisions_failed(&self, times: u64) {
        self.decisions
            .get_or_create(&of_reason(Reason::DecisionFailed))
            .inc_by(times);
    }

    /// Sets the number of pods that are kept for this reason.
    pub fn kept(&self, reason: Reason, pods: usize) {
        set(&self.pods.get_or_create(&of_reason(reason)), pods);
    }

    /// Returns the number of pods that are kept.
    pub fn pods(&self) -> i64 {
        let pods = |reason: Reason| {
            self.pods
                .get(&of_reason(reason))
                .map_or(0, |pods| pods.get())
        };
        Reason::ALL.into_iter().map(pods).sum()
    }

    /// Sets the start of the longest wait of a pod for its end; `None` if no pod waits.
    pub fn oldest_since(&self, since: Option<Instant>) {
        self.oldest.set(since);
    }

    /// Counts a verdict that a pod has proved on a node of this class.
    pub fn learned(&self, verdict: Proved, class: NodeClass) {
        self.verdicts
            .get_or_create(&of_verdict(verdict, class))
            .inc();
    }

    /// Counts the outcome of a write to `resource`.
    pub fn wrote(&self, resource: &'static str, outcome: &'static str) {
        self.writes
            .get_or_create(&of_write(resource, outcome))
            .inc();
    }

    /// Begins a write to `resource`; [`InFlight::answered`] ends it.
    pub fn sends(&self, resource: &'static str) -> InFlight {
        self.writes_in_flight.inc();
        InFlight {
            metrics: self.clone(),
            resource,
            since: Instant::now(),
        }
    }

    /// Counts an event that reports a failure to list or watch.
    pub fn count_trouble<T>(&self, resource: &'static str, event: &Event<T>) {
        if event.trouble().is_some() {
            self.watch_troubles
                .get_or_create(&[("resource", resource)])
                .inc();
        }
    }

    /// Records the time from the observed end of the main containers to an applied write.
    pub fn written_after(&self, timed: Timed) {
        observe(&self.until_written, timed);
    }

    /// Records the time from the first write to a pod to its end.
    pub fn ended_after(&self, timed: Timed) {
        observe(&self.until_ended, timed);
    }

    /// Records how the containers of a pod have ended; `timed` has the method and the class.
    pub fn ended_with(&self, ends: &Ends, timed: Timed) {
        self.ends.observe(ends, timed.method, timed.class);
    }

    /// Records how long a kubelet has taken to pull an image for a job.
    pub fn pulled(&self, took: Duration) {
        self.pulls.observe(took.as_secs_f64());
    }

    /// Resets the state: this process has no pods any more, because it does not lead or it ends.
    pub fn nothing_kept(&self) {
        self.pods.clear();
        self.oldest_since(None);
        for gauge in [
            &self.waiting,
            &self.waiting_for_headroom,
            &self.requests,
            &self.pull_jobs,
        ] {
            gauge.set(0);
        }
    }
}

/// Sets a gauge to a number of objects.
pub(crate) fn set(gauge: &Gauge, number: usize) {
    gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
}

fn product<A: Copy, B: Copy>(one: &[A], other: &[B]) -> impl Iterator<Item = (A, B)> {
    one.iter()
        .flat_map(move |one| other.iter().map(move |other| (*one, *other)))
}

fn observe(family: &Family<Labels<2>, Histogram, fn() -> Histogram>, timed: Timed) {
    family
        .get_or_create(&of_method(timed.method.as_str(), timed.class))
        .observe(timed.after.as_secs_f64());
}

// Writes in flight to the API server.

/// A write in flight, until it is answered or dropped.
pub struct InFlight {
    metrics: Metrics,
    resource: &'static str,
    since: Instant,
}

impl InFlight {
    /// Records the outcome and the duration of the write, which was answered or given up.
    pub fn answered(self, outcome: &'static str) {
        self.metrics.wrote(self.resource, outcome);
        self.metrics
            .write_durations
            .get_or_create(&[("resource", self.resource)])
            .observe(self.since.elapsed().as_secs_f64());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.writes_in_flight.dec();
    }
}

// Metrics that grow by themselves: they are computed at each scrape.

/// The start of the longest wait of a pod for its end; `None` if no pod waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oldest(Arc<Mutex<Option<Instant>>>);

impl Oldest {
    pub(crate) fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn age(&self) -> Duration {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[derive(Debug)]
pub(crate) struct Ages {
    pub(crate) watches: WatchAges,
    pub(crate) oldest: Oldest,
}

impl Collector for Ages {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let help = "Time since the last response of the API server on a watch, by resource";
        let mut ages = encoder.encode_descriptor(
            "watch_age",
            help,
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        for (resource, age) in self.watches.all() {
            ConstGauge::new(age.as_secs_f64())
                .encode(ages.encode_family(&[("resource", &*resource)])?)?;
        }
        let help = "Time since the main containers of the longest waiting pod were observed done";
        let oldest = encoder.encode_descriptor(
            "mains_done_oldest",
            help,
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        ConstGauge::new(self.oldest.age().as_secs_f64()).encode(oldest)
    }
}

// Metrics of how sidecars have ended, and how long after the main containers, as nodes report.

/// The label of a sidecar that has ended by itself, without a method.
const NONE: &str = "none";

fn of_code(method: &'static str, code: Code) -> Labels<2> {
    [("method", method), ("exit_code", code.into())]
}

#[derive(Clone)]
struct EndMetrics {
    codes: Family<Labels<2>, Counter>,
    sidecars: Family<Labels<2>, Histogram, fn() -> Histogram>,
    pods: Family<Labels<2>, Histogram, fn() -> Histogram>,
}

impl EndMetrics {
    fn new() -> Self {
        Self {
            codes: Family::default(),
            sidecars: Family::new_with_constructor(|| Histogram::new(DELAYS)),
            pods: Family::new_with_constructor(|| Histogram::new(DELAYS)),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "sidecar_ends",
            "Sidecars that have ended in pods that swaplet has ended, by their exit code",
            self.codes.clone(),
        );
        for (name, help, family) in [
            (
                "mains_end_to_sidecar_end",
                "From the end of the main containers to that of a sidecar, as nodes report them",
                &self.sidecars,
            ),
            (
                "mains_end_to_pod_end",
                "From the end of the main containers to that of the last container of the pod",
                &self.pods,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, family.clone());
        }
        for (method, code) in product(
            &[
                Method::Swap.as_str(),
                Method::Finish.as_str(),
                Method::Recreate.as_str(),
                NONE,
            ],
            Code::ALL,
        ) {
            drop(self.codes.get_or_create(&of_code(method, code)));
        }
    }

    fn observe(&self, ends: &Ends, method: Method, class: NodeClass) {
        for end in &ends.sidecars {
            let method = end.method.map_or(NONE, Method::as_str);
            self.codes.get_or_create(&of_code(method, end.code)).inc();
            observe_end(&self.sidecars, &of_method(method, class), end.after);
        }
        let by = of_method(method.as_str(), class);
        observe_end(&self.pods, &by, ends.pod_after);
    }
}

fn observe_end(
    of: &Family<Labels<2>, Histogram, fn() -> Histogram>,
    by: &Labels<2>,
    after: Option<Duration>,
) {
    if let Some(after) = after {
        of.get_or_create(by).observe(after.as_secs_f64());
    }
}
