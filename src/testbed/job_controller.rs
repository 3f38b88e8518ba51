//! Runs the rules of [`super::job_rules`] against any API server. Meant for servers without a Job
//! controller of their own.
//!
//! Not implemented, see [`unsupported`]: jobs of another controller (`managedBy`: left alone), pod
//! failure and success policies and limits per index (ignored), adoption of orphans by selector.

use std::collections::HashMap;
use std::future::ready;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::job_rules::{Backoff, FINALIZER, INDEX, Plan, decide, finished};
use super::queue::Queue;
use super::reporter::Reporter;
use crate::clock::Clock;

/// How long changes of pods are collected before their job is reconciled, as in the real
/// controller.
const GATHER: Duration = Duration::from_secs(1);
/// The maximum number of steps in one sync of a job, in case a write never takes effect.
const STEPS: usize = 20;

type Key = (String, String);

struct Controller {
    client: Client,
    clock: Clock,
    reporter: Reporter,
    backoffs: HashMap<Key, Backoff>,
}

/// Reconciles jobs until it is dropped.
pub async fn run(client: Client, clock: Clock) {
    let jobs =
        watcher(Api::<Job>::all(client.clone()), watcher::Config::default()).default_backoff();
    let pods =
        watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff();
    let jobs = jobs.filter_map(|event| ready(event.ok().and_then(|event| job_key(&event))));
    let pods = pods.filter_map(|event| ready(event.ok().and_then(|event| owner_key(&event))));
    pin_mut!(jobs, pods);
    let mut queue = Queue::default();
    let reporter = Reporter::new(client.clone(), clock, "job-controller");
    let mut controller = Controller {
        client,
        clock,
        reporter,
        backoffs: HashMap::new(),
    };
    loop {
        tokio::select! {
            Some(key) = jobs.next() => queue.add(key, Duration::ZERO),
            Some(key) = pods.next() => queue.add(key, GATHER),
            key = queue.next() => controller.look(&mut queue, key).await,
        }
    }
}

fn job_key(event: &watcher::Event<Job>) -> Option<Key> {
    let job = object_of(event)?;
    Some((job.namespace()?, job.name_any()))
}

/// Returns the key of the job that controls a pod.
fn owner_key(event: &watcher::Event<Pod>) -> Option<Key> {
    let pod = object_of(event)?;
    let owner = pod
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true) && owner.kind == "Job")?;
    Some((pod.namespace()?, owner.name.clone()))
}

fn object_of<K>(event: &watcher::Event<K>) -> Option<&K> {
    match event {
        watcher::Event::Apply(object)
        | watcher::Event::InitApply(object)
        | watcher::Event::Delete(object) => Some(object),
        watcher::Event::Init | watcher::Event::InitDone => None,
    }
}

impl Controller {
    async fn look(&mut self, queue: &mut Queue<Key>, key: Key) {
        match self.sync(&key).await {
            Ok(wake) => {
                queue.succeeded(&key);
                wake.into_iter()
                    .for_each(|wake| queue.add(key.clone(), wake));
            }
            Err(_) => queue.retry(key),
        }
    }

    /// Takes a job as far as possible now; returns when to sync it again.
    async fn sync(&mut self, key: &Key) -> kube::Result<Option<Duration>> {
        for _ in 0..STEPS {
            let Some(job) = self.jobs(key).get_opt(&key.1).await? else {
                self.backoffs.remove(key);
                return self.release_orphans(key).await.map(|()| None);
            };
            if is_left_alone(&job) {
                return Ok(None);
            }
            let pods = self.pods_of(key, &job).await?;
            let plan = decide(
                &job,
                &pods,
                self.backoffs.get(key).unwrap_or(&Backoff::default()),
                self.clock.now(),
            );
            let wake = plan.wake;
            if !plan.acts() {
                return Ok(wake);
            }
            self.act(key, &job, plan).await?;
        }
        Ok(Some(GATHER))
    }

