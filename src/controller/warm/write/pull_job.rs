//! The writes of jobs that pull images: their status and their deletion, each of one version; and
//! the deletion of pods that no job needs.

use jiff::Timestamp;
use kube::Resource as _;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::core::Request;
use serde_json::{Value, json};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::pull_job::Status;
use swaplet_core::warm::pull_job::object::PullJob;

use crate::frame::writer::{Outcome, Writer, params};

/// What is written to the status of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The counts and the message.
    pub status: Status,
    /// `startTime`
    pub started_at: Timestamp,
    /// `completionTime`, where the job is over.
    pub completed_at: Option<Timestamp>,
}

impl Writer {
    /// Writes the status; the job as it is stored then, or nothing where the answer is no job.
    ///
    /// # Errors
    /// [`Outcome`]
    pub async fn report_pull_job(
        &self,
        job: &PullJob,
        report: &Report,
    ) -> Result<Option<PullJob>, Outcome> {
        let body = json!({"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": status_of(job, report)});
        self.in_time(job.kind.plural(), async {
            let built = requests(job).patch_subresource(
                "status",
                &job.name,
                &params(),
                &Patch::Merge(body),
            );
            let stored = self.send(built.map_err(kube::Error::BuildRequest)?).await?;
            Ok(stored.map(|body| {
                serde_json::from_slice::<BoundedObject>(&body)
                    .ok()
                    .and_then(|object| PullJob::read(job.kind, object))
            }))
        })
        .await
    }

    /// Takes OpenKruise's finalizer from a job that is being deleted.
    ///
    /// # Errors
    /// [`Outcome`]
    pub async fn release_pull_job(&self, job: &PullJob) -> Result<(), Outcome> {
        let metadata = json!({"uid": job.uid, "resourceVersion": job.version, "finalizers": job.other_finalizers.clone().unwrap_or_default()});
        self.in_time(job.kind.plural(), async {
            let built = requests(job).patch(
                &job.name,
                &params(),
                &Patch::Merge(json!({"metadata": metadata})),
            );
            Ok(self
                .send(built.map_err(kube::Error::BuildRequest)?)
                .await?
                .map(drop))
        })
        .await
    }

    /// Deletes a job whose time is over.
    ///
    /// # Errors
    /// [`Outcome`]
    pub async fn delete_pull_job(&self, job: &PullJob) -> Result<(), Outcome> {
        let preconditions = Preconditions {
            uid: Some(job.uid.to_string()),
            resource_version: Some(job.version.to_string()),
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        self.in_time(job.kind.plural(), async {
            let built = requests(job)
                .delete(&job.name, &params)
                .map_err(kube::Error::BuildRequest)?;
            Ok(self.send(built).await?.map(drop))
        })
        .await
    }
}

fn requests(job: &PullJob) -> Request {
    Request::new(BoundedObject::url_path(
        &job.kind.resource(),
        Some(&job.namespace),
    ))
}

/// A job that begins anew has no completion time any more: null takes it away.
fn status_of(job: &PullJob, report: &Report) -> Value {
    let time = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut status = json!(report.status);
    status["observedGeneration"] = job.generation.into();
    status["startTime"] = time(report.started_at).into();
    status["completionTime"] = report.completed_at.map(time).into();
    status
}
