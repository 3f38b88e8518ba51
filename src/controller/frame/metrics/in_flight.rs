//! Writes in flight to the API server.

use tokio::time::Instant;

use super::{ByResource, Metrics};

/// A write in flight, until it is answered or dropped.
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

    /// Records the outcome and the duration of the write, which was answered or given up.
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
