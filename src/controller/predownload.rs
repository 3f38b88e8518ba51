//! Pre-download at an API server: workloads are watched, and those that ask for it are looked at, one after the other. What is to be done
//! is decided in [`decide::predownload`](crate::decide::predownload).
//!
//! Each look lists the pods and the jobs of the workload, so nothing is remembered that could be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::core::Selector;
use kube::{Api, Client};
use tokio::time::{Instant, sleep_until};

use super::list::{list_with, words};
use super::metrics::Metrics;
use super::run::{Settings, TaskDied};
use super::watch::Event;
use super::watch_many::watch_all;
use super::writer::{Outcome, Writer};
use crate::decide::predownload::{Action, JobSeen, PodSeen, decide};
use crate::objects::pull_job::JobKind;
use crate::objects::workload::{PREDOWNLOAD, Workload, WorkloadKind};

/// How often a workload is looked at that has jobs: its pods are replaced meanwhile.
const LOOK: Duration = Duration::from_secs(15);
/// After something could not be read or written.
const AGAIN: Duration = Duration::from_secs(30);

type Key = (WorkloadKind, Box<str>, Box<str>);

/// Pre-downloads; ends only with the reason why it cannot go on.
pub(super) async fn run(client: Client, settings: Settings, metrics: Metrics) -> TaskDied {
    let mut deployments = watch_all(settings.namespaces.apis::<Deployment>(&client), "");
    let mut stateful_sets = watch_all(settings.namespaces.apis::<StatefulSet>(&client), "");
    let mut predownload = Predownload {
        writer: Writer::new(client.clone(), settings.write_deadline).while_leading(settings.leadership.clone()).counted_by(metrics),
        client,
        workloads: BTreeMap::new(),
        due: BTreeMap::new(),
        unlisted: BTreeSet::new(),
        forbidden: BTreeSet::new(),
    };
    loop {
        let next = predownload.next();
        tokio::select! {
            event = deployments.recv() => {
                let Some(event) = event else { return TaskDied::of("the watch of Deployments") };
                predownload.see(WorkloadKind::Deployment, event, Workload::of_deployment);
            }
            event = stateful_sets.recv() => {
                let Some(event) = event else { return TaskDied::of("the watch of StatefulSets") };
                predownload.see(WorkloadKind::StatefulSet, event, Workload::of_stateful_set);
            }
            () = sleep_until(next.map_or_else(|| Instant::now() + AGAIN, |(at, _)| at)) => predownload.look().await,
        }
    }
}

struct Predownload {
    client: Client,
    writer: Writer,
    /// Those that ask for it, and those that have asked in vain.
    workloads: BTreeMap<Key, Workload>,
    /// When each is looked at.
    due: BTreeMap<Key, Instant>,
    /// Those that were known when a list began and were not in it so far.
    unlisted: BTreeSet<Key>,
    /// The kinds that may not be watched.
    forbidden: BTreeSet<WorkloadKind>,
}

impl Predownload {
    fn next(&self) -> Option<(Instant, &Key)> {
        self.due.iter().map(|(key, at)| (*at, key)).min()
    }

    fn see<K>(&mut self, kind: WorkloadKind, event: Event<K>, read: impl Fn(K) -> Option<Workload>) {
        match event {
            Event::ListStart => self.unlisted.extend(self.workloads.keys().filter(|key| key.0 == kind).cloned()),
            Event::Listed(object) | Event::Applied(object) => {
                if let Some(workload) = read(object) {
                    self.apply(workload);
                }
            }
            Event::ListEnd => {
                let (gone, others) = std::mem::take(&mut self.unlisted).into_iter().partition(|key| key.0 == kind);
                self.unlisted = others;
                BTreeSet::into_iter(gone).for_each(|key| self.forget(&key));
            }
            // Its jobs go with it.
            Event::Deleted(object) => {
                if let Some(workload) = read(object) {
                    self.forget(&key_of(&workload));
                }
            }
            Event::Current(_) => {}
            // Said once, not with each try.
            Event::Forbidden(_) if !self.forbidden.insert(kind) => (),
            Event::Trouble(error) | Event::Forbidden(error) | Event::Hidden(error) => {
                tracing::warn!(error, "cannot watch {}s, so their images are not pre-downloaded; trying again", kind.as_str());
            }
        }
    }

