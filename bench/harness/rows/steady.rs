//! Main containers end at a fixed rate, whatever becomes of those before: an open loop.

use anyhow::{Result, ensure};

use super::Session;
use crate::cluster::objects::NO_LIMIT;
use crate::cluster::seed;
use crate::cluster::server::User;
use crate::judge::audit::first_writes;
use crate::judge::numbers::percentile;
use crate::metrics::{Unit, steady_p99};

impl Session<'_> {
    /// From when the API server has the status that shows the main container ended, to its answer to
    /// the patch. Nodes show each pod as over as soon as it is swapped.
    pub(super) async fn steady(&mut self, rate: u64) -> Result<()> {
        let set = format!("steady{rate}");
        let count = usize::try_from(rate * self.options.seconds)?;
        let writers = self.options.writers;
        let pods = seed::pods(self.cluster, &set, count, NO_LIMIT, writers).await?;
        let entries = self.live(&pods, Some(rate)).await?;
        let shown = first_writes(&entries, User::Node.name(), "pods/status", &set);
        let swaps = first_writes(&entries, self.contestant.user().name(), "pods", &set);
        let times = shown
            .iter()
            .filter_map(|(name, shown)| Some(swaps.get(name)?.answered - shown.received));
        let times: Vec<f64> = times.map(|micros| micros as f64 / 1e3).collect();
        ensure!(
            times.len() == count,
            "the audit log has {} of {count} swaps",
            times.len()
        );
        for (name, share) in [
            (format!("steady {rate}/s: p50"), 0.5),
            (steady_p99(rate), 0.99),
        ] {
            let value = percentile(&times, share).unwrap_or_default();
            self.record(name, Unit::Milliseconds, value);
        }
        Ok(())
    }
}
