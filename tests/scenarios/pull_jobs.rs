//! `ImagePullJob`s and `ImageListPullJob`s on mock nodes, in virtual time.

mod crowd;
mod exit_images;
mod image_caches;
mod image_waits;
mod nodes;
mod own;
mod pins;
mod shapes;
mod sharing;
mod startup_taint;
mod troubles;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_controller::warm::resolve::Resolve;
use swaplet_core::warm::pull_job::object::JobKind;
use swaplet_testbed::apiserver::{Recorded, Verb};
use swaplet_testbed::virtual_node::ImageOptions;

use crate::harness::Life;
use crate::warm::{CROWD, Cluster, JSON, NAMESPACE, PARK, missing, watch_nodes};

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

/// For whom no tag is to be pinned.
pub fn no_registry() -> Resolve {
    Resolve::by(|image| async move { panic!("nobody is asked for {image}") })
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

#[tokio::test(start_paused = true)]
async fn ipj_e4_an_always_job_on_all_nodes() {
    let jobs = Jobs::on(3, &ImageOptions::default()).await;
    let life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0), "parallelism": 10, "completionPolicy": {"ttlSecondsAfterFinished": 20}})).await;
    let status = jobs.completed(ONE, "j").await;
    let pulled = life.sample("swaplet_image_pull_seconds_sum").unwrap();
    assert!(
        life.sample("swaplet_image_pull_seconds_count") == Some(3.0)
            && (0.89..0.91).contains(&pulled),
        "{pulled}"
    );
    assert_eq!(
        (counts(&status), &status["message"]),
        (vec![3, 0, 3, 0, 0], &json!("job has completed"))
    );
    assert!(
        status["startTime"].is_string() && status["failedNodes"] == json!([]),
        "{status}"
    );
    assert_eq!(
        status["pulls"],
        json!({"nodes": 3, "bytes": 4096, "slowest": "0.300s", "slowestNode": "n0"})
    );
    assert_eq!(jobs.pulls().len(), 3, "each node has pulled it once");
    jobs.wait(15).await;
    assert!(jobs.find(ONE, "j").is_some());
    jobs.wait(15).await;
    assert!(jobs.find(ONE, "j").is_none(), "its time is over");
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn ipj_e5_an_always_job_on_one_node() {
    let jobs = Jobs::on(3, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "j",
        json!({"image": image(0), "selector": {"names": ["n1", "not-there"]}}),
    )
    .await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(counts(&status), [1, 0, 1, 0, 0]);
    assert_eq!(jobs.writes().len(), 2, "a pod is made and deleted");
    jobs.delete(ONE, "j").await;
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn ilp_e1_two_images_on_all_nodes() {
    let jobs = Jobs::on(3, &ImageOptions::default()).await;
    let _life = jobs.controller();
    let spec = json!({"images": images(2), "parallelism": "100%", "completionPolicy": {"ttlSecondsAfterFinished": 5}});
    jobs.create(LIST, "l", spec).await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"],
            &status["active"]
        ],
        [2, 2, 2, 0]
    );
    let pulls = json!({"nodes": 3, "bytes": 4096, "slowest": "0.300s", "slowestNode": "n0"});
    assert_eq!(
        status["imageStatuses"][1],
        json!({"name": image(1), "desired": 3, "succeeded": 3, "failed": 0, "pulls": pulls})
    );
    assert_eq!(
        (&status["failedImageStatuses"], &status["message"]),
        (&json!([]), &json!("job has completed"))
    );
    assert_eq!(
        jobs.writes().len(),
        3 * 3,
        "no ImagePullJob is made, and no pod per image"
    );
    jobs.wait(20).await;
    assert!(jobs.find(LIST, "l").is_none());
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn ilp_e3_an_always_job_with_a_failure_names_the_image_the_node_and_the_reason() {
    let jobs = Jobs::on(2, &missing("registry.example/app1:*")).await;
    let _life = jobs.controller();
    jobs.create(
        LIST,
        "l",
        json!({"images": images(3), "parallelism": 2, "pullPolicy": {"backoffLimit": 1}}),
    )
    .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [3, 3, 2]
    );
    let failed = &status["failedImageStatuses"];
    assert_eq!(
        (failed.as_array().unwrap().len(), &failed[0]["name"]),
        (1, &json!(image(1)))
    );
    let message = failed[0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("2 of 2 node(s) failed: n0: ErrImagePull")
            && message.contains("not found"),
        "{message}"
    );

    jobs.create(
        ONE,
        "j",
        json!({"image": image(1), "parallelism": 2, "pullPolicy": {"backoffLimit": 0}}),
    )
    .await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(
        (counts(&status), &status["failedNodes"]),
        (vec![2, 0, 0, 2, 0], &json!(["n0", "n1"]))
    );
    assert!(
        status["failures"][0]["message"]
            .as_str()
            .unwrap()
            .contains("not found"),
        "{status}"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn ilp_e4_a_never_job_counts_what_is_completed_and_does_not_end() {
    let jobs = Jobs::on(2, &missing("registry.example/app1:*")).await;
    let _life = jobs.controller();
    let spec = json!({"images": images(2), "parallelism": 2, "pullPolicy": {"backoffLimit": 0}, "completionPolicy": {"type": "Never"}});
    jobs.create(LIST, "l", spec).await;
    jobs.wait(120).await;
    let status = jobs.status(LIST, "l");
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"],
            &status["active"]
        ],
        [2, 2, 1, 0]
    );
    assert_eq!(
        (
            &status["failedImageStatuses"][0]["name"],
            &status["completionTime"]
        ),
        (&json!(image(1)), &json!(null))
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn never_more_nodes_pull_than_parallelism_says_and_writes_are_few() {
    let (nodes, count) = CROWD;
    let jobs = Jobs::on(nodes, &ImageOptions::default()).await;
    let most = watch_nodes(&jobs.cluster);
    let _life = jobs.controller();
    jobs.create(
        LIST,
        "l",
        json!({"images": images(count), "parallelism": 5}),
    )
    .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!([&status["completed"], &status["succeeded"]], [count, count]);
    assert_eq!(
        *most.lock().unwrap(),
        (5, 5),
        "all slots are used, and no more"
    );
    let (writes, reports) = (jobs.writes().len(), jobs.reports());
    println!(
        "{nodes} nodes, {count} images, parallelism 5: {writes} writes of pods and {reports} of the status"
    );
    assert!(
        writes == nodes * (count + 1) && writes + reports <= 3 * nodes * count,
        "{writes} {reports}"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_percentage_counts_the_nodes_of_the_job_and_0_pauses_it() {
    let slow = ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(4, &slow).await;
    let most = watch_nodes(&jobs.cluster);
    let _life = jobs.controller();
    jobs.create(LIST, "l", json!({"images": images(2), "parallelism": 0}))
        .await;
    jobs.wait(60).await;
    let status = jobs.status(LIST, "l");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("paused: parallelism is 0")
            && jobs.writes().is_empty(),
        "{status}"
    );
    jobs.edit(LIST, "l", &json!({"parallelism": "50%"})).await;
    jobs.wait(30).await;
    assert_eq!(
        (
            most.lock().unwrap().0,
            &jobs.status(LIST, "l")["observedGeneration"]
        ),
        (2, &json!(2))
    );
    // What is under way ends, and nothing else begins.
    jobs.edit(LIST, "l", &json!({"parallelism": 0})).await;
    jobs.wait(60).await;
    assert_eq!(jobs.cluster.pods().len(), 0);
    assert!(jobs.status(LIST, "l")["completionTime"].is_null());
    jobs.edit(LIST, "l", &json!({"parallelism": 1})).await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        (&status["succeeded"], most.lock().unwrap().0),
        (&json!(2), 2)
    );
    jobs.assert_quiet().await;
}
