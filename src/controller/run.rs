//! The loop: events in, decisions, writes out.

mod beside;
pub mod lead;
mod log;
mod nodes;
mod observe;
mod policies;
mod restarts;
mod rights;
mod settings;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::report::decision::Action;
use tokio::sync::{mpsc, watch as channel};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep_until, timeout};

use self::log::log_outcome;
use self::observe::Watches;
use self::policies::Sidecars;
use self::rights::{note_right, right_of};
pub use self::settings::{Settings, TimeOfDay};
use self::told::Told;
use crate::cluster::verdict_store::VerdictStore;
use crate::frame::clock::{Clock, time_of_day};
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::TaskDied;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;
use crate::frame::writer::leash::Gate;
use crate::frame::writer::report::Reporter;
use crate::frame::writer::{Outcome, Writer};
use crate::restart::driver::Driver;
use crate::terminate::derive::{Deriver, Pushed};
use crate::terminate::index::{Effect, Index, Write};
use crate::terminate::selection::{Progress, Selected, Selection};

/// A loop without anything to wait for looks again after this.
const IDLE: Duration = Duration::from_secs(3600);
/// After a busy answer no write is started for this long, or for as long as the server asks.
const BRAKE: Duration = Duration::from_millis(250);
/// The longest pause that one answer can cause for all pods: a server that asks for more is asked
/// again.
const LONGEST_BRAKE: Duration = Duration::from_secs(30);

/// Writes of pods under way at once, if nothing else is said.
pub const CONCURRENCY: u16 = 16;
/// Seconds that one write may take, if nothing else is said.
pub const WRITE_SECONDS: u16 = 10;

