//! The writes of pull jobs: their status, their finalizers and their deletion, each for one version
//! of the job.

use jiff::Timestamp;
use kube::api::Patch;
use kube::core::Request;
use serde_json::{Value, json};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pull_job::Status;
use swaplet_core::warm::pull_job::object::PullJob;

use crate::frame::clock::seconds;
use crate::frame::writer::{Writer, deleted, params, requests_for};

/// The content of a status write.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The counts and the message.
    pub status: Status,
    /// `startTime`
    pub started_at: Timestamp,
    /// `completionTime`, if the job is over.
    pub completed_at: Option<Timestamp>,
}

impl Writer {
    /// Writes the status. Returns the job as it is stored then; `None` if the answer is no job.
    ///
    /// # Errors
    /// Returns why the write was not applied.
    pub async fn report_pull_job(
        &self,
        job: &PullJob,
        report: &Report,
    ) -> Result<Option<PullJob>, WriteError> {
        let body = json!({"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": status_of(job, report)});
        let patch = Patch::Merge(body);
        let built = jobs_with(job).patch_subresource("status", &job.name, &params(), &patch);
        let stored = self.sent(job.kind.plural(), built).await?;
        let object = serde_json::from_slice::<BoundedObject>(&stored).ok();
        Ok(object.and_then(|object| PullJob::read(job.kind, object)))
    }

    /// Removes OpenKruise's finalizer from a job that is being deleted.
    ///
    /// # Errors
    /// Returns why the write was not applied.
    pub async fn release_pull_job(&self, job: &PullJob) -> Result<(), WriteError> {
        let metadata = json!({"uid": job.uid, "resourceVersion": job.version, "finalizers": job.other_finalizers.clone().unwrap_or_default()});
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let built = jobs_with(job).patch(&job.name, &params(), &patch);
        self.sent(job.kind.plural(), built).await.map(drop)
    }

    /// Deletes a job whose time to live is over.
    ///
    /// # Errors
    /// Returns why the write was not applied.
    pub async fn delete_pull_job(&self, job: &PullJob) -> Result<(), WriteError> {
        let as_seen = deleted(&job.uid, Some(&job.version));
        let built = jobs_with(job).delete(&job.name, &as_seen);
        self.sent(job.kind.plural(), built).await.map(drop)
    }
}

fn jobs_with(job: &PullJob) -> Request {
    requests_for::<BoundedObject>(&job.kind.resource(), Some(&job.namespace))
}

/// Returns the status. For a job that starts again, a null removes the completion time.
fn status_of(job: &PullJob, report: &Report) -> Value {
    let mut status = json!(report.status);
    status["observedGeneration"] = job.generation.into();
    status["startTime"] = seconds(report.started_at).into();
    status["completionTime"] = report.completed_at.map(seconds).into();
    status
}
