//! The loop of pre-downloads: watches workloads, and reconciles those that request pre-download,
//! one after the other. The decisions are made in [`predownload`](swaplet_core::warm::predownload).
//!
//! Each reconcile lists the pods and the jobs of the workload, so it keeps no state that could be
//! lost.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::rules::Beside;
use crate::frame::clock::Clock;
use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::{Defects, TaskDied, isolated_task, note, read as isolated_read};
use crate::frame::list::{list_with, words};
use crate::frame::metrics::Metrics;
use crate::frame::serve::rights::Right;
use crate::frame::serve::{Health, Heartbeat};
use crate::frame::store::{self, Changes, Store};
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::served::{Served, watch_served};
use crate::frame::watch::{Event, heard};
use crate::frame::writer::report::{Notice, Reporter};
use crate::frame::writer::{Target, Writer, is_missing_right};
use crate::warm::write::predownload_job;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::ListParams;
use kube::core::Selector;
use kube::{Api, Client};
use serde_json::Value;
use swaplet_core::objects::pod::brief::PodBriefWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::predownload::workload::{
    IsWorkload, PREDOWNLOAD, Workload, WorkloadKind, WorkloadWire,
};
use swaplet_core::warm::predownload::{Action, JobSeen, PodSeen, decide, is_gate_off};
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// The interval of reconciles for a workload with jobs, because its pods are being replaced.
const LOOK: Duration = Duration::from_secs(15);
/// The wait after a read or a write failed.
const AGAIN: Duration = Duration::from_secs(60);
/// The deadline of the reads of one turn: of very many pods there are many pages, and others wait
/// meanwhile.
const READS: Duration = Duration::from_secs(60);
/// The most writes of one turn: a template may have a thousand images, and others wait meanwhile.
const A_TURN: usize = 50;
/// How long the last turn of a namespace is remembered: longer than any workload waits.
const REMEMBERED: Duration = Duration::from_secs(3600);

const fn right_to_watch(kind: WorkloadKind) -> Right {
    match kind {
        WorkloadKind::Deployment => Right::WatchDeployments,
        WorkloadKind::StatefulSet => Right::WatchStatefulSets,
        WorkloadKind::CloneSet => Right::WatchCloneSets,
    }
}

const fn right_of(action: &Action) -> Right {
    match action {
        Action::Create { .. } => Right::CreatePullJobs,
        Action::Delete(_) => Right::DeleteOwnPullJobs,
    }
}

type Key = (WorkloadKind, store::Key);

/// Runs pre-downloads; returns only with the reason why it cannot continue. `own` receives the jobs
/// that cannot be created as objects.
pub(crate) async fn run(
    beside: Beside,
    own: Option<watch::Sender<OwnJobs>>,
) -> Result<Infallible, TaskDied> {
    let (discovery, tools) = (beside.discovery, beside.tools);
    let (client, namespaces) = (discovery.client().clone(), beside.common.namespaces);
    let ages = &tools.metrics.watch_ages;
    let all = ListParams::default();
    let mut deployments =
        watch_all::<WorkloadWire<Deployment>>(namespaces.apis(&client), &all, ages);
    let mut stateful_sets =
        watch_all::<WorkloadWire<StatefulSet>>(namespaces.apis(&client), &all, ages);
    let mut clone_sets = observe_clone_sets(discovery, namespaces);
    let mut predownload = Predownload {
        clock: Clock::start(),
        reporter: tools.reporter,
        reported: BTreeMap::new(),
        own: Own::new(own),
        writer: tools.writer,
        metrics: tools.metrics,
        defects: Defects::default(),
        client,
        workloads: BTreeMap::new(),
        due: BTreeMap::new(),
        turns: BTreeMap::new(),
        heartbeat: tools.health.heartbeat("pre-downloads"),
        health: tools.health,
    };
    loop {
        predownload.heartbeat.beat();
        let next = predownload.next();
        tokio::select! {
            // All that has happened first: a reconcile takes as long as a write that hangs.
            biased;
            event = heard(&mut deployments, "Deployments") => predownload.observe(event?),
            event = heard(&mut stateful_sets, "StatefulSets") => predownload.observe(event?),
            event = heard(&mut clone_sets, "CloneSets") => predownload.observe(event?),
            () = sleep_until(next.map_or_else(|| Instant::now() + AGAIN, |(at, _)| at)) => predownload.reconcile().await,
            () = predownload.heartbeat.due() => {}
        }
    }
}

