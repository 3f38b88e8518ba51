//! `ImagePullJob`s and `ImageListPullJob`s on a real API server and kubelet.

mod crds;
mod images;
mod long;
mod shapes;
mod troubles;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use swaplet_core::warm::pull_job::object::JobKind;

use crate::controller::Controller;
use crate::crds::pull_jobs_are_served;
use crate::pods::{pod, spec};
use crate::warm::apply_manifest;
use crate::warm_images::push;
use crate::world::{World, eventually, kubectl, variable};

const ONE: JobKind = JobKind::ImagePullJob;
const LIST: JobKind = JobKind::ImageListPullJob;

/// A namespace for jobs.
pub struct Jobs {
    pub world: World,
}

impl Jobs {
    async fn new(case: &str) -> Self {
        pull_jobs_are_served().await;
        Self {
            world: World::new(case).await,
        }
    }

    /// A namespace under pod security `restricted` in which pods may be made, as `deploy/warm.yaml`
    /// has it.
    pub async fn with_pods(case: &str) -> Self {
        let jobs = Self::new(case).await;
        apply_manifest(&jobs.world, "swaplet").await;
        jobs
    }

    /// The same where the leash does not hold.
    pub async fn unleashed_with_pods(case: &str) -> Self {
        pull_jobs_are_served().await;
        let world = World::without_leash(case).await;
        apply_manifest(&world, "swaplet").await;
        Self { world }
    }

    pub async fn controller(&self) -> Controller {
        Controller::start_with(
            &self.world,
            &["--warm", "--park-image", &self.world.images.park],
        )
        .await
    }

    /// A job for the node of the cluster.
    pub async fn start(&self, kind: JobKind, name: &str, mut spec: Value) {
        spec["selector"] = json!({"names": [variable("SWAPLET_E2E_NODE")]});
        if spec["completionPolicy"].is_null() {
            spec["completionPolicy"] = json!({});
        }
        self.create(kind, name, &spec).await.unwrap();
    }

    pub async fn completed(&self, kind: JobKind, name: &str) -> Value {
        eventually(&format!("{kind:?} {name} to be completed"), || async {
            let status = self.api(kind).get(name).await.unwrap().data["status"].clone();
            status["completionTime"].is_string().then_some(status)
        })
        .await
    }

    /// The warmer pods of a job, once there are some or none.
    pub async fn has_pods(&self, some: bool) {
        let jobs = ListParams::default().labels("swaplet.io/pull-job");
        eventually(
            if some {
                "a warmer pod"
            } else {
                "the warmer pods to be gone"
            },
            || async {
                (self
                    .world
                    .api::<Pod>()
                    .list(&jobs)
                    .await
                    .unwrap()
                    .items
                    .is_empty()
                    != some)
                    .then_some(())
            },
        )
        .await;
    }

    /// Waits until the kubelet has said this of the image of a pod, or of any pod where no name is
    /// given.
    async fn pulls(&self, pod: &str, image: &str, words: &str) {
        let about = if pod.is_empty() {
            String::new()
        } else {
            format!(",involvedObject.name={pod}")
        };
        let pulled = ListParams::default().fields(&format!("reason=Pulled{about}"));
        eventually(
            &format!("the kubelet to say of {image}: {words}"),
            || async {
                let events = self.world.api::<Event>().list(&pulled).await.unwrap();
                let mut messages = events.items.into_iter().filter_map(|event| event.message);
                messages
                    .any(|message| {
                        message.contains(&format!("\"{image}\"")) && message.contains(words)
                    })
                    .then_some(())
            },
        )
        .await;
    }

    pub async fn done(self) {
        let namespace = self.world.namespace.clone();
        for name in [
            namespace.clone(),
            format!("{namespace}-nodes"),
            format!("{namespace}-startup-taint"),
            format!("{namespace}-image-caches"),
        ] {
            kubectl(&["delete", "clusterrole", "--ignore-not-found", &name]).await;
        }
        self.world.done().await;
    }

    pub fn api(&self, kind: JobKind) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.world.client.clone(),
            &self.world.namespace,
            &kind.resource(),
        )
    }

    pub async fn create(
        &self,
        kind: JobKind,
        name: &str,
        spec: &Value,
    ) -> kube::Result<DynamicObject> {
        let resource = kind.resource();
        let job = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec});
        self.api(kind)
            .create(
                &PostParams::default(),
                &serde_json::from_value(job).unwrap(),
            )
            .await
    }

    pub async fn edit(
        &self,
        kind: JobKind,
        name: &str,
        spec: &Value,
    ) -> kube::Result<DynamicObject> {
        self.api(kind)
            .patch(
                name,
                &PatchParams::default(),
                &Patch::Merge(json!({"spec": spec})),
            )
            .await
    }
}

/// As pod security `restricted` has it.
pub fn restricted(restart_policy: &str, mut containers: Vec<Value>) -> Value {
    for container in &mut containers {
        container["securityContext"] =
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    }
    let mut spec = spec(restart_policy, containers);
    spec["securityContext"] = json!({"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}});
    spec
}
