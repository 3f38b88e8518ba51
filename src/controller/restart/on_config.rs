//! Restarts containers whose configuration has changed: watches in, requests out. The decision is
//! in [`decide::restart_on`](swaplet_core::restart::on_config); the requests are then handled like
//! all others.

pub mod disruption_budgets;
mod records;
mod requests;
mod rounds;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use self::records::{Record, Records};
use self::rounds::Rounds;
use self::state::{Group, Object, State, Uid};
use super::driver::observe;
use crate::cluster::rules::Beside;
use crate::frame::clock::{Clock, IDLE};
use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::{Defects, TaskDied, isolated, log, note};
use crate::frame::serve::Heartbeat;
use crate::frame::serve::rights::Right;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::named::NamedWatches;
use crate::frame::watch::{Event, heard};
use crate::frame::writer::report::Notice;
use crate::frame::writer::{
    RETRY, Target, TargetKind, Tools, Writer, creation, deleted, requests_for,
};
use crate::restart::on_config::state::MOST_OBJECTS;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::on_config::annotation::{RESTART_ON, ReferenceKind};
use swaplet_core::restart::on_config::pod::{ConfiguredPod, ConfiguredPodWire};
use swaplet_core::restart::on_config::{Content, Contents, as_text};
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::restart::request::{
    RequestedPod, RestartRequest, RestartRequestWire, new_request,
};
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, sleep_until};

/// The wait after a denial: an administrator has to change something.
const DENIED_RETRY: Duration = Duration::from_secs(60);

/// The default number of seconds from a change until it is in the files of every volume: a kubelet
/// syncs a pod every 60 to 90 s (`syncFrequency` with its jitter, `pkg/kubelet/pod_workers.go`),
/// and gets the object a moment later.
pub const MOUNT_DELAY_SECONDS: u16 = 120;

/// The settings of restarts for changed configuration.
#[derive(Clone, Debug)]
pub struct RestartOnSettings {
    /// The namespace of the records.
    pub state_namespace: String,
    /// The time until a change of an object is in the files of a mounted volume.
    pub mount_delay: Duration,
    /// The park image, if there is one.
    pub park: Option<ParkImage>,
}