    async fn act(&mut self, key: &Key, job: &Job, plan: Plan) -> kube::Result<()> {
        for name in &plan.forget {
            self.release(key, name).await?;
        }
        for name in plan.forget.iter().chain(&plan.delete) {
            missing_is_fine(
                self.pods(key)
                    .delete(name, &DeleteParams::background())
                    .await,
            )?;
            self.normal(job, "SuccessfulDelete", &format!("Deleted pod: {name}"))
                .await;
        }
        for number in 0..plan.create {
            let mut pod = new_pod(job);
            if let Some(index) = plan.indexes.get(number) {
                give_index(&mut pod, &job.name_any(), *index);
            }
            let pod = self.pods(key).create(&PostParams::default(), &pod).await?;
            self.normal(
                job,
                "SuccessfulCreate",
                &format!("Created pod: {}", pod.name_any()),
            )
            .await;
        }
        if let Some(status) = &plan.status {
            self.write_status(key, job, status).await?;
            self.backoffs.insert(key.clone(), plan.backoff.clone());
        }
        for name in &plan.release {
            self.release(key, name).await?;
        }
        if plan.expired {
            missing_is_fine(
                self.jobs(key)
                    .delete(&key.1, &DeleteParams::foreground())
                    .await,
            )?;
        }
        Ok(())
    }

    async fn write_status(&self, key: &Key, job: &Job, status: &JobStatus) -> kube::Result<()> {
        let body = json!({"metadata": {"resourceVersion": job.resource_version()}, "status": replaced(job, status)});
        self.jobs(key)
            .patch_status(&key.1, &PatchParams::default(), &Patch::Merge(body))
            .await?;
        self.report_end(job, status).await;
        self.report_suspension(job, status).await;
        Ok(())
    }

    /// Removes the finalizers of pods whose job is gone.
    async fn release_orphans(&self, key: &Key) -> kube::Result<()> {
        let params =
            ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", key.1));
        for pod in self.pods(key).list(&params).await? {
            if pod.finalizers().iter().any(|one| one == FINALIZER) {
                self.release(key, &pod.name_any()).await?;
            }
        }
        Ok(())
    }

    /// Removes only our finalizer from a pod.
    async fn release(&self, key: &Key, name: &str) -> kube::Result<()> {
        let patch = Patch::Strategic(
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}),
        );
        missing_is_fine(
            self.pods(key)
                .patch(name, &PatchParams::default(), &patch)
                .await,
        )
    }

    async fn pods_of(&self, key: &Key, job: &Job) -> kube::Result<Vec<Pod>> {
        let uid = job.uid().unwrap_or_default();
        let params =
            ListParams::default().labels(&format!("batch.kubernetes.io/controller-uid={uid}"));
        let pods = self.pods(key).list(&params).await?.items;
        let owned = |pod: &Pod| {
            pod.owner_references()
                .iter()
                .any(|owner| owner.controller == Some(true) && owner.uid == uid)
        };
        Ok(pods.into_iter().filter(owned).collect())
    }

    async fn report_end(&self, job: &Job, status: &JobStatus) {
        let Some(end) = finished(status) else { return };
        if end.type_ == "Complete" {
            return self.normal(job, "Completed", "Job completed").await;
        }
        let (reason, message) = (
            end.reason.as_deref().unwrap_or_default(),
            end.message.as_deref().unwrap_or_default(),
        );
        self.reporter
            .report(job, ("Warning", reason), message)
            .await;
    }

    async fn report_suspension(&self, job: &Job, status: &JobStatus) {
        match (suspension(job.status.as_ref()), suspension(Some(status))) {
            (before, Some(true)) if before != Some(true) => {
                self.normal(job, "Suspended", "Job suspended").await
            }
            (Some(true), Some(false)) => self.normal(job, "Resumed", "Job resumed").await,
            _ => {}
        }
    }

    async fn normal(&self, job: &Job, reason: &str, message: &str) {
        self.reporter.report(job, ("Normal", reason), message).await;
    }

    fn jobs(&self, key: &Key) -> Api<Job> {
        Api::namespaced(self.client.clone(), &key.0)
    }

    fn pods(&self, key: &Key) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &key.0)
    }
}

fn suspension(status: Option<&JobStatus>) -> Option<bool> {
    let mut conditions = status?.conditions.iter().flatten();
    conditions
        .find(|one| one.type_ == "Suspended")
        .map(|one| one.status == "True")
}

