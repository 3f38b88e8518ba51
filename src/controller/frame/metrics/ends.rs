//! Metrics of how sidecars have ended, and how long after the main containers, as nodes report.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::ending::{Code, Ends};

use super::{DELAYS, Labels, of_method, product};

/// The label of a sidecar that has ended by itself, without a method.
const NONE: &str = "none";

fn of_code(method: &'static str, code: Code) -> Labels<2> {
    [("method", method), ("exit_code", code.as_str())]
}

/// The metrics of ends.
#[derive(Clone)]
pub(super) struct EndMetrics {
    codes: Family<Labels<2>, Counter>,
    sidecars: Family<Labels<2>, Histogram, fn() -> Histogram>,
    pods: Family<Labels<2>, Histogram, fn() -> Histogram>,
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

    pub(super) fn observe(&self, ends: &Ends, method: Method, class: NodeClass) {
        for end in &ends.sidecars {
            let method = end.method.map_or(NONE, Method::as_str);
            self.codes.get_or_create(&of_code(method, end.code)).inc();
            observe(&self.sidecars, &of_method(method, class), end.after);
        }
        let by = of_method(method.as_str(), class);
        observe(&self.pods, &by, ends.pod_after);
    }
}

fn observe(
    of: &Family<Labels<2>, Histogram, fn() -> Histogram>,
    by: &Labels<2>,
    after: Option<Duration>,
) {
    if let Some(after) = after {
        of.get_or_create(by).observe(after.as_secs_f64());
    }
}