/// Runs the loop; returns only with the reason why it cannot continue.
pub(crate) async fn run(
    beside: Beside,
    settings: RestartOnSettings,
) -> Result<Infallible, TaskDied> {
    let namespaces = beside.common.namespaces;
    let mut run = Run::new(&beside.discovery, namespaces, settings, beside.tools);
    run.load().await;
    let mut heartbeat = run
        .tools
        .health
        .heartbeat("restarts for changed configuration");
    loop {
        heartbeat.beat();
        run.reconcile().await;
        run.take(&heartbeat).await?;
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
    tools: Tools,
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
        let ages = tools.metrics.watch_ages.clone();
        Self {
            clock: Clock::start(),
            state: State::default(),
            records: Records::new(tools.writer.clone(), &settings.state_namespace),
            pods: watch_all(namespaces.apis(client), &ListParams::default(), &ages),
            requests: observe(
                discovery.clone(),
                namespaces.clone(),
                ages.clone(),
                // Without the kind nothing can be restarted, so no change is looked for.
                false,
            ),
            objects: watches_of_objects(client.clone(), ages),
            client: client.clone(),
            namespaces,
            settings,
            tools,
            reported: Reported::default(),
            defects: Defects::default(),
            rounds: Rounds::new(),
            failures: 0,
            not_before: Moment::START,
        }
    }

    async fn load(&mut self) {
        while let Err(error) = self.records.load().await {
            self.tools.health.note_trouble(
                Right::ReadRecords,
                &self.settings.state_namespace,
                &error,
            );
            sleep(self.wait_after_failure()).await;
        }
        self.tools
            .health
            .has_in(Right::ReadRecords, &self.settings.state_namespace);
    }

    /// Waits for the next event, for a part of a round, or until the next pods are due.
    async fn take(&mut self, heartbeat: &Heartbeat) -> Result<(), TaskDied> {
        let now = self.clock.now();
        let due = if self.not_before > now {
            self.not_before
        } else {
            self.state.next_due().unwrap_or(now + IDLE)
        };
        let due = self.clock.instant(due);
        tokio::select! {
            event = heard(&mut self.pods, "pods with configuration") => {
                let event = event?;
                self.tools.note_watch(Right::WatchConfiguredPods, "", &event);
                self.state.observe_pod(event, self.clock.now());
            }
            event = heard(&mut self.requests, "requests for changed configuration") => {
                let event = event?;
                self.tools.note_watch(Right::WatchOwnRequests, "", &event);
                self.state.handle(event, self.clock.now());
            }
            Some((object, event)) = self.objects.next() => {
                self.tools.note_watch(right_to_watch(object.1.kind), &object.0, &event);
                self.state.observe_object(&object, event, self.clock.now());
            }
            Some((group, called)) = self.rounds.calls.finished() => self.called(group, called),
            () = sleep_until(due) => {}
            () = heartbeat.due() => {}
        }
        Ok(())
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
        self.tools
            .health
            .has_in(Right::WriteRecords, &self.settings.state_namespace);
        self.failures = 0;
        for group in fresh {
            self.state.reconciled(&group, None);
            self.rounds.push(group);
        }
        for uid in std::mem::take(&mut self.records.dropped) {
            self.state.requeue(&uid, now);
        }
        self.begin_rounds();
    }

    /// Emits a report, once per pod.
    fn report(&mut self, pod: &ConfiguredPod, report: Report) {
        let reason = report.reason;
        if self.report_once(pod, report) {
            self.tools.metrics.decided(reason);
        }
    }

    /// Emits a report, unless it was emitted about the pod recently; returns true if it is new.
    fn report_once(&mut self, pod: &ConfiguredPod, report: Report) -> bool {
        let is_new = self.reported.is_new(&pod.uid, &report);
        if is_new {
            let kind = TargetKind::Pod;
            let target = Target::new(kind, &pod.namespace, &pod.name, &pod.uid);
            self.tools.reporter.report(Notice { target, report });
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

// What was reported about each pod, so that it is reported once.

/// The maximum number of reports that are remembered per pod: the texts quote its annotation, which
/// may be changed as often as a tenant likes.
const MOST_TOLD: usize = 64;

/// The recent reports about each pod.
#[derive(Default)]
struct Reported(BTreeMap<Uid, BTreeSet<String>>);

impl Reported {
    /// Records a report about a pod. Returns true unless it was reported recently.
    fn is_new(&mut self, pod: &Uid, report: &Report) -> bool {
        let told = self.0.entry(pod.clone()).or_default();
        let text = format!("{} {}", report.reason, report.note);
        if told.contains(&text) {
            return false;
        }
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert(text)
    }

    fn retain(&mut self, is_there: impl Fn(&Uid) -> bool) {
        self.0.retain(|uid, _| is_there(uid));
    }
}

// The writes of restarts for changed configuration: creation and deletion of requests.

/// How long a container must be ready before the next pod is restarted, in seconds: most programs
/// that cannot use their configuration end sooner.
const MIN_STARTED_SECONDS: u32 = 10;
/// The deadline of a restart in seconds, whoever carries it out.
const DEADLINE_SECONDS: u32 = 900;

impl Writer {
    /// Creates a request for a pod; returns `None` if the answer cannot be decoded.
    ///
    /// # Errors
    /// Returns [`WriteError::Conflict`] if a request of this name exists.
    pub async fn ask_for_restart(
        &self,
        pod: &ConfiguredPod,
        name: &str,
        target: &Contents,
    ) -> Result<Option<RestartRequest>, WriteError> {
        let requests = requests_for::<RestartRequestWire>(&(), Some(&pod.namespace));
        let built = creation(&requests, &request(pod, name, target));
        let stored = self.sent(PLURAL, built).await?;
        let wire = serde_json::from_slice::<RestartRequestWire>(&stored).ok();
        Ok(wire.and_then(RestartRequestWire::read))
    }

    /// Deletes a request, if it still has this uid.
    ///
    /// # Errors
    /// Returns why it was not deleted.
    pub async fn forget_request(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), WriteError> {
        let requests = requests_for::<RestartRequestWire>(&(), Some(namespace));
        let built = requests.delete(name, &deleted(uid, None));
        self.sent(PLURAL, built).await.map(drop)
    }
}

fn request(pod: &ConfiguredPod, name: &str, target: &Contents) -> Value {
    let of = RequestedPod {
        namespace: &pod.namespace,
        name: &pod.name,
        uid: &pod.uid,
        node: &pod.node,
    };
    let mut request = new_request(name, of, target.keys().map(|container| &**container));
    request["metadata"]["annotations"] = json!({RESTART_ON: as_text(target)});
    request["spec"]["strategy"] = json!({"minStartedSeconds": MIN_STARTED_SECONDS});
    request["spec"]["activeDeadlineSeconds"] = DEADLINE_SECONDS.into();
    request
}

// Records what pods have observed, before anything is done for their group.

impl Run {
    /// Returns the enqueued groups whose records are up to date.
    fn recorded(&mut self, now: Moment) -> Vec<Group> {
        let mut recorded = Vec::new();
        for group in self.state.fresh(now) {
            if let Some(again) = self.defects.left_alone_until(&group, now) {
                self.state.reconciled(&group, Some(again));
                continue;
            }
            match isolated(&group.1, || self.record(&group, now)) {
                Ok(()) => recorded.push(group),
                Err(defect) => self.undecided(&group, &defect, now),
            }
        }
        recorded
    }

    /// Handles a panic: the pods of this owner are left alone for a while, and all others continue.
    fn undecided(&mut self, group: &Group, defect: &str, now: Moment) {
        let again = self.defects.meet(group.clone(), now);
        self.state.reconciled(group, Some(again));
        self.tools.metrics.decisions_failed(1);
        match self.state.first(group).cloned() {
            Some(pod) => drop(self.report_once(
                &pod,
                Report::new(Reason::DecisionFailed, note("pod", defect)),
            )),
            None => log("owner of pods", &group.0, &group.1, defect),
        }
    }

    fn record(&mut self, group: &Group, now: Moment) {
        for (pod, object) in self.state.unwatched(group) {
            let note = format!(
                "pods name more than {MOST_OBJECTS} objects, the limit of watches, and this namespace uses more than its share: \
                 nothing is restarted for {object}; name fewer objects in {RESTART_ON}"
            );
            self.report(&pod, Report::new(Reason::RestartOnInvalid, note));
        }
        let mut without_room = Vec::new();
        for member in self
            .state
            .members(group, &self.records, &self.settings, now)
        {
            if !member.standing.record.is_empty()
                && !self.records.keep(member.pod, &member.standing.record)
            {
                without_room.push(member.pod.clone());
            }
        }
        for pod in without_room {
            let note = "too many pods request restarts when objects change, and this namespace has used its share of the records: none is \
                        left for this pod, so none of its containers is restarted";
            self.report(&pod, Report::new(Reason::RestartOnInvalid, note));
        }
    }

    fn records_failed(&mut self, error: &WriteError) {
        let wait = match error {
            WriteError::Denied(_) => DENIED_RETRY,
            WriteError::Failed { retry_after, .. } => self
                .wait_after_failure()
                .max(retry_after.unwrap_or_default()),
            WriteError::Conflict | WriteError::Gone => RETRY.first,
        };
        self.not_before = self.clock.now() + wait;
        let namespace = &self.settings.state_namespace;
        match error {
            WriteError::Denied(words) => {
                self.tools
                    .health
                    .note_denial(Right::WriteRecords, namespace, words)
            }
            _ => tracing::warn!(
                namespace,
                ?error,
                "{}; trying again",
                Right::WriteRecords.without()
            ),
        }
    }

    fn wait_after_failure(&mut self) -> Duration {
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        wait
    }
}

// A bounded store of records for one `ConfigMap`, with a share for each namespace.

/// The records, by the uid of the pod.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// The maximum number of bytes in all.
    most: usize,
    kept: BTreeMap<Box<str>, Record>,
    /// The number of bytes of each namespace.
    bytes: BTreeMap<Box<str>, usize>,
    total: usize,
}

/// The result of storing a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Stored; these records were dropped, because their namespace had more than its share.
    Kept(Vec<Box<str>>),
    /// Not stored, because the namespace has used its share.
    NoRoom,
}

impl Shelf {
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            kept: BTreeMap::new(),
            bytes: BTreeMap::new(),
            total: 0,
        }
    }

    /// Returns a shelf with the stored records, whoever wrote them.
    pub fn with(most: usize, kept: impl Iterator<Item = (Box<str>, Record)>) -> Self {
        let mut shelf = Self::new(most);
        kept.for_each(|(uid, record)| shelf.insert(uid, record));
        shelf
    }

    pub fn get(&self, uid: &str) -> Option<&Record> {
        self.kept.get(uid)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Box<str>, &Record)> {
        self.kept.iter()
    }

    /// Stores a record, if there is room. Each namespace is entitled to an equal share, and may use
    /// more while no other namespace needs it.
    pub fn put(&mut self, uid: &str, record: Record) -> Put {
        let before = self.kept.get(uid).map_or(0, |before| size(uid, before));
        let size = size(uid, &record);
        let mut dropped = Vec::new();
        if self.total - before + size > self.most {
            let own = self.bytes.get(&record.namespace).copied();
            let share = self.most / (self.bytes.len() + usize::from(own.is_none()));
            if own.unwrap_or_default() - before + size > share {
                return Put::NoRoom;
            }
            while self.total - before + size > self.most {
                let Some(uid) = self.one_of_too_many(&record.namespace) else {
                    return Put::NoRoom;
                };
                self.remove(&uid);
                dropped.push(uid);
            }
        }
        self.insert(uid.into(), record);
        Put::Kept(dropped)
    }

    /// Returns a record of the namespace that has most bytes, `but` excluded.
    fn one_of_too_many(&self, but: &str) -> Option<Box<str>> {
        let (most, _) = self
            .bytes
            .iter()
            .filter(|(namespace, _)| ***namespace != *but)
            .max_by_key(|(_, bytes)| **bytes)?;
        self.kept
            .iter()
            .rev()
            .find(|(_, record)| record.namespace == *most)
            .map(|(uid, _)| uid.clone())
    }

    pub fn insert(&mut self, uid: Box<str>, record: Record) {
        self.remove(&uid);
        let size = size(&uid, &record);
        self.total += size;
        *self.bytes.entry(record.namespace.clone()).or_default() += size;
        self.kept.insert(uid, record);
    }

    pub fn remove(&mut self, uid: &str) -> Option<Record> {
        let record = self.kept.remove(uid)?;
        let size = size(uid, &record);
        self.total -= size;
        if let Some(bytes) = self.bytes.get_mut(&record.namespace) {
            *bytes -= size;
            if *bytes == 0 {
                self.bytes.remove(&record.namespace);
            }
        }
        Some(record)
    }
}

