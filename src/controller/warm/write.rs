//! The writes of warming: create a pod, swap the image of its container, and delete it.

mod pod;

use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, Patch as JsonPatch, PatchOperation, RemoveOperation, ReplaceOperation,
};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::Patch;
use kube::core::Request;
use serde_json::{Value, json};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::image_cache::{IMAGE_CACHES, NewImageCache, resource};
use swaplet_core::warm::pod::{BEFORE, CONTAINER, IMAGE, RUN, WarmerPod, WarmerPodWire};
use swaplet_core::warm::predownload;
use swaplet_core::warm::predownload::workload::{PREDOWNLOAD, Wish, Workload};
use swaplet_core::warm::pull_job::Status;
use swaplet_core::warm::pull_job::object::{JobKind, PodWishes, PullJob};
use swaplet_core::warm::startup_taint::{STARTUP_TAINT, Untaint};
use swaplet_core::warm::warming::{Action, Answer};

use crate::frame::clock::seconds;
use crate::frame::writer::{
    Built, ImageChange, Writer, creation, deleted, params, requests_for, test,
};
pub use pod::pod;

/// The settings that all warmer pods of a run share.
#[derive(Clone, Debug)]
pub struct Warmers {
    /// The namespace of the pods.
    pub namespace: Box<str>,
    /// The value of the label [`RUN`], and part of the pods' names: lower-case letters and digits.
    pub run: Box<str>,
    /// The image whose program the containers run.
    pub park_image: Box<str>,
    /// The namespace and the uid of the job that the pods are for, if any.
    pub job: Option<(Box<str>, Box<str>)>,
    /// The kind and the name of that job, if the pods are in its namespace. The job then owns them,
    /// so that no workload whose selector matches their labels adopts them.
    pub owner: Option<(JobKind, Box<str>)>,
    /// The requirements of the job. Secrets are named, and never read.
    pub wishes: PodWishes,
    /// The kubelet ends a pod after this many seconds, even if nothing is left to delete it.
    pub life_seconds: u64,
}

impl Writer {
    /// Makes the write for a node, within the deadline.
    pub async fn warm(&self, warmers: &Warmers, node: &str, action: &Action) -> Answer {
        let pods = requests_for::<WarmerPodWire>(&(), Some(&warmers.namespace));
        let written = self.in_time("pods", async {
            match action {
                Action::Create {
                    shape,
                    images,
                    number,
                } => {
                    let pod = pod(warmers, node, *shape, images, *number);
                    self.ask(creation(&pods, &pod), &[]).await
                }
                Action::Swap { name, from, to, .. } => {
                    let patch = Patch::Json::<()>(swap_patch(action));
                    let built = pods.patch(name, &params(), &patch);
                    self.ask(built, &[(CONTAINER, from, to)]).await
                }
                Action::Delete { name, uid } => self.delete_warmer(&pods, name, uid).await,
            }
        });
        written.await.map_err(|error| warmers.hint(node, error))
    }

    /// Deletes a pod that is no longer needed.
    ///
    /// # Errors
    /// Returns why the write was not applied.
    pub async fn delete_warmer_pod(&self, pod: &WarmerPod) -> Result<(), WriteError> {
        let pods = requests_for::<WarmerPodWire>(&(), Some(&pod.namespace));
        let written = self.delete_warmer(&pods, &pod.name, &pod.uid);
        self.in_time("pods", written).await.map(drop)
    }

    async fn delete_warmer(&self, pods: &Request, name: &str, uid: &str) -> kube::Result<Answer> {
        let built = pods.delete(name, &deleted(uid, None));
        // The pod in the answer may be gone for good by now; only the watch shows that.
        Ok(match self.send(built).await? {
            Ok(_) => Ok(None),
            // Another pod has the name, so the pod to delete is gone.
            Err(WriteError::Conflict) => Err(WriteError::Gone),
            Err(refused) => Err(refused),
        })
    }

    async fn ask(&self, built: Built, images: &[ImageChange<'_>]) -> kube::Result<Answer> {
        let pod = self.decoded::<WarmerPodWire>(built, images).await?;
        Ok(pod.map(|pod| pod.read().map(Box::new)))
    }
}

impl Warmers {
    /// Returns the label selector of the pods of this run.
    pub fn selector(&self) -> String {
        format!("{RUN}={}", self.run)
    }

