//! Image caches of a provider on a real API server: the CRD has the form of Alibaba's, and the
//! provider is played by the case, which writes the status.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use swaplet_core::warm::image_cache::resource;
use swaplet_core::warm::pull_job::object::JobKind;

use crate::controller::Controller;
use crate::pull_jobs::Jobs;
use crate::world::{World, apply, established, eventually, kubectl};

/// As documented in "Manage ImageCaches", in the present version of CRDs.
fn crd() -> Value {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    let spec = json!({"type": "object", "required": ["images"], "properties": {
        "images": {"type": "array", "minItems": 1, "items": {"type": "string"}}, "imagePullSecrets": strings,
        "imageCacheSize": {"type": "integer"}, "retentionDays": {"type": "integer"},
    }});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema}});
    let names = json!({"kind": "ImageCache", "listKind": "ImageCacheList", "plural": "imagecaches", "singular": "imagecache", "shortNames": ["ic"]});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "imagecaches.eci.alibabacloud.com"},
        "spec": {"group": "eci.alibabacloud.com", "scope": "Cluster", "names": names, "versions": [version]}})
}

/// The API server knows image caches.
pub async fn crd_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crd.json");
    std::fs::write(&file, crd().to_string()).unwrap();
    apply(&file).await;
    established(&["crd", "imagecaches.eci.alibabacloud.com"]).await;
}

/// A node of ECI by its taint, without anybody who runs it.
async fn create_node(world: &World) {
    let taint = json!({"key": "virtual-kubelet.io/provider", "value": "alibabacloud", "effect": "NoSchedule"});
    let node = json!({"metadata": {"name": world.namespace}, "spec": {"taints": [taint]}});
    Api::<Node>::all(world.client.clone())
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).unwrap(),
        )
        .await
        .unwrap();
}

/// The cache that has this image, once it is there.
async fn cache_of(caches: &Api<DynamicObject>, image: &str) -> DynamicObject {
    eventually("the image cache", || async {
        let all = caches
            .list(&ListParams::default().labels("swaplet.io/image-cache"))
            .await
            .unwrap();
        all.items.into_iter().find(|cache| {
            cache.data["spec"]["images"]
                .as_array()
                .unwrap()
                .contains(&json!(image))
        })
    })
    .await
}

/// Gives the controller of this namespace the right to image caches; gives the name of the binding.
async fn may_make_caches(namespace: &str) -> String {
    let account = format!("--serviceaccount={namespace}:swaplet");
    let binding = format!("{namespace}-image-caches");
    kubectl(&[
        "create",
        "clusterrolebinding",
        &binding,
        "--clusterrole",
        &binding,
        &account,
    ])
    .await;
    binding
}

async fn status_of(jobs: &Jobs) -> Value {
    jobs.api(JobKind::ImageListPullJob)
        .get("cached")
        .await
        .unwrap()
        .data["status"]
        .clone()
}

/// The job tells of the cache that it waits for.
async fn waits_for(jobs: &Jobs, name: &str) {
    let waits = format!("1 node(s) wait for an image cache: ImageCache {name} is Creating 50%");
    eventually("the job to tell of the cache", || async {
        let status = status_of(jobs).await;
        assert!(
            status["completionTime"].is_null() && status["succeeded"] != 1,
            "{status}"
        );
        status["message"]
            .as_str()
            .is_some_and(|message| message.contains(&waits))
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_a_node_of_eci_makes_an_image_cache_and_succeeds_when_that_is_ready() {
    crd_is_there().await;
    let jobs = Jobs::with_pods("image-caches").await;
    let namespace = jobs.world.namespace.clone();
    create_node(&jobs.world).await;
    let binding = may_make_caches(&namespace).await;
    let caches: Api<DynamicObject> = Api::all_with(jobs.world.client.clone(), &resource());
    let arguments = [
        "--warm",
        "--park-image",
        &jobs.world.images.park,
        "--warm-image-caches",
        "--warm-image-cache-days",
        "3",
    ];
    let _controller = Controller::start_with(&jobs.world, &arguments).await;
    // No other case wants this image, so the cache is of this one.
    let image = format!("registry.example/{namespace}:v1");
    let spec =
        json!({"images": [image], "selector": {"names": [namespace]}, "completionPolicy": {}});
    jobs.create(JobKind::ImageListPullJob, "cached", &spec)
        .await
        .unwrap();
    let made = cache_of(&caches, &image).await;
    let name = made.metadata.name.unwrap();
    let spec = &made.data["spec"];
    assert_eq!(
        (&spec["images"], &spec["retentionDays"]),
        (&json!([jobs.world.images.exit, image]), &json!(3))
    );
    let says = async |phase: &str| {
        let status = Patch::Merge(json!({"status": {"phase": phase, "progress": "50%"}}));
        caches
            .patch_status(&name, &PatchParams::default(), &status)
            .await
            .unwrap();
    };
    says("Creating").await;
    waits_for(&jobs, &name).await;
    says("Ready").await;
    let done = eventually("the job to be completed", || async {
        let status = status_of(&jobs).await;
        status["completionTime"].is_string().then_some(status)
    })
    .await;
    assert_eq!(
        (&done["succeeded"], &done["skipped"], &done["message"]),
        (&json!(1), &json!(0), &json!("job has completed")),
        "{done}"
    );
    caches
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    kubectl(&["delete", "clusterrolebinding", &binding]).await;
    kubectl(&["delete", "node", &namespace]).await;
    jobs.done().await;
}