struct Predownload {
    client: Client,
    clock: Clock,
    writer: Writer,
    reporter: Reporter,
    metrics: Metrics,
    defects: Defects<Key>,
    /// The last report for each workload for which nothing can be done.
    reported: BTreeMap<Key, String>,
    own: Own,
    /// The workloads that request pre-download, or have a wrong annotation.
    workloads: BTreeMap<WorkloadKind, Store<Workload>>,
    /// When each workload is due.
    due: BTreeMap<Key, Instant>,
    /// When each namespace last had its turn.
    turns: BTreeMap<Box<str>, Instant>,
    health: Health,
    heartbeat: Heartbeat,
}

impl Predownload {
    fn next(&self) -> Option<(Instant, &Key)> {
        self.due.iter().map(|(key, at)| (*at, key)).min()
    }

    fn observe<K: IsWorkload>(&mut self, event: Event<WorkloadWire<K>>) {
        let kind = K::KIND;
        self.health.note_watch(right_to_watch(kind), "", &event);
        let read = |object: WorkloadWire<K>| {
            let workload = isolated_read(kind.as_str(), || object.read())?;
            Some(workload.0)
        };
        let workloads = self.workloads.entry(kind).or_default();
        let Changes { gone, put } = workloads.observe(event, self.clock.now(), read);
        let put = put.and_then(|(key, before)| Some((workloads.get(&key)?.0.clone(), before)));
        // Their jobs are deleted with them, because they own them.
        gone.into_iter()
            .for_each(|(key, ..)| self.leaves(&(kind, key)));
        if let Some((workload, before)) = put {
            self.apply(&workload, before.as_ref());
        }
    }

    /// Enqueues a workload if it has changed and requests pre-download, and once more when it no
    /// longer does.
    fn apply(&mut self, workload: &Workload, before: Option<&Workload>) {
        if before.is_none() && workload.wish == Ok(None) {
            self.forget(workload);
        } else if before != Some(workload) {
            self.due.insert(key_of(workload), Instant::now());
            if let Err(wrong) = &workload.wish {
                self.report_failure(workload, wrong.clone());
            }
        }
    }

    fn forget(&mut self, workload: &Workload) {
        let (kind, key) = key_of(workload);
        self.workloads.entry(kind).or_default().forget(&key);
        self.leaves(&(kind, key));
    }

    fn leaves(&mut self, key: &Key) {
        self.due.remove(key);
        self.reported.remove(key);
        self.own.set(key, Vec::new());
    }

    /// Returns the workload that has its turn, if one is due. The namespace that has waited longest
    /// comes first: one whose writes hang costs the others one of them each time.
    fn take_turn(&mut self) -> Option<Key> {
        let now = Instant::now();
        self.turns.retain(|_, last| now < *last + REMEMBERED);
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let first = due.min_by_key(|(key, at)| (self.turns.get(&key.1.0).copied(), **at));
        let key = first?.0.clone();
        self.turns.insert(key.1.0.clone(), now);
        Some(key)
    }

    /// Reconciles the workload that has its turn, if one is due.
    async fn reconcile(&mut self) {
        let Some(key) = self.take_turn() else {
            return;
        };
        self.due.remove(&key);
        let workloads = self.workloads.get(&key.0);
        let Some((workload, ())) = workloads.and_then(|all| all.get(&key.1)) else {
            return;
        };
        let workload = workload.clone();
        let done = isolated_task(&workload.name, self.work(&workload))
            .await
            .unwrap_or_else(|defect| Err(Trouble::Defect(defect)));
        match done {
            Ok(true) => {
                self.reported.remove(&key);
                self.due.insert(key, Instant::now() + LOOK);
            }
            Ok(false) if workload.wish == Ok(None) => self.forget(&workload),
            Ok(false) => (),
            Err(trouble) => {
                self.due.insert(key, Instant::now() + AGAIN);
                self.report_trouble(&workload, trouble);
            }
        }
    }