/// Returns a merge patch that replaces the status: fields that are gone are set to null.
fn replaced(job: &Job, status: &JobStatus) -> serde_json::Value {
    let mut new = json!(status);
    let old = json!(job.status.clone().unwrap_or_default());
    for field in old
        .as_object()
        .into_iter()
        .flatten()
        .map(|(field, _)| field)
    {
        if new.get(field).is_none() {
            new[field] = serde_json::Value::Null;
        }
    }
    if let Some(uncounted) = new
        .get_mut("uncountedTerminatedPods")
        .filter(|uncounted| uncounted.is_object())
    {
        for list in ["succeeded", "failed"] {
            if uncounted.get(list).is_none() {
                uncounted[list] = serde_json::Value::Null;
            }
        }
    }
    new
}

fn missing_is_fine<T>(result: kube::Result<T>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Returns true if another controller manages the job.
pub fn is_left_alone(job: &Job) -> bool {
    let by = job
        .spec
        .as_ref()
        .and_then(|spec| spec.managed_by.as_deref());
    by.is_some_and(|by| by != OWN_NAME)
}

/// Describes in a sentence what of a job is not done as by the real controller; `None` if nothing.
pub fn unsupported(job: &Job) -> Option<String> {
    let spec = job.spec.as_ref()?;
    if is_left_alone(job) {
        let by = spec.managed_by.as_deref().unwrap_or_default();
        return Some(format!(
            "it is left alone: spec.managedBy names another controller, {by}, which is not here"
        ));
    }
    let fields = [
        ("podFailurePolicy", spec.pod_failure_policy.is_some()),
        ("successPolicy", spec.success_policy.is_some()),
        (
            "backoffLimitPerIndex",
            spec.backoff_limit_per_index.is_some(),
        ),
        ("maxFailedIndexes", spec.max_failed_indexes.is_some()),
    ];
    let passed_over: Vec<_> = fields
        .iter()
        .filter(|(_, given)| *given)
        .map(|(field, _)| format!("spec.{field}"))
        .collect();
    let these = passed_over.join(" and ");
    (!these.is_empty())
        .then(|| format!("it runs without {these}, which this Job controller does not know"))
}

/// The `managedBy` of the real controller.
const OWN_NAME: &str = "kubernetes.io/job-controller";

/// Adds the index to a pod of an Indexed Job, as the real controller does.
fn give_index(pod: &mut Pod, job: &str, index: usize) {
    let text = index.to_string();
    pod.metadata.generate_name = Some(format!("{job}-{index}-"));
    for map in [&mut pod.metadata.labels, &mut pod.metadata.annotations] {
        map.get_or_insert_default()
            .insert(INDEX.to_owned(), text.clone());
    }
    let Some(spec) = &mut pod.spec else { return };
    spec.hostname = Some(format!("{job}-{index}"));
    let from = EnvVarSource {
        field_ref: Some(ObjectFieldSelector {
            field_path: format!("metadata.labels['{INDEX}']"),
            ..ObjectFieldSelector::default()
        }),
        ..EnvVarSource::default()
    };
    let containers = spec.init_containers.iter_mut().flatten();
    for container in containers.chain(&mut spec.containers) {
        let env = container.env.get_or_insert_default();
        if !env.iter().any(|one| one.name == INDEX_ENV) {
            env.push(EnvVar {
                name: INDEX_ENV.to_owned(),
                value_from: Some(from.clone()),
                ..EnvVar::default()
            });
        }
    }
}

/// The environment variable with the index, in every container.
const INDEX_ENV: &str = "JOB_COMPLETION_INDEX";

/// Returns a new pod from the template of a job.
fn new_pod(job: &Job) -> Pod {
    let template = job
        .spec
        .as_ref()
        .map(|spec| spec.template.clone())
        .unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let mut finalizers = metadata.finalizers.unwrap_or_default();
    finalizers.push(FINALIZER.to_owned());
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", job.name_any())),
        labels: metadata.labels,
        annotations: metadata.annotations,
        finalizers: Some(finalizers),
        owner_references: job.controller_owner_ref(&()).map(|owner| {
            vec![OwnerReference {
                block_owner_deletion: Some(true),
                ..owner
            }]
        }),
        ..ObjectMeta::default()
    };
    Pod {
        metadata,
        spec: template.spec,
        status: None,
    }
}
