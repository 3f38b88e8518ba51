//! The state of the loop, and how it handles each event.

mod events;
mod log;
mod nodes;
mod policies;
mod public;
mod reported;
mod restarts;
mod rights;
mod troubles;

use std::time::Duration;

use jiff::Timestamp;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::report::decision::Action;
use swaplet_core::report::write_error::WriteError;
use tokio::sync::{mpsc, watch as channel};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use self::log::log_outcome;
use self::public::questions;
use self::reported::Reported;
use self::rights::{note_right, right_of};
use super::settings::Settings;
use crate::cluster::verdict_store::VerdictStore;
use crate::frame::clock::{Clock, time_of_day};
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::TaskDied;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;
use crate::frame::writer::leash::Gate;
use crate::frame::writer::precedence::Precedence;
use crate::frame::writer::report::Reporter;
use crate::frame::writer::shares::Shares;
use crate::frame::writer::{Outcome, Writer};
use crate::restart::driver::Driver;
use crate::terminate::derive::{Deriver, Pushed};
use crate::terminate::index::{Effect, Index, Write};
use crate::terminate::public::Questions;
use crate::terminate::selection::{Progress, Selected, Selection};
use crate::warm::derived::Derived;

/// The pause of a loop that has nothing to wait for.
const IDLE: Duration = Duration::from_secs(3600);
/// The pause after a failed swap that concerns all pods, unless the server asks for a longer one.
const BRAKE: Duration = Duration::from_millis(250);
/// How long half as many writes are in flight after the API server has refused one. Its own
/// priority and fairness does the rest.
const HALVED: Duration = Duration::from_secs(30);
/// The longest pause that one answer can cause for all pods, even if the server asks for more.
const LONGEST_BRAKE: Duration = Duration::from_secs(30);

/// The state of the loop.
pub(super) struct Controller {
    pub(super) clock: Clock,
    pub(super) index: Index,
    pub(super) writer: Writer,
    /// Makes other writes yield to those of this loop.
    pub(super) precedence: Precedence,
    pub(super) reporter: Reporter,
    pub(super) metrics: Metrics,
    pub(super) health: Health,
    /// The most writes in flight.
    concurrency: usize,
    /// Until when half of them may be in flight, because the API server refused one.
    halved_until: Moment,
    shares: Shares,
    pub(super) writes: JoinSet<(Write, Outcome)>,
    pub(super) restarts: Driver,
    pub(super) deriver: Deriver,
    /// Whether exit images can be pulled without credentials.
    pub(super) questions: Questions,
    /// The exit images that were derived.
    pub(super) derived: channel::Sender<Derived>,
    brake: Moment,
    /// The time of day, as it was last read.
    today: Timestamp,
    verdicts: Option<VerdictStore>,
    progress: Option<mpsc::UnboundedSender<Progress>>,
    reported: Reported,
}

