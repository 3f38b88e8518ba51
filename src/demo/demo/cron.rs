//! Runs the Job of each CronJob once, because the demo keeps no schedule.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use swaplet_controller::frame::watch::age::WatchAges;
use swaplet_controller::frame::watch::{Event, watch};

/// The annotation that `kubectl create job --from=cronjob/NAME` sets.
const INSTANTIATE: (&str, &str) = ("cronjob.kubernetes.io/instantiate", "manual");

/// Creates one Job for each CronJob, until it is dropped.
pub(super) async fn run(client: Client) {
    let mut cron_jobs = watch(
        Api::<CronJob>::all(client.clone()),
        ListParams::default(),
        &WatchAges::default(),
    );
    let mut known = HashSet::new();
    while let Some(event) = cron_jobs.recv().await {
        if let Event::Listed(cron_job) | Event::Applied(cron_job) = event
            && known.insert(cron_job.uid())
        {
            let namespace = cron_job.namespace().unwrap_or_default();
            let jobs: Api<Job> = Api::namespaced(client.clone(), &namespace);
            // A Job of this name exists already, from an older CronJob or from somebody else.
            let _ = jobs.create(&PostParams::default(), &job(&cron_job)).await;
        }
    }
}

fn job(cron_job: &CronJob) -> Job {
    let template = cron_job
        .spec
        .as_ref()
        .map(|spec| spec.job_template.clone())
        .unwrap_or_default();
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = Some(format!("{}-1", cron_job.name_any()));
    metadata.namespace = cron_job.namespace();
    metadata.owner_references = cron_job.controller_owner_ref(&()).map(|owner| vec![owner]);
    metadata
        .annotations
        .get_or_insert_default()
        .insert(INSTANTIATE.0.to_owned(), INSTANTIATE.1.to_owned());
    Job {
        metadata,
        spec: template.spec,
        status: None,
    }
}