    /// Adds the remedy for a missing right: pods of jobs with pull secrets are in the job's
    /// namespace.
    fn hint(&self, node: &str, error: WriteError) -> WriteError {
        match error {
            WriteError::Denied(why)
                if self.owner.is_some() && why.contains("cannot create resource") =>
            {
                WriteError::Denied(format!(
                    "{why}; jobs with pullSecrets take a RoleBinding to the ClusterRole swaplet-warm in their namespace (chart: warm.jobs.secretNamespaces)"
                ))
            }
            error => {
                tracing::debug!(node, ?error, "a write was not applied");
                error
            }
        }
    }
}

/// Returns one patch of image and annotations, which tests that pod, container and image are those
/// of the decision.
pub fn swap_patch(swap: &Action) -> JsonPatch {
    let Action::Swap {
        uid,
        index,
        from,
        to,
        before,
        ..
    } = swap
    else {
        return JsonPatch::default();
    };
    let index = index.to_string();
    let image = ["spec", "containers", &index, "image"];
    let annotation = |name: &str| PointerBuf::from_tokens(["metadata", "annotations", name]);
    let (container, value) = (["spec", "containers", &index, "name"], |text: &str| {
        Value::from(text)
    });
    JsonPatch(vec![
        test(&["metadata", "uid"], uid),
        test(&container, CONTAINER),
        test(&image, from),
        PatchOperation::Replace(ReplaceOperation {
            path: PointerBuf::from_tokens(image),
            value: value(to),
        }),
        PatchOperation::Add(AddOperation {
            path: annotation(IMAGE),
            value: value(to),
        }),
        PatchOperation::Add(AddOperation {
            path: annotation(BEFORE),
            value: value(before),
        }),
    ])
}

// The only write to nodes: the startup taint is removed.

impl Writer {
    /// Removes the startup taint from a node, and nothing else.
    ///
    /// # Errors
    /// Returns why the write was not applied, as where a webhook has put the taint back.
    pub async fn untaint(&self, untaint: &Untaint) -> Result<(), WriteError> {
        let patch = Patch::Json::<()>(untaint_patch(untaint));
        self.in_time("nodes", async {
            let built = requests_for::<Node>(&(), None).patch(&untaint.node, &params(), &patch);
            Ok(self.send(built).await?.and_then(|body| {
                let stored = serde_json::from_slice::<Value>(&body).unwrap_or_default();
                let mut taints = stored["spec"]["taints"].as_array().into_iter().flatten();
                if taints.any(|taint| taint["key"] == STARTUP_TAINT) {
                    return Err(WriteError::Denied(format!(
                        "{UNDONE}: {STARTUP_TAINT} is there"
                    )));
                }
                Ok(())
            }))
        })
        .await
    }
}

/// Returns the patch, which tests the node's uid and that the taints are still where they were
/// observed. The last one goes first, so that the others keep their indexes.
pub fn untaint_patch(untaint: &Untaint) -> JsonPatch {
    let taint = |index: &usize| ["spec".to_owned(), "taints".to_owned(), index.to_string()];
    let remove = |index: &usize| {
        let path = PointerBuf::from_tokens(taint(index));
        let [spec, taints, index] = taint(index);
        [
            test(&[&spec, &taints, &index, "key"], STARTUP_TAINT),
            PatchOperation::Remove(RemoveOperation { path }),
        ]
    };
    let operations = untaint.indexes.iter().rev().flat_map(remove);
    JsonPatch(
        std::iter::once(test(&["metadata", "uid"], &untaint.uid))
            .chain(operations)
            .collect(),
    )
}

// The writes of pull jobs: their status, their finalizers and their deletion, each for one version
// of the job.

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

// The writes of pre-download: an `ImagePullJob` is created or deleted.

impl Writer {
    /// Makes the write for a workload, within the deadline. A job that exists already is a
    /// conflict.
    pub async fn predownload(
        &self,
        workload: &Workload,
        action: &predownload::Action,
    ) -> Result<(), WriteError> {
        let kind = JobKind::ImagePullJob;
        let namespace = Some(&*workload.namespace);
        let jobs = requests_for::<BoundedObject>(&kind.resource(), namespace);
        let built = match action {
            predownload::Action::Create {
                name,
                image,
                pods,
                wish,
            } => creation(&jobs, &predownload_job(workload, name, image, pods, wish)),
            predownload::Action::Delete(job) => jobs.delete(&job.name, &deleted(&job.uid, None)),
        };
        self.sent(kind.plural(), built).await.map(drop)
    }
}

/// Returns the job. It is garbage collected with the workload, which owns it.
///
/// It has no `ttlSecondsAfterFinished`: a job that is gone would be created again as long as there
/// are old pods. And it has no `sandboxConfig` with the labels of the template, unlike
/// OpenKruise's: the pods that pull would count as pods of the workload.
pub fn predownload_job(
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

// The write of image caches: they are created, and never changed or deleted.

impl Writer {
    /// Creates an image cache. An existing one of this name is a conflict, so two requests for the
    /// same cache create one.
    pub async fn create_image_cache(&self, cache: &NewImageCache) -> Result<(), WriteError> {
        let caches = requests_for::<BoundedObject>(&resource(), None);
        let built = creation(&caches, &cache.object());
        self.sent(IMAGE_CACHES, built).await.map(drop)
    }
}