impl Controller {
    pub(super) fn new(
        discovery: &Discovery,
        settings: &Settings,
        gate: &Gate,
        metrics: Metrics,
        health: Health,
    ) -> Self {
        let client = discovery.client();
        let precedence = Precedence::default();
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
                precedence.clone(),
            )
            .reporting_swaps(settings.selection.is_some()),
            precedence,
            metrics,
            health,
            concurrency: settings.concurrency.max(1),
            halved_until: Moment::START,
            shares: Shares::default(),
            writes: JoinSet::new(),
            deriver: Deriver::new(settings.push.clone()),
            questions: questions(settings),
            derived: channel::Sender::default(),
            brake: Moment::START,
            today: Timestamp::UNIX_EPOCH,
            verdicts: None,
            progress: None,
            reported: Reported::default(),
        }
    }

    pub(super) fn select(&mut self, selection: Option<Selection>) {
        let Some(Selection {
            pods,
            kept,
            given,
            progress,
        }) = selection
        else {
            return;
        };
        self.index
            .nodes
            .restore_kept(kept, self.clock.now(), time_of_day());
        given.add_to(&mut self.index.policies.set);
        self.index.selected = Selected::only(&pods);
        self.progress = Some(progress);
    }

    /// Sends the progress of selected pods. A receiver that was dropped is no error.
    pub(super) fn report_progress(&mut self) {
        if let Some(progress) = &self.progress {
            self.index
                .selected
                .take_news()
                .into_iter()
                .for_each(|news| drop(progress.send(news)));
        }
    }

    pub(super) fn wake(&mut self) {
        let effects = self.index.wake(self.clock.now());
        self.effects(effects);
    }

    /// Returns when to wake up if no event comes before.
    pub(super) fn next_look(&self) -> Moment {
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

    pub(super) fn start_writes(&mut self) {
        let now = self.clock.now();
        self.claim_precedence();
        while self.brake <= now && self.writes.len() < self.places(now) {
            let Some(write) = self.next_write(now) else {
                break;
            };
            self.shares.began(&write.target.namespace);
            let writer = self.writer.clone();
            self.writes.spawn(async move {
                let outcome = writer.write(&write.target, &write.action).await;
                (write, outcome)
            });
        }
        self.claim_precedence();
        self.measure();
    }

    /// Returns how many writes may be in flight now.
    fn places(&self, now: Moment) -> usize {
        if now < self.halved_until {
            (self.concurrency / 2).max(1)
        } else {
            self.concurrency
        }
    }

    fn next_write(&mut self, now: Moment) -> Option<Write> {
        let mut effects = Vec::new();
        let write = self.shares.next(self.places(now), now, |may_begin| {
            let (write, more) = self.index.next_write_where(may_begin, now);
            effects.extend(more);
            write
        });
        self.effects(effects);
        write
    }

    /// Makes other writes yield while a write of a pod is queued or in flight.
    fn claim_precedence(&self) {
        let now = self.clock.now();
        // What waits for a namespace whose writes hang would wait for ever.
        let is_sound = |namespace: &str| !self.shares.is_suspect(namespace, now);
        self.precedence
            .swaps(self.index.has_ready(is_sound) || self.writes.len() > self.shares.suspects(now));
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

    pub(super) fn finish(
        &mut self,
        done: Result<(Write, Outcome), JoinError>,
    ) -> Result<(), TaskDied> {
        let (write, outcome) = done.map_err(|error| TaskDied(format!("a write: {error}")))?;
        log_outcome(&write.target, &outcome);
        note_right(&self.health, right_of(&write.action), &outcome);
        let now = self.clock.now();
        let namespace = &write.target.namespace;
        let concerns_all = self.shares.finished(namespace, &outcome, now);
        // A request to OpenKruise may fail because of its webhook: that is no reason to hold up other
        // pods.
        if let (Err(WriteError::Failed { retry_after, .. }), Action::Swap(_)) =
            (&outcome, &write.action)
            && (concerns_all || retry_after.is_some())
        {
            self.brake = now + retry_after.unwrap_or(BRAKE).clamp(BRAKE, LONGEST_BRAKE);
            self.halved_until = now + HALVED;
        }
        let effects = self.index.written(write, &outcome, now);
        self.effects(effects);
        Ok(())
    }

    pub(super) fn derived(&mut self, namespace: &str, paths: &[String], pushed: Pushed) {
        let shown = cut(&paths.join(", "), MESSAGE);
        match &pushed {
            Ok(reference) => {
                tracing::info!(paths = shown, %reference, "an exit image for these paths is there");
                self.derived
                    .send_if_modified(|derived| derived.insert(namespace, reference));
                self.ask_about(reference);
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

    pub(super) fn effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Notice(notice) => {
                    if let Some(progress) = &self.progress {
                        drop(progress.send(Progress::Reported(notice.clone())));
                    }
                    self.reporter.report(notice);
                }
                Effect::Decided(reason) => self.metrics.decided(reason),
                Effect::Written(timed) => self.metrics.written_after(timed),
                Effect::Ended(timed, ends) => {
                    self.metrics.ended_after(timed);
                    self.metrics.ended_with(&ends, timed);
                }
                Effect::Derive(namespace, paths) => self.deriver.start(namespace, paths),
                Effect::Learned(learned) => self.learned(&learned),
            }
        }
    }

    /// Stops the tasks, which take back what counts only while they run, then waits for the writes
    /// in flight: each for at most `deadline`.
    pub(super) async fn end(
        self,
        stop: &channel::Sender<bool>,
        deadline: Duration,
    ) -> Result<(), TaskDied> {
        stop.send_replace(true);
        let _ = timeout(deadline, stop.closed()).await;
        self.drain(deadline).await
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
        self.report_progress();
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
