//! Metrics that grow by themselves: they are computed at each scrape.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokio::time::Instant;

use crate::frame::watch::age::WatchAges;

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
