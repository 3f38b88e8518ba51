//! Restarts containers whose configuration has changed: watches in, requests out. The decision is
//! in [`decide::restart_on`](swaplet_core::restart::on_config); the requests are then handled like
//! all others.

pub mod disruption_budgets;
mod recording;
mod records;
mod reported;
mod requests;
mod rounds;
mod shelf;
mod state;
pub mod write;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::report::decision::Report;
use swaplet_core::restart::on_config::annotation::ReferenceKind;
use swaplet_core::restart::on_config::content::Content;
use swaplet_core::restart::on_config::pod::{ConfiguredPod, ConfiguredPodWire};
use swaplet_core::restart::request::RestartRequestWire;
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, sleep_until};

use self::records::Records;
use self::reported::Reported;
use self::rounds::Rounds;
use self::state::{Group, Object, State};
use super::observe::observe;
use crate::frame::clock::Clock;
use crate::frame::connection::discovery::Discovery;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::isolated::TaskDied;
use crate::frame::isolated::defects::Defects;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all_noted;
use crate::frame::watch::named::NamedWatches;
use crate::frame::writer::report::{Notice, Reporter};
use crate::frame::writer::tools::Tools;
use crate::frame::writer::{RETRY, Target, TargetKind, Writer};

/// The wait after a denial: an administrator has to change something.
const DENIED_RETRY: Duration = Duration::from_secs(60);
/// The longest pause of a loop that has nothing to wait for.
const IDLE: Duration = Duration::from_secs(3600);

/// The default number of seconds from a change until it is in the files of every volume: a kubelet
/// syncs a pod every 60 to 90 s (`syncFrequency` with its jitter, `pkg/kubelet/pod_workers.go`),
/// and gets the object a moment later.
pub const MOUNT_DELAY_SECONDS: u16 = 120;

/// The settings of restarts for changed configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartOnSettings {
    /// The namespace of the records.
    pub state_namespace: String,
    /// The time until a change of an object is in the files of a mounted volume.
    pub mount_delay: Duration,
}

/// Runs the loop; returns only with the reason why it cannot continue.
pub async fn run(
    discovery: Discovery,
    namespaces: Namespaces,
    settings: RestartOnSettings,
    tools: Tools,
) -> TaskDied {
    let mut run = Run::new(&discovery, namespaces, settings, tools);
    run.load().await;
    loop {
        run.reconcile().await;
        if let Err(died) = run.take().await {
            return died;
        }
    }
}

/// Returns the right to watch objects that pods name.
const fn right_to_watch(kind: ReferenceKind) -> Right {
    match kind {
        ReferenceKind::ConfigMap => Right::WatchConfigMaps,
        ReferenceKind::SecretMetadata => Right::WatchSecrets,
    }
}

struct Run {
    client: Client,
    namespaces: Namespaces,
    settings: RestartOnSettings,
    writer: Writer,
    reporter: Reporter,
    metrics: Metrics,
    health: Health,
    clock: Clock,
    state: State,
    records: Records,
    pods: Receiver<Event<ConfiguredPodWire>>,
    requests: Receiver<Event<RestartRequestWire>>,
    objects: NamedWatches<Object, Content>,
    reported: Reported,
    defects: Defects<Group>,
    rounds: Rounds,
    failures: u32,
    /// No write is tried before this time, after a failure.
    not_before: Moment,
}

impl Run {
    fn new(
        discovery: &Discovery,
        namespaces: Namespaces,
        settings: RestartOnSettings,
        tools: Tools,
    ) -> Self {
        let client = discovery.client();
        let Tools {
            writer,
            reporter,
            metrics,
            health,
        } = tools;
        Self {
            clock: Clock::start(),
            state: State::default(),
            records: Records::new(writer.clone(), &settings.state_namespace),
            pods: watch_all_noted(namespaces.apis(client), "", &metrics.watch_ages),
            requests: observe(
                discovery.clone(),
                namespaces.clone(),
                metrics.watch_ages.clone(),
                // Without the kind nothing can be restarted, so no change is looked for.
                false,
            ),
            objects: watches_of_objects(client.clone(), metrics.watch_ages.clone()),
            client: client.clone(),
            namespaces,
            settings,
            writer,
            reporter,
            metrics,
            health,
            reported: Reported::default(),
            defects: Defects::default(),
            rounds: Rounds::default(),
            failures: 0,
            not_before: Moment::START,
        }
    }

