//! The writes of pre-download: an `ImagePullJob` is created or deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::predownload::Action;
use swaplet_core::warm::predownload::workload::{PREDOWNLOAD, Wish, Workload};
use swaplet_core::warm::pull_job::object::JobKind;

use crate::frame::writer::{Writer, creation, deleted, requests_for};

impl Writer {
    /// Makes the write for a workload, within the deadline. A job that exists already is a
    /// conflict.
    pub async fn predownload(
        &self,
        workload: &Workload,
        action: &Action,
    ) -> Result<(), WriteError> {
        let kind = JobKind::ImagePullJob;
        let namespace = Some(&*workload.namespace);
        let jobs = requests_for::<BoundedObject>(&kind.resource(), namespace);
        let built = match action {
            Action::Create {
                name,
                image,
                pods,
                wish,
            } => creation(&jobs, &job(workload, name, image, pods, wish)),
            Action::Delete(job) => jobs.delete(&job.name, &deleted(&job.uid, None)),
        };
        self.sent(kind.plural(), built).await.map(drop)
    }
}

/// Returns the job. It is garbage collected with the workload, which owns it.
///
/// It has no `ttlSecondsAfterFinished`: a job that is gone would be created again as long as there
/// are old pods. And it has no `sandboxConfig` with the labels of the template, unlike
/// OpenKruise's: the pods that pull would count as pods of the workload.
pub fn job(
    workload: &Workload,
    name: &str,
    image: &str,
    pods: &LabelSelector,
    wish: &Wish,
) -> Value {
    let resource = JobKind::ImagePullJob.resource();
    json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {
            "name": name, "namespace": workload.namespace, "labels": {PREDOWNLOAD: workload.uid},
            "ownerReferences": [{
                "apiVersion": workload.kind.api_version(), "kind": workload.kind.as_str(), "name": workload.name, "uid": workload.uid, "controller": true,
            }],
        },
        "spec": {
            "image": image, "podSelector": pods, "pullSecrets": workload.pull_secrets,
            "parallelism": wish.parallelism,
            "pullPolicy": {"timeoutSeconds": wish.timeout_seconds, "backoffLimit": 1}, "completionPolicy": {"type": "Always"},
        },
    })
}