fn size(uid: &str, record: &Record) -> usize {
    uid.len() + record.text.len()
}

#[cfg(test)]
mod tests {
    use swaplet_core::report::reason::Reason;

    use super::*;

    #[test]
    fn a_report_is_new_once_and_few_are_remembered_of_a_pod() {
        let pod = Uid::from("u");
        let report = |number: usize| Report {
            reason: Reason::RestartOnInvalid,
            note: format!("annotation {number}"),
        };
        let mut reported = Reported::default();
        for number in 0..1000 {
            assert!(reported.is_new(&pod, &report(number)));
            assert!(!reported.is_new(&pod, &report(number)));
            assert!(reported.0[&pod].len() <= MOST_TOLD);
        }
        assert!(reported.is_new(&Uid::from("other"), &report(999)));
        reported.retain(|uid| *uid == pod);
        assert_eq!(reported.0.len(), 1);
    }
}

#[cfg(test)]
mod shelf_tests {
    use super::*;

    /// Of 100 bytes with its uid.
    fn record(namespace: &str) -> Record {
        Record {
            namespace: namespace.into(),
            seen: Default::default(),
            text: "x".repeat(96),
        }
    }

    fn of(shelf: &Shelf, namespace: &str) -> usize {
        shelf
            .iter()
            .filter(|(_, record)| *record.namespace == *namespace)
            .count()
    }

