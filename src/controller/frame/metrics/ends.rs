//! Metrics of how sidecars have ended, and how long after the main containers, as nodes report.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::ending::{Code, Ends};

use super::{ByMethod, DELAYS, product};

/// The label of a sidecar that has ended by itself, without a method.
const NONE: &str = "none";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    method: &'static str,
    exit_code: &'static str,
}

/// The metrics of ends.
#[derive(Clone)]
pub(super) struct EndMetrics {
    codes: Family<ByCode, Counter>,
    sidecars: Family<ByMethod, Histogram, fn() -> Histogram>,
    pods: Family<ByMethod, Histogram, fn() -> Histogram>,
}

impl EndMetrics {
    pub(super) fn new() -> Self {
        Self {
            codes: Family::default(),
            sidecars: Family::new_with_constructor(|| Histogram::new(DELAYS)),
            pods: Family::new_with_constructor(|| Histogram::new(DELAYS)),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
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
            [
                Method::Swap.as_str(),
                Method::Finish.as_str(),
                Method::Recreate.as_str(),
                NONE,
            ],
            Code::ALL.map(Code::as_str),
        ) {
            let at_zero = ByCode {
                method,
                exit_code: code,
            };
            drop(self.codes.get_or_create(&at_zero));
        }
    }

    pub(super) fn observe(&self, ends: &Ends, method: Method, class: NodeClass) {
        let class = class.as_str();
        for end in &ends.sidecars {
            let (method, exit_code) = (end.method.map_or(NONE, Method::as_str), end.code.as_str());
            let by = ByMethod { method, class };
            self.codes
                .get_or_create(&ByCode { method, exit_code })
                .inc();
            end.after
                .into_iter()
                .for_each(|after| observe(&self.sidecars, &by, after));
        }
        let by = ByMethod {
            method: method.as_str(),
            class,
        };
        ends.pod_after
            .into_iter()
            .for_each(|after| observe(&self.pods, &by, after));
    }
}

fn observe(of: &Family<ByMethod, Histogram, fn() -> Histogram>, by: &ByMethod, after: Duration) {
    of.get_or_create(by).observe(after.as_secs_f64());
}
