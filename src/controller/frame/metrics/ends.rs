//! How sidecars have ended, and how long after the main containers, by what their nodes report.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::ending::{Code, Ends};

use super::{ByMethod, DELAYS, product};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    method: &'static str,
    exit_code: &'static str,
}

/// What is counted of ends.
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
            [Method::Swap, Method::Finish, Method::Recreate].map(Method::as_str),
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
        let (method, class) = (method.as_str(), class.as_str());
        let by = ByMethod { method, class };
        for end in &ends.sidecars {
            let exit_code = end.code.as_str();
            self.codes
                .get_or_create(&ByCode { method, exit_code })
                .inc();
            let after = end.after.into_iter();
            after.for_each(|after| {
                self.sidecars
                    .get_or_create(&by)
                    .observe(after.as_secs_f64())
            });
        }
        let after = ends.pod_after.into_iter();
        after.for_each(|after| self.pods.get_or_create(&by).observe(after.as_secs_f64()));
    }
}