    #[test]
    fn a9_each_namespace_has_its_share_of_the_records_and_what_nobody_needs() {
        let mut shelf = Shelf::new(10_000);
        for number in 0..100 {
            assert_eq!(
                shelf.put(&format!("g{number:03}"), record("greedy")),
                Put::Kept(Vec::new()),
                "nobody else needs it"
            );
        }
        assert_eq!(shelf.put("g100", record("greedy")), Put::NoRoom);
        for number in 0..50 {
            let Put::Kept(dropped) = shelf.put(&format!("m{number:03}"), record("modest")) else {
                panic!("{number}")
            };
            assert_eq!(dropped.len(), 1);
        }
        assert_eq!(
            (of(&shelf, "greedy"), of(&shelf, "modest"), shelf.total),
            (50, 50, 10_000)
        );
        assert_eq!(shelf.put("m050", record("modest")), Put::NoRoom);
        assert_eq!(
            shelf.put("t", record("third")),
            Put::Kept(vec!["m049".into()])
        );
        assert_eq!(
            shelf.put("t", record("third")),
            Put::Kept(Vec::new()),
            "it is there"
        );
        (0..50).for_each(|number| drop(shelf.remove(&format!("g{number:03}"))));
        assert_eq!((shelf.bytes.len(), shelf.total), (2, 4997));
    }
}
