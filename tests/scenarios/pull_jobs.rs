//! `ImagePullJob`s and `ImageListPullJob`s on mock nodes, in virtual time.

mod both_kinds;
mod crowd;
mod exit_images;
mod image_caches;
mod image_waits;
mod nodes;
mod own;
mod parallelism;
mod shapes;
mod sharing;
mod startup_taint;
mod troubles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_controller::frame::clock::TimeOfDay;
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::pull_job::object::JobKind;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;
use swaplet_testbed::apiserver::{Recorded, Verb};
use swaplet_testbed::virtual_node::ImageOptions;

use crate::harness::Life;
use crate::warm::{Cluster, JSON, NAMESPACE, PARK, missing, watch_nodes};

pub const ONE: JobKind = JobKind::ImagePullJob;
pub const LIST: JobKind = JobKind::ImageListPullJob;

/// Mock nodes, and jobs of the namespace `default`.
pub struct Jobs {
    pub cluster: Cluster,
}

impl Jobs {
    pub async fn on(count: usize, images: &ImageOptions) -> Self {
        Self {
            cluster: Cluster::with_kubelets(count, images).await,
        }
    }

    pub fn controller(&self) -> Life {
        self.cluster.world.start_warming_controller(PARK, NAMESPACE)
    }

    fn path(kind: JobKind, name: &str) -> String {
        let path = format!(
            "/apis/apps.kruise.io/v1alpha1/namespaces/default/{}",
            kind.plural()
        );
        if name.is_empty() {
            path
        } else {
            format!("{path}/{name}")
        }
    }

    pub async fn create(&self, kind: JobKind, name: &str, spec: Value) {
        self.create_with(kind, &json!({"name": name}), spec).await;
    }

    async fn create_with(&self, kind: JobKind, metadata: &Value, mut spec: Value) {
        if spec["completionPolicy"].is_null() {
            spec["completionPolicy"] = json!({});
        }
        let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind.as_str(), "metadata": metadata, "spec": spec});
        self.cluster
            .world
            .request(Method::POST, &Self::path(kind, ""), JSON, &job)
            .await;
    }

    async fn edit(&self, kind: JobKind, name: &str, spec: &Value) {
        let patch = json!({"spec": spec});
        self.cluster
            .world
            .request(
                Method::PATCH,
                &Self::path(kind, name),
                "application/merge-patch+json",
                &patch,
            )
            .await;
    }

    async fn delete(&self, kind: JobKind, name: &str) {
        self.cluster
            .world
            .request(Method::DELETE, &Self::path(kind, name), JSON, &json!({}))
            .await;
    }

    fn find(&self, kind: JobKind, name: &str) -> Option<Arc<Value>> {
        self.cluster.world.server.peek(
            &format!("{}.apps.kruise.io", kind.plural()),
            "default",
            name,
        )
    }

    fn status(&self, kind: JobKind, name: &str) -> Value {
        self.find(kind, name)
            .unwrap_or_else(|| panic!("there is no job {name}"))["status"]
            .clone()
    }

    /// Waits until the job is completed.
    async fn completed(&self, kind: JobKind, name: &str) -> Value {
        for _ in 0..36_000 {
            let status = self.status(kind, name);
            if status["completionTime"].is_string() {
                return status;
            }
            self.cluster.world.wait(1).await;
        }
        panic!(
            "{name} is not completed in ten hours: {}",
            self.status(kind, name)
        )
    }

    async fn wait(&self, seconds: u64) {
        self.cluster.world.wait(seconds).await;
    }

    /// What the controllers have written to pods, in the order of arrival.
    fn writes(&self) -> Vec<Recorded> {
        let requests = self.cluster.world.requests().into_iter();
        requests
            .filter(|request| {
                request.resource == "pods"
                    && !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch)
            })
            .collect()
    }

    fn reports(&self) -> usize {
        self.cluster
            .world
            .requests()
            .iter()
            .filter(|request| request.subresource == "status" && request.verb == Verb::Patch)
            .count()
    }

    /// How often each image of a job was pulled by each node, as the kubelets tell in Events.
    pub fn pulls(&self) -> BTreeMap<(String, String), usize> {
        let mut pulls = BTreeMap::new();
        for event in self.cluster.world.server.peek_all("events") {
            let message = event["message"].as_str().unwrap_or_default();
            if let Some(rest) = message.strip_prefix("Successfully pulled image \"") {
                let node = event["source"]["host"]
                    .as_str()
                    .or(event["reportingInstance"].as_str())
                    .unwrap_or_default()
                    .to_owned();
                let image = rest.split('"').next().unwrap();
                if image != PARK {
                    *pulls.entry((node, image.to_owned())).or_default() += 1;
                }
            }
        }
        pulls
    }

    fn assert_no_secret_is_read(&self) {
        assert!(
            self.cluster
                .world
                .requests()
                .iter()
                .all(|request| request.resource != "secrets"),
            "secrets are not read"
        );
    }

    /// No pod is left, and nothing more is written for ten minutes.
    async fn assert_quiet(&self) {
        self.wait(60).await;
        assert_eq!(self.cluster.pods().len(), 0, "{:?}", self.cluster.pods());
        let written = self.writes().len() + self.reports();
        self.wait(600).await;
        assert_eq!(self.writes().len() + self.reports(), written);
        self.writes().iter().for_each(may_be_written);
    }
}

/// What a controller has that processes jobs, and nothing that has to be asked for.
pub fn warm_settings(namespace: &str, park_image: &str, time_of_day: TimeOfDay) -> WarmSettings {
    WarmSettings {
        namespace: namespace.into(),
        park_image: park_image.into(),
        exit_image: None,
        startup_taint_timeout: None,
        startup_taint_namespaces: BTreeSet::new(),
        longest_try: Duration::from_secs(1800),
        coexist: Coexist::default(),
        image_caches: None,
        sandbox_keys: SandboxKeys::default(),
        time_of_day,
    }
}

/// Pods of our own are made, swapped under guards, and deleted by uid.
fn may_be_written(request: &Recorded) {
    match request.verb {
        Verb::Create => assert!(
            request.body["metadata"]["labels"]["swaplet.io/pull-job"].is_string(),
            "{request:?}"
        ),
        Verb::Delete => assert!(
            request.body["preconditions"]["uid"].is_string(),
            "{request:?}"
        ),
        Verb::Patch => assert_eq!(request.body[0]["path"], "/metadata/uid", "{request:?}"),
        _ => panic!("{request:?}"),
    }
}

pub fn image(number: usize) -> String {
    format!("registry.example/app{number}:v1")
}

fn images(count: usize) -> Vec<String> {
    (0..count).map(image).collect()
}

fn counts(status: &Value) -> Vec<i64> {
    ["desired", "active", "succeeded", "failed", "skipped"]
        .map(|field| status[field].as_i64().unwrap_or(-1))
        .to_vec()
}
