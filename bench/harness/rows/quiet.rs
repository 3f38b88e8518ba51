//! What a controller takes while there is nothing for it to do, and what it takes to begin anew.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::{SETTLE, Session, cpu};
use crate::cluster::seed::STRANGERS;
use crate::cluster::{driver, objects};
use crate::judge::audit;
use crate::judge::process::Managed;
use crate::judge::relay::Relay;
use crate::metrics::{IDLE_REQUESTS, RELIST_PEAK, RSS, Unit};
use crate::options::Row;

/// Writes per second to pods that have nothing to do with sidecars.
const NOISE: u64 = 50;

impl Session<'_> {
    /// Starts the controller and measures what is wanted; it runs on, without the relay.
    pub(super) async fn quiet(&mut self) -> Result<Managed> {
        let quiet = [Row::Idle, Row::Noise, Row::Relist];
        if !quiet.iter().any(|row| self.options.wants(*row)) {
            let process = self
                .contestant
                .start(self.cluster, self.options, self.cluster.port)
                .await?;
            self.probe().await?;
            sleep(SETTLE).await;
            return Ok(process);
        }
        let relay = Relay::open(self.cluster.port).await?;
        let mut process = self
            .contestant
            .start(self.cluster, self.options, relay.port)
            .await?;
        self.probe().await?;
        sleep(SETTLE).await;
        if self.options.wants(Row::Idle) {
            self.idle(&process, &relay).await?;
        }
        if self.options.wants(Row::Noise) {
            self.noise(&process, &relay).await?;
        }
        if self.options.wants(Row::Relist) {
            self.relist(&mut process).await?;
        }
        self.restart(process).await
    }

    async fn idle(&mut self, process: &Managed, relay: &Relay) -> Result<()> {
        let size = self.burst.uids.len();
        if size > 0 {
            self.record(
                "start: bytes received per pod",
                Unit::Kilobytes,
                relay.received() / size as f64,
            );
        }
        self.log.take()?;
        let (received, before) = (relay.received(), process.usage()?);
        sleep(Duration::from_secs(self.options.seconds)).await;
        let used = cpu(process, before.cpu)?;
        let requests = self.requests_since().await?;
        let seconds = self.options.seconds as f64;
        self.record(RSS, Unit::Megabytes, before.rss);
        self.record("idle: its share of it (PSS)", Unit::Megabytes, before.pss);
        self.record(
            "start: peak of resident memory",
            Unit::Megabytes,
            before.peak,
        );
        self.record("idle: CPU", Unit::Percent, 100.0 * used / seconds);
        self.record(IDLE_REQUESTS, Unit::Number, requests as f64);
        self.record(
            "idle: bytes received per second",
            Unit::Kilobytes,
            (relay.received() - received) / seconds,
        );
        Ok(())
    }

    /// Requests since the last look that are neither watches nor about a Lease.
    async fn requests_since(&mut self) -> Result<usize> {
        let entries = self.entries().await?;
        let requests = audit::requests(&entries, self.contestant.user().name());
        let counted = requests
            .iter()
            .filter(|((verb, resource), _)| verb != "watch" && resource != "leases");
        Ok(counted.map(|(_, number)| number).sum())
    }

    async fn noise(&mut self, process: &Managed, relay: &Relay) -> Result<()> {
        self.log.take()?;
        let (received, before) = (relay.received(), process.usage()?);
        let writes = NOISE * self.options.seconds;
        let count = usize::try_from(writes)?;
        let churn = (0..count).map(|nth| objects::stirs(nth % STRANGERS, nth / STRANGERS));
        driver::at_rate(&self.node()?, 8, NOISE, churn.collect(), None).await?;
        let used = cpu(process, before.cpu)?;
        let requests = self.requests_since().await?;
        self.record(
            "noise: CPU",
            Unit::Percent,
            100.0 * used / self.options.seconds as f64,
        );
        self.record(
            "noise: requests but the Lease and watches",
            Unit::Number,
            requests as f64,
        );
        let bytes = (relay.received() - received) / writes as f64;
        self.record(
            "noise: bytes received per foreign write",
            Unit::Kilobytes,
            bytes,
        );
        Ok(())
    }

    /// The API server starts anew: what watches were at is too old for it, so everything is listed,
    /// or streamed from the beginning.
    async fn relist(&mut self, process: &mut Managed) -> Result<()> {
        let before = process.usage()?.rss;
        self.log.take()?;
        process.forget_peak()?;
        self.cluster.restart_api_server().await?;
        let probed = self.probe().await;
        if !process.lives() {
            let name = self.contestant.name();
            eprintln!("{name} has ended, as the API server was away; it is started again");
            return Ok(());
        }
        let time = probed?;
        sleep(SETTLE).await;
        let entries = self.entries().await?;
        let lists = audit::full_reads(&entries, self.contestant.user().name(), "pods");
        self.record(
            "relist: times all pods were read",
            Unit::Number,
            lists as f64,
        );
        self.record(
            "relist: API server ready to first swap",
            Unit::Seconds,
            time.as_secs_f64(),
        );
        self.record(RELIST_PEAK, Unit::Number, process.usage()?.peak / before);
        Ok(())
    }

    /// The process ends and starts again; a pod has become due meanwhile.
    async fn restart(&mut self, process: Managed) -> Result<Managed> {
        process.stop().await?;
        let node = self.node()?;
        let (mut watch, number) = self.end_probe(&node).await?;
        let swapped = async {
            self.probe_swapped(&node, &mut watch, number).await?;
            anyhow::Ok(Instant::now())
        };
        let start = self
            .contestant
            .start(self.cluster, self.options, self.cluster.port);
        let (process, swapped) = tokio::try_join!(start, swapped)?;
        let time = swapped.saturating_duration_since(process.started);
        sleep(SETTLE).await;
        if self.options.wants(Row::Relist) {
            let usage = process.usage()?;
            self.record(
                "restart: start to first swap",
                Unit::Seconds,
                time.as_secs_f64(),
            );
            self.record(
                "restart: peak, times the memory after",
                Unit::Number,
                usage.peak / usage.rss,
            );
        }
        Ok(process)
    }
}
