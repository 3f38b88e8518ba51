//! What is counted. Every label has a closed set of values.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::decide::reason::Reason;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    resource: &'static str,
    outcome: &'static str,
}

/// The metrics of one controller.
#[derive(Clone)]
pub struct Metrics {
    decisions: Family<ByReason, Counter>,
    writes: Family<ByOutcome, Counter>,
    watch_troubles: Counter,
    /// 1 in the process that leads, or is alone.
    pub leads: Gauge,
    /// Pods that are kept.
    pub pods: Gauge,
    /// Pods that wait for a write.
    pub waiting: Gauge,
    /// Requests to restart containers that are not completed.
    pub requests: Gauge,
    /// Jobs that pull images and are not completed.
    pub pull_jobs: Gauge,
    /// Pods that wait for others of their Job.
    pub waiting_for_headroom: Gauge,
    swap_delay: Histogram,
    end_delay: Histogram,
}

impl Metrics {
    /// The metrics, registered under the prefix `swaplet`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            decisions: Family::default(),
            writes: Family::default(),
            watch_troubles: Counter::default(),
            leads: Gauge::default(),
            pods: Gauge::default(),
            waiting: Gauge::default(),
            requests: Gauge::default(),
            pull_jobs: Gauge::default(),
            waiting_for_headroom: Gauge::default(),
            swap_delay: delay_histogram(),
            end_delay: delay_histogram(),
        };
        let registry = registry.sub_registry_with_prefix("swaplet");
        registry.register("decisions", "Changes of the decision about a pod, by reason", metrics.decisions.clone());
        registry.register("writes", "Requests that write, by resource and outcome", metrics.writes.clone());
        registry.register("watch_troubles", "Failures to list or watch pods or Jobs", metrics.watch_troubles.clone());
        registry.register("leads", "Whether this process leads, or is alone", metrics.leads.clone());
        registry.register("pods", "Pods with sidecars that are not finished", metrics.pods.clone());
        registry.register("waiting", "Pods that wait for a write", metrics.waiting.clone());
        let requests = metrics.requests.clone();
        registry.register("requests", "ContainerRecreateRequests that are kept, because something is to be done for them", requests);
        registry.register("pull_jobs", "Jobs that pull images and are not completed", metrics.pull_jobs.clone());
        let waiting = metrics.waiting_for_headroom.clone();
        registry.register("waiting_for_headroom", "Pods that wait until a swap does not fail their Job any more", waiting);
        let (swap, end) = (metrics.swap_delay.clone(), metrics.end_delay.clone());
        registry.register_with_unit("mains_done_to_swap", "From the mains seen done to the swap applied", Unit::Seconds, swap);
        registry.register_with_unit("swap_to_end", "From the first swap of a pod to its end", Unit::Seconds, end);
        metrics
    }

    /// The decision about a pod has become this one.
    pub fn decided(&self, reason: Reason) {
        self.decisions.get_or_create(&ByReason { reason: reason.as_str() }).inc();
    }

    /// A write to `resource` had this outcome.
    pub fn wrote(&self, resource: &'static str, outcome: &'static str) {
        self.writes.get_or_create(&ByOutcome { resource, outcome }).inc();
    }

    /// A list or watch failed.
    pub fn watch_trouble(&self) {
        self.watch_troubles.inc();
    }

    /// A swap was applied so long after the mains were seen done.
    pub fn swapped_after(&self, delay: Duration) {
        self.swap_delay.observe(delay.as_secs_f64());
    }

    /// A pod is finished, so long after its first swap.
    pub fn ended_after(&self, delay: Duration) {
        self.end_delay.observe(delay.as_secs_f64());
    }
}

/// From a good round trip (10 ms) over a kubelet's usual two seconds to a grace period of minutes.
fn delay_histogram() -> Histogram {
    Histogram::new([0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0])
}
