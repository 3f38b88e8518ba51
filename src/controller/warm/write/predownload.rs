//! The writes of pre-download: an `ImagePullJob` is created or deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Request;
use serde_json::{Value, json};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::predownload::Action;
use swaplet_core::warm::predownload::workload::{PREDOWNLOAD, Wish, Workload};
use swaplet_core::warm::pull_job::object::JobKind;

use crate::frame::writer::{Writer, created, deleted};

impl Writer {
    /// Makes the write for a workload, within the deadline. A job that exists already is a
    /// conflict.
    pub async fn predownload(
        &self,
        workload: &Workload,
        action: &Action,
    ) -> Result<(), WriteError> {
        self.in_time(JobKind::ImagePullJob.plural(), async {
            let jobs = Request::new(<BoundedObject as kube::Resource>::url_path(
                &JobKind::ImagePullJob.resource(),
                Some(&workload.namespace),
            ));
            let built = match action {
                Action::Create {
                    name,
                    image,
                    pods,
                    wish,
                } => {
                    let job = job(workload, name, image, pods, wish);
                    jobs.create(
                        &created(),
                        serde_json::to_vec(&job).map_err(kube::Error::SerdeError)?,
                    )
                }
                Action::Delete(job) => jobs.delete(&job.name, &deleted(&job.uid, None)),
            };
            Ok(self.send(built).await?.map(drop))
        })
        .await
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
