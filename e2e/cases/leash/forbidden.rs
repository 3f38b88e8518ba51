//! What swaplet's own token cannot do, by the tables of writes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use swaplet_controller::warm::write;
use swaplet_core::warm::pod::Shape;

use super::legal::warmers;
use super::pods::{DIGEST, OTHER};
use super::table::{Accounts, Filling};
use super::{Leashed, closed};
use crate::crds::{pull_jobs_are_served, requests_are_served};
use crate::world::kubectl;

const MAINS: &str = "whose main containers are done, and here these are not: main";

impl Leashed {
    /// For tables about pods and what is in their namespace.
    pub async fn filling(&self) -> Filling {
        let mut filling = self.filling_of_images();
        for pod in ["running", "parked"] {
            filling
                .words
                .insert(format!("uid {pod}"), self.uid(pod).await);
        }
        filling
    }

    fn filling_of_images(&self) -> Filling {
        let images = self.world.images;
        let repository = |image: &str| image.rsplit_once(':').unwrap().0.to_owned();
        let words = [
            ("exit", images.exit.clone()),
            ("exit-with-x-for-dots", images.exit.replace('.', "x")),
            ("exit-in-upper-case", images.exit.to_uppercase()),
            ("work", images.work.clone()),
            ("park", images.park.clone()),
            ("missing", images.missing.clone()),
            ("repository", repository(&images.work)),
            ("park-repository", repository(&images.park)),
            ("digest", DIGEST.to_owned()),
            ("other", OTHER.to_owned()),
            ("ns", self.world.namespace.clone()),
            ("closed", closed(&self.world)),
        ];
        Filling {
            words: words
                .into_iter()
                .map(|(word, value)| (word.to_owned(), value))
                .collect(),
            made: BTreeMap::new(),
        }
    }
}

#[tokio::test]
async fn what_no_token_of_ours_can_write() {
    let leashed = Leashed::new("leash-forbids").await;
    leashed.pods_are_there().await;
    leashed.more_pods_are_there().await;
    leashed.opted_in_pods_are_there().await;
    let (accounts, filling) = (
        Accounts::of(&leashed.world.namespace).await,
        leashed.filling().await,
    );
    let mut denied = 0;
    for table in [
        include_str!("tables/pods.yaml"),
        include_str!("tables/pods-status.yaml"),
    ] {
        denied += leashed.all_writes_of(table, &accounts, &filling).await;
    }
    println!("{denied} writes of pods and their statuses were denied");
    a_whole_pod_is_put(&leashed).await;
    leashed.done().await;
}

/// PUT meets the same policy.
async fn a_whole_pod_is_put(leashed: &Leashed) {
    let pods: Api<Pod> = Api::namespaced(leashed.swaplet.clone(), &leashed.world.namespace);
    let mut running = serde_json::to_value(pods.get("running").await.unwrap()).unwrap();
    running["apiVersion"] = json!("v1");
    running["kind"] = json!("Pod");
    running["spec"]["containers"][1]["image"] = json!(leashed.world.images.exit);
    let path = format!(
        "/api/v1/namespaces/{}/pods/running?dryRun=All",
        leashed.world.namespace
    );
    let put = http::Request::put(path)
        .header("content-type", "application/json")
        .body(running.to_string().into_bytes())
        .unwrap();
    let words = leashed
        .swaplet
        .request::<Value>(put)
        .await
        .expect_err("it is denied")
        .to_string();
    assert!(words.contains(MAINS), "{words}");
}

#[tokio::test]
async fn what_no_token_of_ours_can_make_or_delete() {
    let leashed = Leashed::new("leash-warmers").await;
    leashed.pods_are_there().await;
    leashed.more_pods_are_there().await;
    let warmers = warmers(&leashed);
    let images = |count: usize| {
        (0..count)
            .map(|number| format!("any.example/{number}:v1").into())
            .collect::<Vec<Box<str>>>()
    };
    let make = |shape, count| write::pod(&warmers, "node", shape, &images(count), 1);
    let mut filling = leashed.filling().await;
    filling.made = BTreeMap::from([
        ("in-place", make(Shape::InPlace, 1)),
        ("impossible", make(Shape::ImpossibleCommand, 2)),
        ("nine-images", make(Shape::ImpossibleCommand, 9)),
    ]);
    let accounts = Accounts::of(&leashed.world.namespace).await;
    let denied = leashed
        .all_writes_of(include_str!("tables/warmers.yaml"), &accounts, &filling)
        .await;
    println!("{denied} writes of warmer pods were denied");
    leashed.done().await;
}