    async fn load(&mut self) {
        while let Err(error) = self.records.load().await {
            self.health
                .note_trouble(Right::ReadRecords, &self.settings.state_namespace, &error);
            sleep(self.wait_after_failure()).await;
        }
        self.health
            .has_in(Right::ReadRecords, &self.settings.state_namespace);
    }

    /// Waits for the next event, for a part of a round, or until the next pods are due.
    async fn take(&mut self) -> Result<(), TaskDied> {
        let now = self.clock.now();
        let due = if self.not_before > now {
            self.not_before
        } else {
            self.state.next_due().unwrap_or(now + IDLE)
        };
        let due = self.clock.instant(due);
        tokio::select! {
            event = self.pods.recv() => {
                let event = event.ok_or_else(|| TaskDied::of("the watch of pods with configuration"))?;
                self.note_watch(Right::WatchConfiguredPods, "", &event, "pods");
                self.state.observe_pod(event, self.clock.now());
            }
            event = self.requests.recv() => {
                let event = event.ok_or_else(|| TaskDied::of("the watch of requests for changed configuration"))?;
                self.note_watch(Right::WatchOwnRequests, "", &event, PLURAL);
                self.state.handle(event);
            }
            Some((object, event)) = self.objects.next() => {
                self.note_watch(right_to_watch(object.1.kind), &object.0, &event, object.1.kind.plural());
                self.state.observe_object(&object, event, self.clock.now());
            }
            Some(called) = self.rounds.next() => self.called(called)?,
            () = sleep_until(due) => {}
        }
        Ok(())
    }

    fn note_watch<T>(
        &self,
        right: Right,
        namespace: &str,
        event: &Event<T>,
        resource: &'static str,
    ) {
        self.health.note_watch(right, namespace, event);
        if matches!(
            event,
            Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_)
        ) {
            self.metrics.watch_trouble(resource);
        }
    }

    /// Reconciles the pods of all enqueued owners: first the observed contents are recorded, then
    /// their rounds begin, in turns.
    async fn reconcile(&mut self) {
        if let Some(objects) = self.state.objects() {
            self.objects.follow(objects);
        }
        let now = self.clock.now();
        if !self.state.is_ready() || now < self.not_before {
            return;
        }
        let fresh = self.recorded(now);
        if self.state.may_prune(now) {
            self.records
                .retain(&self.namespaces, |uid| self.state.has(uid));
            self.reported.retain(|uid| self.state.has(uid));
        }
        if let Err(error) = self.records.store().await {
            self.records_failed(&error);
            return;
        }
        self.health
            .has_in(Right::WriteRecords, &self.settings.state_namespace);
        self.failures = 0;
        for group in fresh {
            self.state.reconciled(&group, None);
            self.rounds.push(group);
        }
        for uid in self.records.take_dropped() {
            self.state.requeue(&uid, now);
        }
        self.begin_rounds();
    }

    /// Emits a report, once per pod.
    fn report(&mut self, pod: &ConfiguredPod, report: Report) {
        let reason = report.reason;
        if self.report_once(pod, report) {
            self.metrics.decided(reason);
        }
    }

    /// Emits a report, unless it was emitted about the pod recently; returns true if it is new.
    fn report_once(&mut self, pod: &ConfiguredPod, report: Report) -> bool {
        let is_new = self.reported.is_new(&pod.uid, &report);
        if is_new {
            let target = Target {
                kind: TargetKind::Pod,
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            };
            self.reporter.report(Notice { target, report });
        }
        is_new
    }
}

/// Watches single objects; of a `Secret` the API server sends only the metadata. One that cannot
/// be read is [`Content::Unclear`].
fn watches_of_objects(client: Client, ages: WatchAges) -> NamedWatches<Object, Content> {
    NamedWatches::new(
        ages,
        move |(namespace, reference): &Object, listener| match reference.kind {
            ReferenceKind::ConfigMap => {
                let maps: Api<WholeObject<ConfigMap>> = Api::namespaced(client.clone(), namespace);
                listener.watch(maps, &reference.name, |map| {
                    map.read().map_or(Content::Unclear, |map| Content::of(&map))
                })
            }
            ReferenceKind::SecretMetadata => {
                let secrets: Api<WholeObject<PartialObjectMeta<Secret>>> =
                    Api::namespaced(client.clone(), namespace);
                listener.watch(secrets, &reference.name, |secret| {
                    let version = secret.resource_version();
                    version.map_or(Content::Unclear, |version| Content::Is(version.into()))
                })
            }
        },
    )
}