    /// Reconciles a workload. Returns true if it is to be reconciled again before it changes.
    async fn work(&mut self, workload: &Workload) -> Result<bool, Trouble> {
        let reads =
            async { Ok::<_, Trouble>((self.jobs(workload).await?, self.pods(workload).await?)) };
        let late = || format!("its jobs and pods are not listed in {} s", READS.as_secs());
        let read = timeout(READS, reads).await;
        let (jobs, pods) = read.unwrap_or_else(|_| Err(Trouble::Passing(late())))?;
        let Ok(actions) = decide(workload, &pods, &jobs) else {
            return Ok(false);
        };
        let (mut own, mut writes) = (Vec::new(), 0);
        let (mut refused, mut denied, mut taken) = (None, None, None);
        for action in &actions {
            // The gates are the same for all images.
            if refused.is_some()
                && let Some(job) = object(workload, action)
            {
                own.push(job);
                continue;
            }
            if writes == A_TURN {
                continue;
            }
            writes += 1;
            self.heartbeat.beat();
            let outcome = self.writer.predownload(workload, action).await;
            self.health
                .note_write(right_of(action), &workload.namespace, &outcome);
            match outcome {
                Ok(()) => self.report_applied(workload, action),
                Err(WriteError::Conflict) => taken = taken.or(action.created()),
                Err(WriteError::Gone) => (),
                Err(WriteError::Denied(words)) if is_gate_off(&words) => {
                    own.extend(object(workload, action));
                    refused = Some(words);
                }
                Err(WriteError::Denied(words)) => {
                    denied = denied.or(Some(Trouble::denied(action, words)));
                }
                Err(WriteError::Failed { error, .. }) => return Err(Trouble::Passing(error)),
            }
        }
        let refused = refused.map(|words| self.do_without_object(workload, own, &words));
        if refused.is_none() {
            self.own.set(&key_of(workload), Vec::new());
        }
        if let Some(trouble) = denied.or(refused) {
            return Err(trouble);
        }
        match taken {
            Some(name) => Err(Trouble::Lasting(format!(
                "there is another ImagePullJob {name}, which has not the label {PREDOWNLOAD} of this workload: delete it"
            ))),
            None => Ok(!jobs.is_empty() || !actions.is_empty()),
        }
    }

    /// Hands the jobs to the loop of jobs. Each reconcile tries to create the objects again.
    fn do_without_object(&mut self, workload: &Workload, jobs: Vec<Value>, words: &str) -> Trouble {
        if self.own.doer.is_none() {
            return Trouble::Lasting(format!(
                "{words}: switch that gate on in OpenKruise's manager, or run swaplet with --warm, which then pulls by itself"
            ));
        }
        let images = jobs.iter().filter_map(|job| job["spec"]["image"].as_str());
        let images = images.collect::<Vec<_>>().join(", ");
        self.own.set(&key_of(workload), jobs);
        Trouble::NoObject(format!(
            "{images} is pulled to the nodes of the old pods by swaplet without an ImagePullJob, because {words}"
        ))
    }