/// What is kept, said and asked for in a namespace.
fn objects_of_all_kinds(ns: &str) -> Value {
    let of = |kind: &str, api: &str, name: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": ns}});
    let mut verdicts = of("ConfigMap", "v1", "swaplet-node-verdicts");
    verdicts["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "swaplet"});
    let mut event = of("Event", "events.k8s.io/v1", "theirs.1");
    event["eventTime"] = json!("2026-01-01T00:00:00.000000Z");
    for (field, value) in [
        ("action", "a"),
        ("reason", "r"),
        ("reportingController", "c"),
        ("reportingInstance", "i"),
        ("type", "Normal"),
    ] {
        event[field] = json!(value);
    }
    event["regarding"] = json!({"kind": "Pod", "name": "done", "namespace": ns});
    let request = |name: &str| {
        let mut request = of("ContainerRecreateRequest", "apps.kruise.io/v1alpha1", name);
        request["metadata"]["labels"] = json!({"team": "a"});
        request["spec"] = json!({"podName": "running", "containers": [{"name": "main"}]});
        request
    };
    let mut asked = request("asked");
    asked["metadata"]["finalizers"] = json!(["theirs.example/f"]);
    let job = |name: &str| {
        let mut job = of("ImagePullJob", "apps.kruise.io/v1alpha1", name);
        job["metadata"]["finalizers"] =
            json!(["apps.kruise.io/deletion-protection", "theirs.example/f"]);
        job["spec"] = json!({"image": "any.example/image:v1", "completionPolicy": {}});
        job
    };
    let lease = of("Lease", "coordination.k8s.io/v1", "theirs");
    json!([
        verdicts,
        of("ConfigMap", "v1", "settings"),
        lease,
        event,
        asked,
        request("completed"),
        job("leaving"),
        job("staying")
    ])
}

/// One of the requests is completed, and one of the jobs is being deleted.
async fn complete_and_leave(ns: &str) {
    let done = r#"{"status": {"phase": "Completed"}}"#;
    kubectl(&[
        "patch",
        "containerrecreaterequest",
        "completed",
        "-n",
        ns,
        "--subresource=status",
        "--type=merge",
        "-p",
        done,
    ])
    .await;

    kubectl(&[
        "delete",
        "imagepulljob",
        "leaving",
        "-n",
        ns,
        "--wait=false",
    ])
    .await;
}

#[tokio::test]
async fn what_no_token_of_ours_can_say_or_keep() {
    requests_are_served().await;
    pull_jobs_are_served().await;
    let leashed = Leashed::new("leash-keeps").await;
    leashed.pods_are_there().await;
    let mut filling = leashed.filling().await;
    let ns = leashed.world.namespace.clone();
    filling
        .words
        .insert("event".to_owned(), "theirs.1".to_owned());
    let objects = objects_of_all_kinds(&ns);
    leashed.make(&objects).await;
    complete_and_leave(&ns).await;
    let accounts = Accounts::of(&ns).await;
    let mut denied = 0;
    for table in [
        include_str!("tables/events.yaml"),
        include_str!("tables/state.yaml"),
        include_str!("tables/own-requests.yaml"),
        include_str!("tables/own-jobs.yaml"),
    ] {
        leashed.table_is_on(table, &accounts, &filling).await;
        denied += leashed.all_writes_of(table, &accounts, &filling).await;
    }
    println!("{denied} writes of Events, requests and what swaplet keeps were denied");
    for (kind, name) in [
        ("containerrecreaterequest", "asked"),
        ("imagepulljob", "leaving"),
        ("imagepulljob", "staying"),
    ] {
        kubectl(&[
            "patch",
            kind,
            name,
            "-n",
            &ns,
            "--type=merge",
            "-p",
            r#"{"metadata": {"finalizers": null}}"#,
        ])
        .await;
    }
    leashed.done().await;
}

impl Leashed {
    /// Makes objects, as the administrator.
    pub async fn make(&self, objects: &Value) {
        let file = self.world.kubeconfig.with_file_name("objects.json");
        std::fs::write(
            &file,
            json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
        )
        .unwrap();
        kubectl(&["create", "-f", file.to_str().unwrap()]).await;
    }

    /// One that swaplet has made, one that looks like it and runs a program of its own, and one of an
    /// earlier version, with the program at a path that an image can know.
    pub async fn warmers_are_there(&self) {
        let warmers = warmers(self);
        let mut made = write::pod(
            &warmers,
            "nowhere",
            Shape::InPlace,
            &["any.example/image:v1".into()],
            1,
        );
        made["spec"]["schedulerName"] = json!("nobody");
        made["metadata"]["name"] = json!("warmer");
        let mut like = made.clone();
        like["metadata"]["name"] = json!("like-a-warmer");
        like["spec"]["containers"][0]
            .as_object_mut()
            .unwrap()
            .remove("volumeMounts");
        let mut earlier = made.clone();
        earlier["metadata"]["name"] = json!("earlier-warmer");
        let warmer = &mut earlier["spec"]["containers"][0];
        warmer["command"] = json!(["/.swaplet-warm"]);
        warmer["volumeMounts"][0]["mountPath"] = json!("/.swaplet-warm");
        let pods: Api<Pod> = Api::namespaced(self.swaplet.clone(), &self.world.namespace);
        pods.create(
            &PostParams::default(),
            &serde_json::from_value(made).unwrap(),
        )
        .await
        .unwrap();
        self.world.create_pod(like).await;
        self.world.create_pod(earlier).await;
    }
}
