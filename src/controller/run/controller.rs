//! The state of the loop, and how it handles each event.

mod events;
mod policies;

use std::collections::HashSet;
use std::time::Duration;

use super::Settings;
use crate::cluster::nodes::{Concerned, Learned};
use crate::cluster::openkruise::News;
use crate::cluster::verdict_store::{AllKept, Found, VerdictStore, all_kept};
use crate::frame::clock::{Clock, IDLE, time_of_day};
use crate::frame::connection::UNREACHABLE;
use crate::frame::connection::discovery::Discovery;
use crate::frame::in_flight::{InFlight, Writes};
use crate::frame::metrics::{Metrics, set};
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::watch::Event;
use crate::frame::writer::leash::Gate;
use crate::frame::writer::precedence::Precedence;
use crate::frame::writer::report::Reporter;
use crate::frame::writer::{Outcome, Target, Writer, is_missing_right};
use crate::restart::driver::{Driver, Happened};
use crate::terminate::derive::{Deriver, Pushed};
use crate::terminate::index::{Effect, Index, Write};
use crate::terminate::policies::{PolicyStore, StatusWrite};
use crate::terminate::public::{FIRST, Questions};
use crate::terminate::selection::{Progress, Selected, Selection};
use crate::warm::jobs::Derived;
use jiff::Timestamp;
use kube::Client;
use swaplet_core::cluster::exit_images::Public;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::report::decision::Action;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::reconcile::Action as RestartAction;
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

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
    pub(super) writes: Writes<Write, Vec<Box<str>>>,
    pub(super) restarts: Driver,
    /// The writes of statuses of policies, each with those that were not applied.
    pub(super) reports: JoinSet<Vec<(StatusWrite, WriteError)>>,
    pub(super) deriver: Deriver,
    /// Whether exit images can be pulled without credentials.
    pub(super) questions: Questions,
    /// The exit images that were derived.
    pub(super) derived: channel::Sender<Derived>,
    brake: Moment,
    /// The time of day, as it was last read.
    today: Timestamp,
    verdicts: Option<VerdictStore>,
    /// The verdicts that others have stored.
    pub(super) found: Found,
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
                .while_leading(settings.leadership.clone(), metrics.clone()),
            reporter: Reporter::new(
                client.clone(),
                metrics.clone(),
                health.clone(),
                &settings.instance,
                precedence.clone(),
                settings.selection.is_some(),
            ),
            precedence,
            metrics,
            health,
            concurrency: settings.concurrency.max(1),
            halved_until: Moment::START,
            writes: InFlight::new(settings.concurrency, |write| &write.target.namespace),
            reports: JoinSet::new(),
            deriver: Deriver::new(settings.push.clone()),
            questions: questions(settings),
            derived: channel::Sender::default(),
            brake: Moment::START,
            today: Timestamp::UNIX_EPOCH,
            verdicts: None,
            found: mpsc::unbounded_channel().1,
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

    /// Carries out what the index has left to do besides writes, and sends the progress of selected
    /// pods. A receiver that was dropped is no error.
    pub(super) fn report_progress(&mut self) {
        self.effects();
        if let Some(progress) = &self.progress {
            let news = self.index.selected.news.drain(..);
            news.for_each(|news| drop(progress.send(news)));
        }
    }

    /// Returns when to wake up if no event comes before.
    pub(super) fn next_look(&self) -> Moment {
        let (now, index) = (self.clock.now(), &self.index);
        let is_braked = index.waiting() > 0 && self.brake > now;
        let due = index.next_due().into_iter();
        due.chain(self.restarts.next_due(now))
            .chain(index.policies.next_due(now))
            .chain(index.next_budget().filter(|at| *at > now))
            .chain(is_braked.then_some(self.brake))
            .fold(now + IDLE, Ord::min)
    }

    pub(super) fn start_writes(&mut self) {
        let now = self.clock.now();
        self.claim_precedence();
        self.writes.most = self.places(now);
        while self.brake <= now
            && let Some(write) = self
                .writes
                .turn(|may_begin| self.index.next_write_where(may_begin, now))
        {
            self.writes
                .begin(self.writer.clone(), write, |writer, write| {
                    Box::pin(writer.write(&write.target, &write.action))
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

    /// Makes other writes yield while a write of a pod is queued or in flight.
    fn claim_precedence(&self) {
        // What waits for a namespace whose writes hang would wait for ever.
        let is_sound = |namespace: &str| !self.writes.is_suspect(namespace);
        self.precedence
            .swaps(self.index.has_ready(is_sound) || self.writes.len() > self.writes.suspects());
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
        let waiting = self.index.waiting_for_headroom();
        set(&self.metrics.waiting_for_headroom, waiting);
        set(&self.metrics.waiting, self.index.waiting());
    }

    /// Handles the outcome of a write, which may concern all namespaces.
    pub(super) fn finish(&mut self, write: Write, outcome: &Outcome, concerns_all: bool) {
        log_outcome(&write.target, outcome);
        note_right(&self.health, right_of(&write.action), outcome);
        let now = self.clock.now();
        // A request to OpenKruise may fail because of its webhook: that is no reason to hold up other
        // pods.
        if let (Err(WriteError::Failed { retry_after, .. }), Action::Swap(_)) =
            (outcome, &write.action)
            && (concerns_all || retry_after.is_some())
        {
            self.brake = now + retry_after.unwrap_or(BRAKE).clamp(BRAKE, LONGEST_BRAKE);
            self.halved_until = now + HALVED;
        }
        self.index.written(write, outcome, now);
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
        self.index.derived_came(paths, pushed, self.clock.now());
    }

    fn effects(&mut self) {
        for effect in self.index.take_effects() {
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
    pub(super) async fn end(mut self, stop: &channel::Sender<bool>, deadline: Duration) {
        stop.send_replace(true);
        let _ = timeout(deadline, stop.closed()).await;
        let drained = async {
            while let Some((write, outcome, concerns_all)) = self.writes.next().await {
                self.finish(write, &outcome, concerns_all);
            }
            while let Some(happened) = self.restarts.drain().await {
                self.see_restart(happened);
            }
        };
        let _ = timeout(deadline, drained).await;
        self.metrics.nothing_kept();
        self.report_progress();
        self.reporter.drain().await;
        if let Some(store) = self.verdicts.take() {
            store.drain().await;
        }
    }
}

fn index(settings: &Settings) -> Index {
    let mut index = Index::new(settings.rules.clone());
    if settings.restart.is_some() {
        index.openkruise.require_sight();
    }
    if settings.sidecar_policies {
        let state_namespace = settings.state_namespace.as_deref();
        index.policies = PolicyStore::watched().of_installation(state_namespace);
    }
    index
}

// Events of restarts of single containers, and the steps that follow from them.

impl Controller {
    pub(in crate::run) fn see_restart(&mut self, happened: Happened) {
        self.note_rights_of_restarts(&happened);
        for notice in self
            .restarts
            .take(happened, &self.metrics, self.clock.now())
        {
            self.metrics.decided(notice.report.reason);
            self.reporter.report(notice);
        }
    }

    pub(in crate::run) fn go_on_with_restarts(&mut self) {
        self.restarts.advance(
            &mut self.index,
            &self.writer,
            &self.metrics,
            self.clock.now(),
        );
    }
}

// Log lines that are not reports.

fn log_outcome(target: &Target, outcome: &Outcome) {
    let Target {
        namespace,
        name,
        uid,
        ..
    } = target;
    match outcome {
        Ok(_) => {}
        Err(WriteError::Conflict | WriteError::Gone) => {
            tracing::debug!(%namespace, pod = %name, %uid, "the pod has changed since it was read; nothing was written");
        }
        // Reported once for all tries, by the Event `WriteDenied`.
        Err(WriteError::Denied(error)) => {
            tracing::debug!(%namespace, pod = %name, %uid, error, "the write was denied; trying again later")
        }
        Err(WriteError::Failed { error, .. }) => {
            tracing::warn!(%namespace, pod = %name, %uid, error, "the write was not applied; trying again later");
        }
    }
}

// The rights that the writes of the loop need.

const fn right_of(action: &Action) -> Right {
    match action {
        Action::Swap(_) => Right::ChangeImages,
        Action::Finish(_) => Right::WritePhases,
        Action::Recreate(_) => Right::CreateRecreateRequests,
    }
}

const fn right_of_restart(action: &RestartAction) -> Right {
    match action {
        RestartAction::Swap(..) => Right::ChangeImages,
        RestartAction::SetReadiness(_) => Right::SetUnready,
        RestartAction::Accept(_)
        | RestartAction::WriteDown(_)
        | RestartAction::Finalize(_)
        | RestartAction::NoteUnready
        | RestartAction::Release => Right::AcceptRequests,
        RestartAction::Report(_) => Right::ReportRequests,
        RestartAction::Delete => Right::DeleteRequests,
    }
}

/// Records whether the right is missing; the Event `WriteDenied` reports it on each object.
fn note_right<T>(health: &Health, right: Right, outcome: &Result<T, WriteError>) {
    match outcome {
        Ok(_) => health.has(right),
        Err(WriteError::Denied(words)) if is_missing_right(words) => {
            health.lacks(right, words);
        }
        Err(_) => {}
    }
}

// Learns whether exit images can be pulled without credentials.

/// Asks about the exit images that the administrator names, unless the answer is known.
fn questions(settings: &Settings) -> Questions {
    let exit_images = &settings.rules.exit_images;
    let mut questions = Questions::new(settings.ask_public.clone());
    let is_unknown =
        |image: &ImageReference| exit_images.is_public(image.as_str()) == Public::Unknown;
    for image in exit_images.named().filter(is_unknown) {
        questions.ask(&image);
    }
    questions
}

impl Controller {
    /// Asks about a derived exit image, unless the answer is known for its repository.
    fn ask_about(&mut self, reference: &str) {
        let is_unknown = self.index.rules().exit_images.is_public(reference) == Public::Unknown;
        if is_unknown && let Ok(image) = ImageReference::parse(reference) {
            self.questions.ask(&image);
        }
    }

    /// Waits for the first answers, for a few seconds at most.
    pub(in crate::run) async fn first_answers(&mut self) {
        let until = Instant::now() + FIRST;
        while let Ok(Some((image, public))) = timeout_at(until, self.questions.next()).await {
            self.answered(&image, public);
        }
    }

    /// Handles the answer of a registry.
    pub(in crate::run) fn answered(&mut self, image: &ImageReference, public: Public) {
        tracing::info!(%image, ?public, "whether the exit image can be pulled without credentials");
        let exit_images = &mut self.index.rules.exit_images;
        exit_images.answered_public(image, public);
        self.index.enqueue_where(|_| true);
    }
}

// Events of nodes, and the verdicts that pods have proved on them.

impl Controller {
    pub(in crate::run) fn observe_node(&mut self, event: Event<NodeWire>) {
        if !matches!(event, Event::Forbidden(_)) {
            self.metrics.count_trouble("nodes", &event);
        }
        match &event {
            Event::ListEnd => self.health.nodes_seen(),
            Event::Current(_) => self.health.has(Right::WatchNodes),
            Event::Trouble(error) | Event::Hidden(error) => {
                self.health.lacks(Right::WatchNodes, error);
                self.report_trouble(error, "cannot watch nodes; trying again");
            }
            Event::Forbidden(error) => self.nodes_forbidden(error),
            _ => {}
        }
        let change = self.index.nodes.observe(event);
        if let Some((node, problem)) = change.problem {
            tracing::warn!(node = &*node, "{problem}");
        }
        match change.concerned {
            Concerned::Nothing => {}
            Concerned::Node(name) => self.index.enqueue_where(|pod| pod.node == name),
            Concerned::All => self.index.enqueue_where(|_| true),
        }
    }

    pub(in crate::run) async fn restore_verdicts(&mut self, client: Client, namespace: &str) {
        let (health, precedence) = (self.health.clone(), self.precedence.clone());
        let (store, mut found) = VerdictStore::start(client, namespace, health, precedence).await;
        let kept = found.try_recv();
        kept.into_iter().for_each(|kept| self.verdicts_found(kept));
        (self.verdicts, self.found) = (Some(store), found);
    }

    pub(in crate::run) fn verdicts_found(&mut self, kept: AllKept) {
        self.index
            .nodes
            .restore_kept(kept, self.clock.now(), time_of_day());
        self.index.enqueue_where(|_| true);
    }

    pub(in crate::run) fn learned(&self, learned: &Learned) {
        let (node, proved, taken_for) = (&learned.node, learned.proved, learned.taken_for);
        self.metrics.learned(proved, taken_for);
        tracing::info!(%node, %proved, pod = learned.pod, %taken_for, "a pod has proved how its node treats a changed image");
        if let Some(store) = &self.verdicts {
            let (verdicts, now) = (self.index.nodes.verdicts(), self.clock.now());
            store.keep(all_kept(verdicts, now, time_of_day()));
        }
    }
}

// The troubles of watches that were logged: one that recurs with every try, or on all watches at
// once, is logged once.

/// The most missing rights that are remembered. A denial names its object, and tenants create
/// objects with ever new names.
const MOST_RIGHTS: usize = 1024;

/// The troubles that were logged.
#[derive(Debug, Default)]
struct Reported {
    /// Missing rights, with what each is needed for.
    rights: HashSet<String>,
    /// The error that the API server cannot be reached; `None` once it has answered.
    unreachable: Option<String>,
}

impl Reported {
    /// Returns the error to log for a trouble, and what fails because of it; `None` if it was logged
    /// before.
    fn news<'a>(&mut self, error: &'a str, what: &'a str) -> Option<(&'a str, &'a str)> {
        if let Some(at) = error.find(UNREACHABLE) {
            let error = &error[at..];
            let known = self.unreachable.as_deref() == Some(error);
            self.unreachable = Some(error.to_owned());
            let what = "nothing can be observed or done; trying again";
            return (!known).then_some((error, what));
        }
        if self.rights.len() >= MOST_RIGHTS {
            self.rights.clear();
        }
        let is_new = !is_missing_right(error) || self.rights.insert(format!("{what}: {error}"));
        is_new.then_some((error, what))
    }

    /// Records that the API server has answered.
    fn reached(&mut self) {
        self.unreachable = None;
    }
}

// Reports of watches that fail and rights that are missing: once in the log, and by `/readyz` for
// as long as they last.

impl Controller {
    /// Logs a trouble, but not with each try: a missing right once for each thing that it is needed
    /// for, an unreachable API server once for all.
    fn report_trouble(&mut self, error: &str, what: &str) {
        if let Some((error, what)) = self.reported.news(error, what) {
            tracing::warn!(error, "{what}");
        }
    }

    /// Records that nodes must not be read. Logged once, not with each try.
    fn nodes_forbidden(&mut self, error: &str) {
        if self.index.nodes.hide() {
            self.health.nodes_hidden(error);
            tracing::warn!(
                error,
                "cannot read nodes: each counts as Unknown unless a row of --node-classes matches its name alone"
            );
            self.index.enqueue_where(|_| true);
        }
    }

    fn note_rights_beside_openkruise(&mut self, news: &News) {
        match news {
            News::Trouble(trouble) => {
                self.report_trouble(trouble, "cannot check OpenKruise; trying again")
            }
            News::Lacks(right, words) => {
                self.health.lacks(*right, words);
                self.report_trouble(words, right.without());
            }
            News::Has(right) => self.health.has(*right),
            _ => {}
        }
    }

    fn note_rights_of_restarts(&mut self, happened: &Happened) {
        if let Happened::Request(event) = happened {
            self.health.note_hidden("requests", event);
        }
        match happened {
            Happened::Request(Event::Trouble(error) | Event::Forbidden(error)) => {
                if is_missing_right(error) {
                    self.health.lacks(Right::WatchRequests, error);
                }
                self.report_trouble(
                    error,
                    "cannot watch ContainerRecreateRequests, so nothing is restarted; trying again",
                );
            }
            Happened::Request(Event::Hidden(error)) => {
                self.report_trouble(
                    error,
                    "cannot watch ContainerRecreateRequests of a namespace, so nothing is restarted there; trying again",
                );
            }
            Happened::Request(Event::Current(_)) => self.health.has(Right::WatchRequests),
            Happened::Written(written) => {
                let right = right_of_restart(&written.0.action);
                note_right(&self.health, right, &written.1);
            }
            Happened::Pod(_, event) => {
                let what = "cannot watch pods whose containers are to be restarted; trying again";
                let error = event.trouble().into_iter();
                error.for_each(|error| self.report_trouble(error, what));
            }
            Happened::Parked(event) => {
                let what = "cannot watch pods in which containers are parked; trying again";
                let error = event.trouble().into_iter();
                error.for_each(|error| self.report_trouble(error, what));
            }
            Happened::Request(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "list: ServiceError: cannot connect to the API server a:1: no way";
    const ASK: &str = "cannot ask: cannot connect to the API server a:1: no way";

    #[test]
    fn a13_what_keeps_from_the_api_server_is_told_once_for_all_until_it_answers() {
        let mut reported = Reported::default();
        let first = reported.news(LIST, "cannot watch pods").unwrap();
        assert_eq!(first.0, "cannot connect to the API server a:1: no way");
        assert_eq!(reported.news(ASK, "cannot watch nodes"), None);
        assert_eq!(reported.news(LIST, "cannot watch pods"), None);
        let another = LIST.replace("no way", "refused");
        assert!(reported.news(&another, "cannot watch pods").is_some());
        reported.reached();
        assert!(reported.news(&another, "cannot watch pods").is_some());
    }

    #[test]
    fn a_missing_right_is_told_once_for_each_thing_and_other_troubles_always() {
        const RIGHT: &str = "pods is forbidden: User \"u\" cannot list resource";
        let mut reported = Reported::default();
        for (error, what, is_news) in [
            (RIGHT, "pods", true),
            (RIGHT, "pods", false),
            (RIGHT, "jobs", true),
            ("no answer", "pods", true),
            ("no answer", "pods", true),
        ] {
            assert_eq!(
                reported.news(error, what).is_some(),
                is_news,
                "{error} {what}"
            );
        }
    }

    #[test]
    fn missing_rights_that_name_ever_new_objects_take_bounded_memory() {
        let mut reported = Reported::default();
        for number in 0..3 * MOST_RIGHTS {
            let right = format!("pods \"p{number}\" is forbidden: User \"u\" cannot patch");
            assert!(reported.news(&right, "pods").is_some());
        }
        assert!(reported.rights.len() <= MOST_RIGHTS);
    }
}