/// Runs the controller until `shutdown` completes; then waits for the writes under way. The client
/// must not retry by itself.
///
/// # Errors
/// [`TaskDied`], where only a new process can go on.
pub async fn run(
    client: Client,
    settings: Settings,
    metrics: Metrics,
    health: Health,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TaskDied> {
    let discovery = Discovery::new(client.clone());
    let watch_ages = metrics.watch_ages.clone();
    health.watches(&metrics.watch_ages);
    let gate = Gate::of(
        discovery.client(),
        settings
            .restart
            .as_ref()
            .and_then(|restart| restart.leash.as_deref()),
        &health,
    );
    let mut controller = Controller::new(&discovery, &settings, &gate, metrics, health);
    let mut beside = controller.start_beside(&discovery, &settings, &gate);
    if let Some(namespace) = &settings.state_namespace {
        controller.restore_verdicts(client.clone(), namespace).await;
    }
    controller.select(settings.selection.clone());
    tokio::pin!(shutdown);
    let mut sidecars = Sidecars::begin(&discovery, &settings, &watch_ages);
    tokio::select! {
        () = &mut shutdown => return controller.drain(settings.write_deadline).await,
        known = controller.first_policies(&mut sidecars) => known?,
    }
    let mut watches = Watches::begin(&discovery, &settings, &watch_ages);
    let mut heartbeat = controller.health.heartbeat("pods");
    loop {
        heartbeat.beat();
        if controller.go_on_with_policies(&mut sidecars, &discovery, &settings) {
            watches.list_pods_again(&discovery, &settings, &watch_ages);
        }
        controller.go_on_with_restarts();
        controller.start_writes();
        controller.tell_progress();
        let due = controller.clock.instant(controller.next_look());
        tokio::select! {
            () = &mut shutdown => break,
            event = watches.pods.recv() => controller.see(event.ok_or_else(|| TaskDied::of("the watch of pods"))?),
            event = watches.nodes.recv() => controller.see_node(event.ok_or_else(|| TaskDied::of("the watch of nodes"))?),
            news = watches.openkruise.recv() => controller.hear(news.ok_or_else(|| TaskDied::of("the watch of OpenKruise"))?),
            event = watches.jobs.recv() => controller.see_job(event.ok_or_else(|| TaskDied::of("the watch of Jobs"))?),
            news = sidecars.news.recv() => controller.see_policies(news.ok_or_else(|| TaskDied::of("the watch of SidecarPolicies"))?, &sidecars)?,
            Some(told) = sidecars.reports.join_next() => controller.policies_reported(told),
            Some(done) = controller.writes.join_next() => controller.finish(done)?,
            Some(ended) = beside.join_next() => return Err(ended.unwrap_or_else(|error| TaskDied(error.to_string()))),
            happened = controller.restarts.next() => controller.see_restart(happened?),
            Some((paths, pushed)) = controller.deriver.next() => controller.derived(&paths, pushed),
            () = sleep_until(due) => controller.wake(),
            () = heartbeat.due() => {}
        }
    }
    drop(heartbeat);
    controller.drain(settings.write_deadline).await
}

struct Controller {
    clock: Clock,
    index: Index,
    writer: Writer,
    reporter: Reporter,
    metrics: Metrics,
    health: Health,
    concurrency: usize,
    writes: JoinSet<(Write, Outcome)>,
    restarts: Driver,
    deriver: Deriver,
    /// The exit images that it has derived.
    derived: channel::Sender<BTreeSet<Box<str>>>,
    brake: Duration,
    /// The time of day, as it was last told.
    today: Timestamp,
    verdicts: Option<VerdictStore>,
    progress: Option<mpsc::UnboundedSender<Progress>>,
    told: Told,
}

impl Controller {
    fn new(
        discovery: &Discovery,
        settings: &Settings,
        gate: &Gate,
        metrics: Metrics,
        health: Health,
    ) -> Self {
        let client = discovery.client();
        Self {
            clock: Clock::start(),
            index: index(settings),
            restarts: Driver::start(
                discovery,
                &settings.common(),
                settings.restart.as_ref(),
                gate,
                &metrics.watch_ages,
            ),
            writer: Writer::new(client.clone(), settings.write_deadline)
                .while_leading(settings.leadership.clone())
                .counted_by(metrics.clone()),
            reporter: Reporter::new(
                client.clone(),
                metrics.clone(),
                health.clone(),
                &settings.instance,
            ),
            metrics,
            health,
            concurrency: settings.concurrency.max(1),
            writes: JoinSet::new(),
            deriver: Deriver::new(settings.push.clone()),
            derived: channel::Sender::default(),
            brake: Duration::ZERO,
            today: Timestamp::UNIX_EPOCH,
            verdicts: None,
            progress: None,
            told: Told::default(),
        }
    }

    fn select(&mut self, selection: Option<Selection>) {
        let Some(Selection {
            pods,
            kept,
            progress,
        }) = selection
        else {
            return;
        };
        self.index
            .nodes
            .restore_kept(kept, self.clock.now(), time_of_day());
        self.index.selected = Selected::only(&pods);
        self.progress = Some(progress);
    }

    /// Whoever does not listen any more has seen enough.
    fn tell_progress(&mut self) {
        if let Some(progress) = &self.progress {
            self.index
                .selected
                .take_news()
                .into_iter()
                .for_each(|news| drop(progress.send(news)));
        }
    }

    fn wake(&mut self) {
        let effects = self.index.wake(self.clock.now());
        self.effects(effects);
    }

    /// When to look again if nothing happens.
    fn next_look(&self) -> Duration {
        let now = self.clock.now();
        let due = self
            .index
            .next_due()
            .into_iter()
            .chain(self.restarts.next_due(now))
            .chain(self.index.policies.next_due(now))
            .min()
            .unwrap_or(now + IDLE);
        let due = self
            .index
            .next_budget()
            .filter(|at| *at > now)
            .map_or(due, |at| due.min(at));
        if self.index.waiting() > 0 && self.brake > now {
            due.min(self.brake)
        } else {
            due
        }
    }

    fn start_writes(&mut self) {
        let now = self.clock.now();
        while self.brake <= now && self.writes.len() < self.concurrency {
            let (write, effects) = self.index.next_write(now);
            self.effects(effects);
            let Some(write) = write else { break };
            let writer = self.writer.clone();
            self.writes.spawn(async move {
                let outcome = writer.write(&write.target, &write.action).await;
                (write, outcome)
            });
        }
        self.measure();
    }

    fn measure(&self) {
        for (reason, pods) in self.index.reasons() {
            self.metrics.kept(reason, pods);
        }
        self.metrics.oldest_since(
            self.index
                .waits_since()
                .map(|since| self.clock.instant(since)),
        );
        self.metrics
            .waiting_for_headroom
            .set(i64::try_from(self.index.waiting_for_headroom()).unwrap_or(i64::MAX));
        self.metrics
            .waiting
            .set(i64::try_from(self.index.waiting()).unwrap_or(i64::MAX));
    }

    fn finish(&mut self, done: Result<(Write, Outcome), JoinError>) -> Result<(), TaskDied> {
        let (write, outcome) = done.map_err(|error| TaskDied(format!("a write: {error}")))?;
        log_outcome(&write.target, &outcome);
        note_right(&self.health, right_of(&write.action), &outcome);
        let now = self.clock.now();
        // A request to OpenKruise may fail because of its webhook: that is no reason to hold up
        // other pods.
        if let (Action::Swap(_), Outcome::Failed { retry_after, .. }) = (&write.action, &outcome) {
            self.brake = now + retry_after.unwrap_or(BRAKE).clamp(BRAKE, LONGEST_BRAKE);
        }
        let effects = self.index.written(write, &outcome, now);
        self.effects(effects);
        Ok(())
    }

    fn derived(&mut self, paths: &[String], pushed: Pushed) {
        let shown = cut(&paths.join(", "), MESSAGE);
        match &pushed {
            Ok(reference) => {
                tracing::info!(paths = shown, %reference, "an exit image for these paths is there");
                self.derived
                    .send_if_modified(|derived| derived.insert(reference.clone()));
            }
            Err(trouble) => tracing::warn!(
                paths = shown,
                error = trouble.words,
                "no exit image for these paths; trying again later"
            ),
        }
        self.metrics
            .wrote("images", if pushed.is_ok() { "applied" } else { "failed" });
        let effects = self.index.derived_came(paths, pushed, self.clock.now());
        self.effects(effects);
    }

    fn effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Notice(notice) => {
                    if let Some(progress) = &self.progress {
                        drop(progress.send(Progress::Told(notice.clone())));
                    }
                    self.reporter.tell(notice);
                }
                Effect::Decided(reason) => self.metrics.decided(reason),
                Effect::Written(timed) => self.metrics.written_after(timed),
                Effect::Ended(timed, ends) => {
                    self.metrics.ended_after(timed);
                    self.metrics.ended_with(&ends, timed);
                }
                Effect::Derive(paths) => self.deriver.start(paths),
                Effect::Learned(learned) => self.learned(&learned),
            }
        }
    }

    async fn drain(mut self, deadline: Duration) -> Result<(), TaskDied> {
        let all = async {
            while let Some(done) = self.writes.join_next().await {
                self.finish(done)?;
            }
            while let Some(happened) = self.restarts.drain().await? {
                self.see_restart(happened);
            }
            Ok(())
        };
        let drained = timeout(deadline, all).await.unwrap_or(Ok(()));
        self.metrics.nothing_kept();
        self.tell_progress();
        self.reporter.drain().await;
        if let Some(store) = self.verdicts.take() {
            store.drain().await;
        }
        drained
    }
}

fn index(settings: &Settings) -> Index {
    let mut index = Index::new(settings.rules.clone());
    if settings.restart.is_some() {
        index = index.with_restarts();
    }
    if settings.sidecar_policies {
        index = index.with_policies();
    }
    index
}
