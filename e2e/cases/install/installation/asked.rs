//! What an installation is asked for: a restart, and images on the node.

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{CONTROLLER, Installation};
use crate::images::push_work;
use crate::world::{World, kubectl, variable};

impl Installation {
    /// Asks for a restart of the container `app` of a pod, and waits until that is done.
    pub async fn restart(&self, pod: &str, world: &World) {
        let request = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
            "metadata": {"name": "again", "namespace": world.namespace},
            "spec": {"podName": pod, "containers": [{"name": "app"}]},
        });
        create(&request).await;
        let done = [
            "wait",
            "--for=jsonpath={.status.phase}=Completed",
            "crr/again",
            "--timeout=600s",
            "-n",
            &world.namespace,
        ];
        kubectl(&done).await;
    }

    /// Warms an image from a pod of the controller image, and waits until that is done.
    pub async fn warm(&self, world: &World) {
        let image = format!(
            "{}/e2e/warmed-by-{}:v1",
            variable("SWAPLET_E2E_REGISTRY"),
            world.namespace
        );
        push_work(&variable("SWAPLET_E2E_REGISTRY"), &image).await;
        let restricted =
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        let node = variable("SWAPLET_E2E_NODE");
        // The chart has made it, for warmer pods and who makes them: never that of the controller.
        let namespace = format!("{}-swaplet-warm", self.namespace);
        let container = json!({
            "name": "warm", "image": CONTROLLER.get().unwrap(), "securityContext": restricted,
            "args": ["warm", image, "--park-image", world.images.park, "--node", node, "--namespace", namespace],
        });
        let spec = json!({
            "serviceAccountName": "swaplet-warm", "restartPolicy": "Never", "containers": [container],
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        });
        let job: Job = serde_json::from_value(crate::pods::job("warm", spec)).unwrap();
        Api::namespaced(self.client.clone(), &namespace)
            .create(&PostParams::default(), &job)
            .await
            .unwrap();
        kubectl(&[
            "wait",
            "--for=condition=Complete",
            "job/warm",
            "--timeout=600s",
            "-n",
            &namespace,
        ])
        .await;
        let told = kubectl(&["logs", "job/warm", "-n", &namespace]).await;
        assert!(told.contains(&image), "{told}");
    }
}

/// Asks for an image on the node, by a job, and waits until it is there.
pub async fn pull(world: &World) {
    let image = format!(
        "{}/e2e/pulled-by-{}:v1",
        variable("SWAPLET_E2E_REGISTRY"),
        world.namespace
    );
    push_work(&variable("SWAPLET_E2E_REGISTRY"), &image).await;
    let nodes = json!({"names": [variable("SWAPLET_E2E_NODE")]});
    create(&json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob",
        "metadata": {"name": "pull", "namespace": world.namespace},
        "spec": {"image": image, "selector": nodes, "completionPolicy": {"type": "Always"}},
    }))
    .await;
    let done = [
        "wait",
        "--for=jsonpath={.status.succeeded}=1",
        "imagepulljob/pull",
        "--timeout=600s",
        "-n",
        &world.namespace,
    ];
    kubectl(&done).await;
}

async fn create(object: &Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("object.json");
    std::fs::write(&file, object.to_string()).unwrap();
    kubectl(&["create", "-f", file.to_str().unwrap()]).await;
}
