//! The target of `swaplet explain` and `swaplet rescue`: a pod, or the pods of a Job or of a CronJob.

use std::slice;

use anyhow::{Context, anyhow, bail};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod as WholePod;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use swaplet_controller::frame::list::{list, words};
use swaplet_controller::terminate::snapshot::policies::PodPolicies;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::whole_object::WholeObject;

/// The maximum number of pods that are explained at once.
const MOST: usize = 5;

/// The target that the command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Pod(String),
    Job(String),
    /// With the names of its Jobs, once they are read.
    CronJob(String, Vec<String>),
}

impl Target {
    /// Returns true if it names the pod of this name and Job.
    pub fn has(&self, pod: &str, of_job: Option<&str>) -> bool {
        match self {
            Self::Pod(name) => name == pod,
            Self::Job(name) => of_job.is_some_and(|job| job == name),
            Self::CronJob(_, jobs) => of_job.is_some_and(|job| jobs.iter().any(|name| name == job)),
        }
    }

    /// Returns its kind and name.
    pub fn words(&self) -> String {
        let (kind, name) = self.kind_and_name();
        format!("{kind} {name}")
    }

    /// Returns it as it is written on a command line.
    pub fn argument(&self) -> String {
        let (kind, name) = self.kind_and_name();
        format!("{}/{name}", kind.to_lowercase())
    }

    fn kind_and_name(&self) -> (&'static str, &str) {
        match self {
            Self::Pod(name) => ("pod", name),
            Self::Job(name) => ("Job", name),
            Self::CronJob(name, _) => ("CronJob", name),
        }
    }

    /// Parses a target; an error says in words what is wrong.
    pub fn read(written: &str) -> Result<Self, String> {
        let (kind, name) = written.split_once('/').unwrap_or(("pod", written));
        if name.contains('/') {
            return Err("pass NAME, pod/NAME, job/NAME or cronjob/NAME".to_owned());
        }
        let target = match kind {
            "pod" | "pods" | "po" => Self::Pod(name.to_owned()),
            "job" | "jobs" | "job.batch" | "jobs.batch" => Self::Job(name.to_owned()),
            "cronjob" | "cronjobs" | "cj" | "cronjob.batch" | "cronjobs.batch" => {
                Self::CronJob(name.to_owned(), Vec::new())
            }
            _ => {
                return Err(
                    "only pods, and those of Jobs and CronJobs, count: pass NAME, pod/NAME, job/NAME or cronjob/NAME"
                        .to_owned(),
                );
            }
        };
        match name {
            "" => Err(format!("the name of a {kind} is missing")),
            _ => Ok(target),
        }
    }

    /// Reads the Jobs of the CronJobs among them; of all namespaces none can be named.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn read_jobs(
        targets: &mut [Self],
        client: &Client,
        namespace: Option<&str>,
    ) -> anyhow::Result<()> {
        for target in targets {
            if let Self::CronJob(name, jobs) = target {
                *jobs = jobs_of(client, namespace.unwrap_or_default(), name).await?;
            }
        }
        Ok(())
    }

    /// Says why none of its pods is among those that are to end.
    pub async fn missing(&self, client: &Client, namespace: &str) -> String {
        let kind = match self {
            Self::Pod(_) => ApiResource::erase::<WholePod>(&()),
            Self::Job(_) => ApiResource::erase::<Job>(&()),
            Self::CronJob(..) => ApiResource::erase::<CronJob>(&()),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        let ((_, name), what) = (self.kind_and_name(), self.words());
        let found = api.get_metadata_opt(name).await;
        match (found, self) {
            (Ok(None), _) => format!("there is no {what} in namespace {namespace}"),
            (Ok(_), Self::Pod(_)) => format!(
                "{what} restarts its containers always (restartPolicy Always), so it has no end, and nothing waits for its sidecars"
            ),
            (Ok(_), _) => format!("{what} has no pods: kubectl describe says why"),
            (Err(error), _) => format!(
                "{what} has no pods that are to end, and whether it is there cannot be read: {}",
                words(&error)
            ),
        }
    }

    /// Returns its pods, unfinished ones first, and a remark if there are more.
    ///
    /// # Errors
    /// The pods cannot be read, or there is none.
    pub(super) async fn pods(
        &mut self,
        client: &Client,
        namespace: &str,
        policies: &mut PodPolicies,
    ) -> anyhow::Result<(Vec<Pod>, Option<String>)> {
        if let Self::Pod(name) = self {
            return Ok((vec![one(client, namespace, name, policies).await?], None));
        }
        Self::read_jobs(slice::from_mut(self), client, Some(namespace)).await?;
        let what = self.words();
        let pods: Api<PodWire> = Api::namespaced(client.clone(), namespace);
        let listed = list(&pods, "", Some).await.map_err(|error| {
            anyhow!(
                "cannot list the pods of {what} in namespace {namespace}: {}",
                words(&error)
            )
        })?;
        let of_them = |pod: &Pod| self.has(&pod.name, pod.job.as_ref().map(|job| &*job.name));
        let read = |pod| policies.read_pod(pod).filter(of_them);
        let mut found: Vec<_> = listed.into_iter().filter_map(read).collect();
        if found.is_empty() {
            bail!("{}", self.missing(client, namespace).await);
        }
        found.sort_by_key(|pod| (pod.phase.is_terminal(), pod.name.clone()));
        let all = found.len();
        found.truncate(MOST);
        let remark = (all > MOST)
            .then(|| format!("{what} has {all} pods, of which {MOST} are explained: name others"));
        Ok((found, remark))
    }
}

async fn jobs_of(client: &Client, namespace: &str, cron: &str) -> anyhow::Result<Vec<String>> {
    let jobs: Api<WholeObject<Job>> = Api::namespaced(client.clone(), namespace);
    let of_it = |job: WholeObject<Job>| {
        let job = job.read()?;
        let mut owners = job.metadata.owner_references.iter().flatten();
        let is_of_it = owners.any(|owner| owner.kind == "CronJob" && owner.name == cron);
        job.metadata.name.filter(|_| is_of_it)
    };
    list(&jobs, "", of_it).await.map_err(|error| {
        anyhow!(
            "cannot list the Jobs of CronJob {namespace}/{cron}: {}",
            words(&error)
        )
    })
}

async fn one(
    client: &Client,
    namespace: &str,
    name: &str,
    policies: &mut PodPolicies,
) -> anyhow::Result<Pod> {
    let pods: Api<PodWire> = Api::namespaced(client.clone(), namespace);
    let found = match pods.get(name).await {
        // A user who may list pods, like the controller, need not be allowed to get one.
        Err(kube::Error::Api(status)) if status.code == 403 => {
            list(&pods, &format!("metadata.name={name}"), Some)
                .await
                .map(|mut listed| listed.pop())
        }
        other => other.map(Some),
    };
    let found = found.map_err(|error| anyhow!(words(&error)));
    let pod = found.and_then(|pod| pod.context("there is none"));
    pod.and_then(|pod| policies.read_pod(pod).context("it has no name or no uid"))
        .with_context(|| format!("cannot read pod {namespace}/{name}"))
}
