//! All main containers end as fast as the API server takes it. The nodes answer when the last pod is
//! swapped, so that until then only the contestant writes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::{Curve, SETTLE, Session, wait_swapped};
use crate::cluster::driver;
use crate::cluster::objects::{self, Shown};
use crate::cluster::server::User;
use crate::cluster::watch::Watch;
use crate::judge::audit::{self, Entry, Span, first_writes};
use crate::judge::process::Managed;
use crate::metrics::{BURST, DRAIN, DRAIN_RATE, EVENTS, EVENTS_BEFORE, PATCHES, Unit};

/// A contestant that has written nothing for so many looks has done its work.
const QUIET_LOOKS: usize = 3;
const MOST_LOOKS: usize = 180;
const LOOK: Duration = Duration::from_secs(1);
/// Where fewer swaps than this share of all are left at the last status write, their rate says little.
const ENOUGH: f64 = 0.05;

impl Session<'_> {
    pub(super) async fn drain(&mut self, process: Option<&Managed>) -> Result<()> {
        let pods = self.burst.clone();
        sleep(SETTLE).await;
        self.log.take()?;
        let before = process.map(Managed::usage).transpose()?;
        if let Some(process) = process {
            process.forget_peak()?;
        }
        let node = self.node()?;
        let mut watch = Watch::open(&node).await?;
        let count = pods.uids.len();
        tokio::try_join!(
            self.end_mains(&pods, None),
            wait_swapped(&mut watch, &pods.set, count, None)
        )?;
        drop(watch);
        let mut entries = self.entries().await?;
        self.judge_drain(&entries)?;
        let over = (0..count).map(|number| objects::shows(&pods.set, number, Shown::Over));
        driver::all(&node, self.options.writers, over, None).await?;
        self.until_quiet(&mut entries).await?;
        self.judge_writes(&entries);
        if let (Some(process), Some(before)) = (process, before) {
            let after = process.usage()?;
            self.record(
                "burst: CPU in all, to the end of all pods",
                Unit::Seconds,
                after.cpu - before.cpu,
            );
            self.record(
                "burst: peak of resident memory",
                Unit::Megabytes,
                after.peak,
            );
            self.record("burst: resident memory after", Unit::Megabytes, after.rss);
        }
        Ok(())
    }

    fn judge_drain(&mut self, entries: &[Entry]) -> Result<()> {
        let (set, user) = (self.burst.set.clone(), self.contestant.user().name());
        let shown = first_writes(entries, User::Node.name(), "pods/status", &set);
        let swaps = first_writes(entries, user, "pods", &set);
        let count = self.burst.uids.len();
        ensure!(
            shown.len() == count && swaps.len() == count,
            "the audit log has {} of {count} swaps",
            swaps.len()
        );
        let first = shown
            .values()
            .map(|span| span.received)
            .min()
            .context("no status")?;
        let last = shown
            .values()
            .map(|span| span.answered)
            .max()
            .context("no status")?;
        let end = swaps
            .values()
            .map(|span| span.answered)
            .max()
            .context("no swap")?;
        let seconds = |micros: i64| micros.max(0) as f64 / 1e6;
        let left = swaps
            .values()
            .filter(|swap: &&Span| swap.answered > last)
            .count();
        self.record(
            "burst: status writes",
            Unit::PerSecond,
            count as f64 / seconds(last - first),
        );
        self.record(DRAIN, Unit::Seconds, seconds(end - last));
        if left as f64 > ENOUGH * count as f64 {
            self.record(
                DRAIN_RATE,
                Unit::PerSecond,
                left as f64 / seconds(end - last),
            );
        }
        self.record(BURST, Unit::Seconds, seconds(end - first));
        let last_begun = swaps
            .values()
            .map(|swap| swap.received)
            .max()
            .context("no swap")?;
        self.record(
            EVENTS_BEFORE,
            Unit::Number,
            audit::events_between(entries, user, first, last_begun) as f64,
        );
        let mut times: Vec<f64> = swaps
            .values()
            .map(|swap| seconds(swap.answered - first))
            .collect();
        times.sort_by(f64::total_cmp);
        self.results.curves.push(Curve {
            size: count,
            contestant: self.contestant,
            times,
        });
        Ok(())
    }

    /// Until the contestant has said what it has to say of the pods that are over.
    async fn until_quiet(&mut self, entries: &mut Vec<Entry>) -> Result<()> {
        let user = self.contestant.user().name();
        let mut quiet = 0;
        for _ in 0..MOST_LOOKS {
            sleep(LOOK).await;
            let new = self.log.take()?;
            let writes = new.iter().any(|entry| {
                entry.is_of(user) && entry.resource() != "leases" && entry.verb != "watch"
            });
            quiet = if writes { 0 } else { quiet + 1 };
            entries.extend(new);
            if quiet == QUIET_LOOKS {
                break;
            }
        }
        Ok(())
    }

    fn judge_writes(&mut self, entries: &[Entry]) {
        let user = self.contestant.user().name();
        let per_pod = |number: usize| number as f64 / self.burst.uids.len() as f64;
        let patches = audit::count(entries, user, &["patch", "update"], "pods");
        let events = audit::count(entries, user, &["create", "patch", "update"], "events");
        let all = audit::requests(entries, user);
        let all: usize = all
            .iter()
            .filter(|((verb, of), _)| verb != "watch" && of != "leases")
            .map(|(_, number)| number)
            .sum();
        let values = [
            per_pod(patches),
            per_pod(events),
            per_pod(all - patches - events),
        ];
        for (name, value) in [PATCHES, EVENTS, "burst: other requests per pod"]
            .into_iter()
            .zip(values)
        {
            self.record(name, Unit::Number, value);
        }
    }
}