    async fn jobs(&self, workload: &Workload) -> Result<Vec<JobSeen>, Trouble> {
        let jobs: Api<BoundedObject> = Api::namespaced_with(
            self.client.clone(),
            &workload.namespace,
            &JobKind::ImagePullJob.resource(),
        );
        let read = |job: BoundedObject| {
            Some(JobSeen {
                name: job.metadata.name?.into(),
                uid: job.metadata.uid?.into(),
                deleting: job.metadata.deletion_timestamp.is_some(),
            })
        };
        let ours = ListParams::default().labels(&format!("{PREDOWNLOAD}={}", workload.uid));
        let jobs = list_with(&jobs, ours, read).await.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 404 => {
                Trouble::Lasting("there are no ImagePullJobs: apply deploy/crds/imagepulljobs.yaml, or install OpenKruise".to_owned())
            }
            error => Trouble::of(Right::ListPullJobs, "cannot list its ImagePullJobs", error),
        })?;
        self.health.has_in(Right::ListPullJobs, &workload.namespace);
        Ok(jobs)
    }

    async fn pods(&self, workload: &Workload) -> Result<Vec<PodSeen>, Trouble> {
        let selector = workload.selector.clone().map_err(Trouble::Lasting)?;
        let selector = Selector::try_from(selector)
            .map_err(|error| Trouble::Lasting(format!("spec.selector: {error}")))?;
        let pods: Api<PodBriefWire> = Api::namespaced(self.client.clone(), &workload.namespace);
        let label = workload.kind.revision_label();
        let pods = list_with(&pods, ListParams::default().labels_from(&selector), |pod| {
            PodSeen::of(pod.read()?, label)
        })
        .await
        .map_err(|error| Trouble::of(Right::ListPodsOfWorkloads, "cannot list its pods", &error))?;
        self.health
            .has_in(Right::ListPodsOfWorkloads, &workload.namespace);
        Ok(pods)
    }
}

/// Returns the job that cannot be created; `None` for a deletion.
fn object(workload: &Workload, action: &Action) -> Option<Value> {
    let Action::Create {
        name,
        image,
        pods,
        wish,
    } = action
    else {
        return None;
    };
    let mut job = predownload_job(workload, name, image, pods, wish);
    job["metadata"]["uid"] = Value::from(&*workload.uid);
    Some(job)
}

fn key_of(workload: &Workload) -> Key {
    let key = (workload.namespace.clone(), workload.name.clone());
    (workload.kind, key)
}

// Pre-downloads for which no job can be created. OpenKruise's webhook rejects an `ImagePullJob`
// while its gates are off, although nothing of OpenKruise would process it. Then the loop of jobs
// does the same without an object. These jobs are kept in memory alone: after a restart they are
// requested again, and images that are on the nodes are not pulled again.

/// The present jobs without an object.
pub type OwnJobs = Arc<Vec<PullJob>>;

/// The jobs without an object of each workload, and the channel to the loop that runs them.
pub(crate) struct Own {
    /// The channel; `None` if no loop can run them.
    doer: Option<watch::Sender<OwnJobs>>,
    jobs: BTreeMap<Key, Vec<PullJob>>,
}

impl Own {
    pub const fn new(doer: Option<watch::Sender<OwnJobs>>) -> Self {
        Self {
            doer,
            jobs: BTreeMap::new(),
        }
    }

    /// Sets the jobs of a workload, given as objects. A job that is known already stays as it is.
    pub fn set(&mut self, key: &Key, wanted: Vec<Value>) {
        let known = self.jobs.remove(key).unwrap_or_default();
        let jobs = wanted.into_iter().filter_map(without_object);
        let stays = |job: PullJob| {
            known
                .iter()
                .find(|known| known.uid == job.uid)
                .cloned()
                .unwrap_or(job)
        };
        let jobs: Vec<_> = jobs.map(stays).collect();
        let is_news = known != jobs;
        if !jobs.is_empty() {
            self.jobs.insert(key.clone(), jobs);
        }
        if let Some(doer) = self.doer.as_ref().filter(|_| is_news) {
            doer.send_replace(Arc::new(self.jobs.values().flatten().cloned().collect()));
        }
    }
}

/// Returns the job for the loop of jobs. No object can have a name with a space.
fn without_object(object: Value) -> Option<PullJob> {
    let mut job = PullJob::read(JobKind::ImagePullJob, serde_json::from_value(object).ok()?)?;
    job.uid = format!(
        "pre-download-{}",
        short_digest(format!("{} {}", job.uid, job.name), 5)
    )
    .into();
    job.name = format!("pre-download {}", job.name).into();
    // It needs no `startTime` in a status before it begins.
    job.started_at = Some(Timestamp::UNIX_EPOCH);
    Some(job)
}

// The reasons why nothing could be done for a workload, and how they are reported.

