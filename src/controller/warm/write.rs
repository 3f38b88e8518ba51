//! The writes of warming: a pod is made, the image of its container is swapped, and it is deleted.

pub mod image_cache;
mod pod;
pub mod predownload;
pub mod pull_job;
pub mod startup_taint;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch as JsonPatch, PatchOperation, ReplaceOperation};
use kube::Resource as _;
use kube::api::{DeleteParams, Patch, PostParams, Preconditions};
use kube::core::Request;
use serde_json::Value;
use swaplet_core::warm::pod::{BEFORE, CONTAINER, IMAGE, RUN, WarmerPod, WarmerPodWire};
use swaplet_core::warm::pull_job::object::{JobKind, PodWishes};
use swaplet_core::warm::warming::{Action, Answer};

use crate::frame::writer::{FIELD_MANAGER, Outcome, Writer, params, test};
pub use pod::pod;

/// What all warmer pods of a run have in common.
#[derive(Clone, Debug)]
pub struct Warmers {
    /// Their namespace.
    pub namespace: Box<str>,
    /// The value of their label [`RUN`], and part of their names: lower-case letters and digits.
    pub run: Box<str>,
    /// The image whose program the containers run.
    pub park_image: Box<str>,
    /// The namespace and the uid of the job that they are for, if they are for one.
    pub job: Option<(Box<str>, Box<str>)>,
    /// The kind and the name of that job, where the pods are in its namespace: it owns them, so
    /// that no workload with a selector for their labels takes them for its own.
    pub owner: Option<(JobKind, Box<str>)>,
    /// What they have to be like. Secrets are named, and never read.
    pub wishes: PodWishes,
    /// After so many seconds the kubelet ends a pod, also where nobody is left to delete it.
    pub life_seconds: u64,
}

impl Writer {
    /// Does what was decided for a node, within the deadline.
    pub async fn warm(&self, warmers: &Warmers, node: &str, action: &Action) -> Answer {
        let written = self.in_time("pods", async {
            match action {
                Action::Create {
                    shape,
                    images,
                    number,
                } => {
                    self.create_warmer(warmers, &pod(warmers, node, *shape, images, *number))
                        .await
                }
                Action::Swap { name, .. } => self.swap_warmer(warmers, name, action).await,
                Action::Delete { name, uid } => self.delete_warmer(warmers.pods(), name, uid).await,
            }
        });
        written
            .await
            .unwrap_or_else(|outcome| warmers.hint(answer(node, outcome)))
    }

    /// Deletes a pod that nobody needs any more.
    ///
    /// # Errors
    /// [`Outcome`]
    pub async fn delete_warmer_pod(&self, pod: &WarmerPod) -> Result<(), Outcome> {
        self.in_time(
            "pods",
            self.delete_warmer(pods_of(&pod.namespace), &pod.name, &pod.uid),
        )
        .await
        .map(drop)
    }

    async fn create_warmer(
        &self,
        warmers: &Warmers,
        pod: &Value,
    ) -> kube::Result<Result<Answer, Outcome>> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let body = serde_json::to_vec(pod).map_err(kube::Error::SerdeError)?;
        self.ask(warmers.pods().create(&params, body)).await
    }

    async fn swap_warmer(
        &self,
        warmers: &Warmers,
        name: &str,
        swap: &Action,
    ) -> kube::Result<Result<Answer, Outcome>> {
        let patch = Patch::Json::<()>(swap_patch(swap));
        self.ask(warmers.pods().patch(name, &params(), &patch))
            .await
    }

    async fn delete_warmer(
        &self,
        pods: Request,
        name: &str,
        uid: &str,
    ) -> kube::Result<Result<Answer, Outcome>> {
        let preconditions = Some(Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        });
        let params = DeleteParams {
            preconditions,
            ..DeleteParams::default()
        };
        let request = pods
            .delete(name, &params)
            .map_err(kube::Error::BuildRequest)?;
        // The pod in the answer may be gone for good by now, which only the watch tells.
        Ok(match self.send(request).await? {
            Ok(_) => Ok(Answer::Done),
            // Another pod has the name: the one that was to be deleted is gone.
            Err(Outcome::Conflict) => Err(Outcome::Gone),
            Err(refused) => Err(refused),
        })
    }

    async fn ask(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<Result<Answer, Outcome>> {
        let body = match self
            .send(request.map_err(kube::Error::BuildRequest)?)
            .await?
        {
            Ok(body) => body,
            Err(refused) => return Ok(Err(refused)),
        };
        let pod: WarmerPodWire = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
        Ok(Ok(pod
            .read()
            .map_or(Answer::Done, |pod| Answer::Pod(Box::new(pod)))))
    }
}

/// What a write for a node that was not applied has come to.
pub(crate) fn answer(node: &str, outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Applied(_) => Answer::Done,
        Outcome::Conflict => Answer::Conflict,
        Outcome::Gone => Answer::Gone,
        Outcome::Denied(why) => Answer::Denied(why),
        Outcome::Failed { retry_after, error } => {
            tracing::debug!(node, error, "a write has failed");
            Answer::Failed { retry_after }
        }
    }
}

impl Warmers {
    /// The label selector of the pods of this run.
    #[must_use]
    pub fn selector(&self) -> String {
        format!("{RUN}={}", self.run)
    }

    /// Pods of jobs with pull secrets are in the namespace of the job, which has to be listed.
    fn hint(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Denied(why)
                if self.owner.is_some() && why.contains("cannot create resource") =>
            {
                Answer::Denied(format!(
                    "{why}; jobs with pullSecrets take a RoleBinding to the ClusterRole swaplet-warm in their namespace (chart: warm.jobs.secretNamespaces)"
                ))
            }
            other => other,
        }
    }

    fn pods(&self) -> Request {
        pods_of(&self.namespace)
    }
}

fn pods_of(namespace: &str) -> Request {
    Request::new(WarmerPodWire::url_path(&(), Some(namespace)))
}

/// Image and annotations in one patch, for the pod, the container and the image that the decision
/// was about.
#[must_use]
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
