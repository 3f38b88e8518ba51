//! Pre-download on a real cluster, with a real Deployment and the rights of
//! `deploy/predownload.yaml`.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use serde_json::json;
use swaplet_core::warm::pull_job::object::JobKind;

use crate::controller::Controller;
use crate::crds::pull_jobs_are_served;
use crate::images::push_work;
use crate::world::{World, eventually, kubectl, variable};

/// Gives the controller of this world the rights as they are shipped, under another name.
async fn grant(world: &World) -> String {
    let role = format!("{}-predownload", world.namespace);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("predownload.yaml");
    std::fs::write(
        &file,
        include_str!("../../deploy/predownload.yaml").replace("swaplet-predownload", &role),
    )
    .unwrap();
    kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    let account = format!("--serviceaccount={}:swaplet", world.namespace);
    kubectl(&[
        "create",
        "rolebinding",
        "predownload",
        "-n",
        &world.namespace,
        "--clusterrole",
        &role,
        &account,
    ])
    .await;
    role
}

async fn apply(world: &World, image: &str, paused: bool) {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": world.namespace,
            "annotations": {"swaplet.io/predownload": "true", "apps.kruise.io/image-predownload-parallelism": "3"},
        },
        "spec": {
            "paused": paused, "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image, "args": ["sleep 3600"]}],
            }},
        },
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.json");
    std::fs::write(&file, deployment.to_string()).unwrap();
    kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
}

async fn jobs(world: &World) -> Vec<DynamicObject> {
    let jobs: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        &world.namespace,
        &JobKind::ImagePullJob.resource(),
    );
    jobs.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn a_deployment_gets_a_job_for_its_new_image_until_its_last_old_pod_is_replaced() {
    pull_jobs_are_served().await;
    let world = World::new("predownload").await;
    let role = grant(&world).await;
    let new = format!(
        "{}/e2e/predownload:{}",
        variable("SWAPLET_E2E_REGISTRY"),
        std::process::id()
    );
    push_work(&variable("SWAPLET_E2E_REGISTRY"), &new).await;
    apply(&world, &world.images.work, false).await;
    let _controller = Controller::start_with(&world, &["--predownload"]).await;
    eventually("two pods", || async {
        (world.pods().await.len() == 2).then_some(())
    })
    .await;
    assert!(jobs(&world).await.is_empty(), "nothing has changed");

    // Paused, so that all images are there before the first pod is replaced.
    apply(&world, &new, true).await;
    let job = eventually("a job", || async { jobs(&world).await.pop() }).await;
    let spec = &job.data["spec"];
    assert_eq!(
        (&spec["image"], &spec["parallelism"]),
        (&json!(new), &json!(3))
    );
    assert_eq!(spec["podSelector"], json!({"matchLabels": {"app": "web"}}));
    assert_eq!(job.metadata.owner_references.unwrap()[0].kind, "Deployment");

    let told = ListParams::default().fields(
        "involvedObject.kind=Deployment,involvedObject.name=web,reason=CreatedImagePullJob",
    );
    eventually("an Event on the Deployment", || async {
        world.api::<Event>().list(&told).await.unwrap().items.pop()
    })
    .await;

    apply(&world, &new, false).await;
    eventually("the job to be deleted", || async {
        jobs(&world).await.is_empty().then_some(())
    })
    .await;
    let images: Vec<_> = world
        .pods()
        .await
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .collect();
    assert!(
        images
            .iter()
            .all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_ref() == Some(&new)),
        "{images:?}"
    );
    kubectl(&["delete", "clusterrole", &role]).await;
    world.done().await;
}
