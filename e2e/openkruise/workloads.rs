//! OpenKruise's workload controllers without its daemon, beside swaplet.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::audit::swapped_in;
use crate::pods::{container, job, sidecar, spec};
use crate::process::Process;
use crate::virtual_kubelet::VirtualNode;
use crate::world::{World, eventually};

/// What a virtual node has to tell, so that the manager sees that an image has been replaced: it
/// compares `imageID`s (`pkg/util/inplaceupdate`, `DefaultCheckContainersInPlaceUpdateCompleted`).
pub const TELLS_IMAGES: &[&str] = &[
    "--image-id",
    "digest",
    "--container-ids",
    "new",
    "--restart-count",
    "counted",
];

const NEW_IMAGE: &str = "registry.example/app:v2";

fn clone_sets(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "CloneSet");
    Api::namespaced_with(
        world.client.clone(),
        &world.namespace,
        &ApiResource::from_gvk(&kind),
    )
}

/// Each pod of the CloneSet by its uid, with the image that its node reports.
async fn images(world: &World) -> Vec<(String, String)> {
    let mut pods = world.pods().await;
    pods.retain(|pod| pod.labels().contains_key("app"));
    let image = |pod: &Pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        Some(statuses.first()?.image.clone())
    };
    let mut found: Vec<_> = pods
        .iter()
        .filter_map(|pod| Some((pod.uid()?, image(pod)?)))
        .collect();
    found.sort();
    found
}

/// A CloneSet changes the image of its pods in place, and swaplet ends the sidecar of a Job on the
/// same node; neither touches the other's pods.
pub async fn a_clone_set_updates_in_place(world: &World, node: &VirtualNode) {
    let _controller = Process::start_beside_openkruise(world, &[]).await;
    let app = container(world, "app", "run=forever");
    let clones = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "updateStrategy": {"type": "InPlaceOnly", "maxUnavailable": 2},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": node.place(spec("Always", vec![app]))}}});
    let api = clone_sets(world);
    api.create(
        &PostParams::default(),
        &serde_json::from_value(clones).unwrap(),
    )
    .await
    .unwrap();
    let before = eventually("two pods to run", || async {
        let found = images(world).await;
        (found.len() == 2).then_some(found)
    })
    .await;
    let containers = vec![
        container(world, "main", "run=2s exit=0"),
        sidecar(world, "log", "run=forever term=143"),
    ];
    world
        .create_job(job("work", node.place(spec("OnFailure", containers))))
        .await;
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": NEW_IMAGE}]);
    let image = Patch::Json::<()>(serde_json::from_value(image).unwrap());
    api.patch("web", &PatchParams::default(), &image)
        .await
        .unwrap();
    let expected: Vec<_> = before
        .into_iter()
        .map(|(uid, _)| (uid, NEW_IMAGE.to_owned()))
        .collect();
    eventually("the same pods with the new image", || async {
        (images(world).await == expected).then_some(())
    })
    .await;
    eventually("the CloneSet to be updated", || async {
        let status = &api.get("web").await.unwrap().data["status"];
        (status["updatedReplicas"] == 2).then_some(())
    })
    .await;
    world.job_ends("work", "Complete").await;
    assert_eq!(swapped_in(&world.namespace).len(), 1, "that of the Job");
}
