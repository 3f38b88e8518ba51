//! The writes of warming: create a pod, swap the image of its container, and delete it.

pub mod image_cache;
mod pod;
pub mod predownload;
pub mod pull_job;
pub mod startup_taint;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch as JsonPatch, PatchOperation, ReplaceOperation};
use kube::api::Patch;
use kube::core::Request;
use serde_json::Value;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::{BEFORE, CONTAINER, IMAGE, RUN, WarmerPod, WarmerPodWire};
use swaplet_core::warm::pull_job::object::{JobKind, PodWishes};
use swaplet_core::warm::warming::{Action, Answer};

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
