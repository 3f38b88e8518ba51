//! What is measured: a session is one contestant on an API server that begins with a copy of the
//! same data.

mod burst;
mod ceiling;
mod jobs;
mod quiet;
mod steady;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc::{UnboundedSender, channel, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::api::{Endpoint, Request};
use crate::cluster::driver::{self, Tally};
use crate::cluster::objects::{self, EXIT, SIDECAR, Shown};
use crate::cluster::seed::Pods;
use crate::cluster::server::{Cluster, User};
use crate::cluster::watch::Watch;
use crate::judge::audit::{AuditLog, Entry};
use crate::judge::process::Managed;
use crate::metrics::{Measurement, Unit, metric};
use crate::options::{Contestant, Options, Row};

/// A contestant that has done nothing for so long is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is under way elsewhere gets so long to end before something is measured.
const SETTLE: Duration = Duration::from_secs(5);
/// Connections of the nodes that show pods as over while others are still swapped.
const NODE_CLIENTS: usize = 8;
/// The answer comes before the line of the audit log.
const LOG_BEHIND: Duration = Duration::from_millis(500);

/// How many swaps were made, by the seconds since the first status write.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Pods of the burst.
    pub size: usize,
    /// Whose it is.
    pub contestant: Contestant,
    /// The time of each swap, in order.
    pub times: Vec<f64>,
}

/// All that was measured.
#[derive(Debug, Default)]
pub struct Results {
    /// Values, in the order of the rows.
    pub values: Vec<Measurement>,
    /// Drain curves, the last of each contestant counts.
    pub curves: Vec<Curve>,
    /// Bytes of a pod as JSON.
    pub pod_bytes: usize,
}

/// One contestant on one API server.
pub struct Session<'a> {
    cluster: &'a mut Cluster,
    options: &'a Options,
    contestant: Contestant,
    burst: Pods,
    /// Clients that send bare patches.
    clients: usize,
    next_probe: usize,
    log: AuditLog,
    results: &'a mut Results,
}

/// Whom to measure in a session, and with what.
pub struct Plan<'a> {
    /// Whose session it is.
    pub contestant: Contestant,
    /// The data that the API server begins with.
    pub snapshot: &'a Path,
    /// The pods in it that wait.
    pub burst: &'a Pods,
    /// Clients that send bare patches.
    pub clients: usize,
}

impl<'a> Session<'a> {
    /// Starts the API server.
    ///
    /// # Errors
    /// Where it does not get ready.
    pub async fn begin(
        cluster: &'a mut Cluster,
        options: &'a Options,
        plan: &Plan<'_>,
        results: &'a mut Results,
    ) -> Result<Self> {
        let log = cluster.file("audit.log");
        let _ = std::fs::remove_file(&log);
        cluster.start(Some(plan.snapshot)).await?;
        plan.contestant.install(cluster, options).await?;
        Ok(Self {
            cluster,
            options,
            contestant: plan.contestant,
            burst: plan.burst.clone(),
            clients: plan.clients,
            next_probe: 0,
            log: AuditLog::new(log),
            results,
        })
    }

    /// Measures what is wanted of a controller.
    ///
    /// # Errors
    /// Where the contestant, or the API server, does not do its part.
    pub async fn measure(&mut self) -> Result<()> {
        let process = if self.contestant == Contestant::Bare {
            None
        } else {
            Some(self.quiet().await?)
        };
        if self.burst.uids.is_empty() {
            return Ok(());
        }
        if self.options.wants(Row::Steady) {
            for rate in self.options.rates.clone() {
                self.steady(rate).await?;
            }
        }
        if self.options.wants(Row::Burst) {
            self.drain(process.as_ref()).await?;
        }
        // They come after the burst, so that it is the same for all: as shipped OpenKruise takes for
        // these as long as for the burst, which is minutes, and is left out.
        if self.options.wants(Row::Jobs) && self.contestant != Contestant::Openkruise {
            self.jobs().await?;
        }
        match process {
            Some(process) => process.stop().await,
            None => Ok(()),
        }
    }

    /// Ends the API server.
    ///
    /// # Errors
    /// Where it does not end.
    pub async fn end(self) -> Result<()> {
        self.cluster.stop().await
    }

    fn record(&mut self, name: impl Into<String>, unit: Unit, value: f64) {
        let (size, contestant) = (self.burst.uids.len(), self.contestant);
        self.results.values.push(Measurement {
            size,
            contestant,
            metric: metric(name, unit),
            value,
        });
    }

    fn node(&self) -> Result<Endpoint> {
        self.cluster.endpoint(User::Node, "kubelet/v1.34.0")
    }

