//! Requests under way to the API server.

use tokio::time::Instant;

use super::{ByResource, Metrics};

/// A write that is under way, also one that is given up.
pub struct InFlight {
    metrics: Metrics,
    resource: &'static str,
    since: Instant,
}

impl InFlight {
    pub(super) fn begin(metrics: Metrics, resource: &'static str) -> Self {
        metrics.writes_in_flight.inc();
        Self {
            metrics,
            resource,
            since: Instant::now(),
        }
    }

    /// It was answered, or nobody waits for the answer any more.
    pub fn answered(self, outcome: &'static str) {
        self.metrics.wrote(self.resource, outcome);
        let by_resource = ByResource {
            resource: self.resource,
        };
        self.metrics
            .write_durations
            .get_or_create(&by_resource)
            .observe(self.since.elapsed().as_secs_f64());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.writes_in_flight.dec();
    }
}