/// The reason why nothing could be done for a workload; it is retried in any case.
enum Trouble {
    /// Lasts until somebody fixes it, so it is reported on the workload.
    Lasting(String),
    /// No job can be created, and the images are pulled without one; reported as well.
    NoObject(String),
    /// A job that is no longer needed cannot be deleted; reported as well.
    Stays(String),
    /// A right is missing; with the API server's message.
    Forbidden(Right, String),
    /// May be over at the next try, so it is only logged.
    Passing(String),
    /// The decision has panicked, with this message.
    Defect(String),
}

impl Trouble {
    fn denied(action: &Action, words: String) -> Self {
        match action {
            Action::Create { .. } => Self::Lasting(words),
            Action::Delete(job) => Self::Stays(format!(
                "ImagePullJob {} cannot be deleted: {words}",
                job.name
            )),
        }
    }

    fn of(right: Right, what: &str, error: &kube::Error) -> Self {
        let words = words(error);
        if is_missing_right(&words) {
            Self::Forbidden(right, words)
        } else {
            Self::Passing(format!("{what}: {words}"))
        }
    }
}

impl Predownload {
    fn report_trouble(&mut self, workload: &Workload, trouble: Trouble) {
        let (kind, name) = (workload.kind.as_str(), &workload.name);
        match trouble {
            Trouble::Lasting(why) => self.report_failure(workload, why),
            Trouble::NoObject(how) => self.report_once(workload, Reason::CreatedImagePullJob, how),
            Trouble::Stays(why) => self.report_once(workload, Reason::WriteDenied, why),
            Trouble::Forbidden(right, words) => {
                self.health.note_denial(right, &workload.namespace, &words)
            }
            Trouble::Passing(error) => {
                tracing::warn!(namespace = %workload.namespace, "cannot pre-download the images of {kind} {name}: {error}; trying again");
            }
            Trouble::Defect(defect) => {
                self.metrics.decisions_failed(1);
                let again = self.defects.meet(key_of(workload), self.clock.now());
                self.due.insert(key_of(workload), self.clock.instant(again));
                self.report_once(workload, Reason::DecisionFailed, note(kind, &defect));
            }
        }
    }

    fn report_failure(&mut self, workload: &Workload, why: String) {
        self.report_once(workload, Reason::FailedCreateImagePullJob, why);
    }

    /// Reports a reason, unless it was the last one reported for the workload.
    fn report_once(&mut self, workload: &Workload, reason: Reason, why: String) {
        let before = self.reported.insert(key_of(workload), why.clone());
        if before.as_ref() != Some(&why) {
            self.report(workload, reason, why);
        }
    }

    fn report(&self, workload: &Workload, reason: Reason, note: String) {
        self.reporter.report(Notice {
            target: Target::of_workload(workload),
            report: Report::new(reason, note),
        });
    }

    fn report_applied(&self, workload: &Workload, action: &Action) {
        match action {
            Action::Create { name, image, .. } => {
                let note = format!(
                    "{image} is pulled to the nodes of the old pods, by ImagePullJob {name}"
                );
                self.report(workload, Reason::CreatedImagePullJob, note);
            }
            Action::Delete(job) => {
                let (kind, name) = (workload.kind.as_str(), &workload.name);
                tracing::info!(namespace = %workload.namespace, job = %job.name, "{kind} {name} no longer needs a pre-download");
            }
        }
    }
}

// A watch of OpenKruise's CloneSets, while the API server serves them.

/// Starts the watch, in some namespaces or in all; until CloneSets are served no event comes. The
/// stream ends only when the receiver is dropped, or a watch has died.
fn observe_clone_sets(
    discovery: Discovery,
    namespaces: Namespaces,
) -> mpsc::Receiver<Event<WorkloadWire<BoundedObject>>> {
    let served = Served {
        plural: "clonesets",
        is_ours_alone: false,
        reports_absence: false,
    };
    watch_served(discovery, served, move |discovery| {
        let sets = namespaces.dynamic_apis(discovery.client(), &WorkloadKind::clone_sets());
        watch_all(sets, &ListParams::default(), &WatchAges::default())
    })
}