    async fn entries(&mut self) -> Result<Vec<Entry>> {
        sleep(LOG_BEHIND).await;
        self.log.take()
    }

    /// Ends the main container of one more pod, and waits for its swap.
    async fn probe(&mut self) -> Result<Duration> {
        let node = self.node()?;
        let (mut watch, number) = self.end_probe(&node).await?;
        let start = Instant::now();
        self.probe_swapped(&node, &mut watch, number).await?;
        Ok(start.elapsed())
    }

    async fn end_probe(&mut self, node: &Endpoint) -> Result<(Watch, usize)> {
        let watch = Watch::open(node).await?;
        let number = self.next_probe;
        self.next_probe += 1;
        node.once(&objects::shows("probe", number, Shown::MainDone))
            .await?;
        Ok((watch, number))
    }

    async fn probe_swapped(&self, node: &Endpoint, watch: &mut Watch, number: usize) -> Result<()> {
        wait_swapped(watch, "probe", 1, None).await?;
        node.once(&objects::shows("probe", number, Shown::Over))
            .await?;
        Ok(())
    }

    /// Ends the main containers of all pods; their nodes show each pod as over as soon as it is
    /// swapped. What the audit log has of it.
    async fn live(&mut self, pods: &Pods, rate: Option<u64>) -> Result<Vec<Entry>> {
        sleep(SETTLE).await;
        self.log.take()?;
        let node = self.node()?;
        let count = pods.uids.len();
        let mut watch = Watch::open(&node).await?;
        let (over, mut ended) = unbounded_channel();
        let (sender, receiver) = channel(count);
        let pass_on = async {
            while let Some(request) = ended.recv().await {
                sender.send(request).await?;
            }
            drop(sender);
            anyhow::Ok(())
        };
        tokio::try_join!(
            self.end_mains(pods, rate),
            wait_swapped(&mut watch, &pods.set, count, Some(over)),
            pass_on,
            driver::play(&node, NODE_CLIENTS, receiver, None),
        )?;
        self.entries().await
    }

    /// Shows the main containers of all pods as ended, as fast as it goes or at a rate. Where bare
    /// patches are measured, each pod is patched when its status was written.
    async fn end_mains(&self, pods: &Pods, rate: Option<u64>) -> Result<Tally> {
        let node = self.node()?;
        let (answers, mut answered) = unbounded_channel();
        let bare = self.contestant == Contestant::Bare;
        let shows =
            (0..pods.uids.len()).map(|number| objects::shows(&pods.set, number, Shown::MainDone));
        let writers = self.options.writers;
        let writes = async {
            let answers = bare.then_some(answers);
            match rate {
                None => driver::all(&node, writers, shows, answers).await,
                Some(rate) => driver::at_rate(&node, writers, rate, shows.collect(), answers).await,
            }
        };
        let patches = async {
            if !bare {
                return Ok(Tally::default());
            }
            let endpoint = self.cluster.endpoint(User::Bare, "bare")?;
            let (sender, receiver) = channel(self.clients);
            let feed = async {
                while let Some((number, _)) = answered.recv().await {
                    let swap = objects::swap(&pods.set, number, &pods.uids[number], SIDECAR, EXIT);
                    if sender.send(swap).await.is_err() {
                        break;
                    }
                }
                drop(sender);
            };
            tokio::join!(driver::play(&endpoint, self.clients, receiver, None), feed).0
        };
        tokio::try_join!(writes, patches).map(|(_, patched)| patched)
    }
}

/// Waits until so many pods of a set have the exit image. Where `over` is given, their nodes show at
/// once that they have ended.
async fn wait_swapped(
    watch: &mut Watch,
    set: &str,
    count: usize,
    over: Option<UnboundedSender<Request>>,
) -> Result<()> {
    let mut seen = HashSet::new();
    while seen.len() < count {
        let next = match timeout(PATIENCE, watch.swapped.recv()).await {
            Ok(next) => next.context("the watch has ended")?,
            Err(_) => bail!(
                "{} of {count} pods of {set} were swapped, and for {PATIENCE:?} none",
                seen.len()
            ),
        };
        let number = next
            .strip_prefix(&format!("{set}-"))
            .and_then(|_| objects::number(&next));
        if let Some(number) = number.filter(|number| seen.insert(*number))
            && let Some(over) = &over
        {
            let _ = over.send(objects::shows(set, number, Shown::Over));
        }
    }
    Ok(())
}

/// CPU time between two looks at a process.
fn cpu(process: &Managed, before: f64) -> Result<f64> {
    Ok(process.usage()?.cpu - before)
}