    /// A workload is looked at when something of it changes that matters here, as long as it asks for something, and once when it does so no
    /// more.
    fn apply(&mut self, workload: Workload) {
        let key = key_of(&workload);
        self.unlisted.remove(&key);
        let before = self.workloads.get(&key);
        if before == Some(&workload) {
            return;
        }
        if let Err(wrong) = &workload.wish
            && before.is_none_or(|before| before.wish != workload.wish)
        {
            tracing::warn!(namespace = %workload.namespace, "{} {}: {wrong}", workload.kind.as_str(), workload.name);
        }
        if before.is_some() || workload.wish != Ok(None) {
            self.due.insert(key.clone(), Instant::now());
            self.workloads.insert(key, workload);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.workloads.remove(key);
        self.due.remove(key);
    }

    /// Looks at the workload whose turn it is.
    async fn look(&mut self) {
        let Some((_, key)) = self.next().filter(|(at, _)| *at <= Instant::now()) else { return };
        let key = key.clone();
        self.due.remove(&key);
        let Some(workload) = self.workloads.get(&key) else { return };
        match self.work(workload).await {
            Ok(true) => drop(self.due.insert(key, Instant::now() + LOOK)),
            Ok(false) if workload.wish == Ok(None) => self.forget(&key),
            Ok(false) => (),
            Err(trouble) => {
                let (kind, name) = (workload.kind.as_str(), &workload.name);
                tracing::warn!(namespace = %workload.namespace, "cannot pre-download the images of {kind} {name}: {trouble}; trying again");
                self.due.insert(key, Instant::now() + AGAIN);
            }
        }
    }

    /// Does what is to be done for a workload. Whether it is to be looked at again before it changes.
    async fn work(&self, workload: &Workload) -> Result<bool, String> {
        let jobs = self.jobs(workload).await?;
        let Ok(actions) = decide(workload, &self.pods(workload).await?, &jobs) else { return Ok(false) };
        for action in &actions {
            let (kind, name) = (workload.kind.as_str(), &workload.name);
            match self.writer.predownload(workload, action).await {
                Outcome::Applied(_) => match action {
                    Action::Create { name: job, image, .. } => {
                        tracing::info!(namespace = %workload.namespace, %job, %image, "pre-downloading an image of {kind} {name}");
                    }
                    Action::Delete(job) => {
                        tracing::info!(namespace = %workload.namespace, job = %job.name, "{kind} {name} needs no pre-download any more");
                    }
                },
                Outcome::Conflict | Outcome::Gone => (),
                Outcome::Denied(error) | Outcome::Failed { error, .. } => return Err(error),
            }
        }
        Ok(!jobs.is_empty() || !actions.is_empty())
    }

    async fn jobs(&self, workload: &Workload) -> Result<Vec<JobSeen>, String> {
        let jobs: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &workload.namespace, &JobKind::ImagePullJob.resource());
        let read = |job: DynamicObject| Some(JobSeen { name: job.metadata.name?.into(), uid: job.metadata.uid?.into() });
        let ours = ListParams::default().labels(&format!("{PREDOWNLOAD}={}", workload.uid));
        list_with(&jobs, ours, read).await.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 404 => {
                "there are no ImagePullJobs: apply deploy/crds/imagepulljobs.yaml, or install OpenKruise".to_owned()
            }
            error => format!("cannot list its ImagePullJobs: {}", words(error)),
        })
    }

    async fn pods(&self, workload: &Workload) -> Result<Vec<PodSeen>, String> {
        let selector = Selector::try_from(workload.selector.clone()).map_err(|error| format!("spec.selector: {error}"))?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &workload.namespace);
        let label = workload.kind.revision_label();
        list_with(&pods, ListParams::default().labels_from(&selector), |pod| pod_seen(pod, label))
            .await
            .map_err(|error| format!("cannot list its pods: {}", words(&error)))
    }
}

fn key_of(workload: &Workload) -> Key {
    (workload.kind, workload.namespace.clone(), workload.name.clone())
}

/// A pod that is replaced or has ended is no reason to pull.
fn pod_seen(pod: Pod, label: &str) -> Option<PodSeen> {
    let phase = pod.status.and_then(|status| status.phase);
    if pod.metadata.deletion_timestamp.is_some() || matches!(phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let revision = pod.metadata.labels.and_then(|mut labels| labels.remove(label)).map(Into::into);
    let spec = pod.spec?;
    let containers = spec.init_containers.unwrap_or_default().into_iter().chain(spec.containers);
    Some(PodSeen { images: containers.filter_map(|container| Some((container.name.into(), container.image?.into()))).collect(), revision })
}
