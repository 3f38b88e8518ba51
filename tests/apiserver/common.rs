//! Objects and helpers that the tests share.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_testbed::{ApiServer, Clock};

/// A server and a client on it.
pub fn server() -> (ApiServer, Client) {
    let server = ApiServer::new(Clock::default());
    let client = server.client();
    (server, client)
}

/// The pods of the default namespace.
pub fn pods(client: &Client) -> Api<Pod> {
    Api::default_namespaced(client.clone())
}

/// A pod with a main container and a sidecar.
pub fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "main:1"}, {"name": "side", "image": "side:1"}]}}))
    .unwrap()
}

/// Creates a pod.
pub async fn create(client: &Client, name: &str) -> Pod {
    pods(client)
        .create(&PostParams::default(), &pod(name))
        .await
        .unwrap()
}

/// A guarded swap of one image.
pub async fn swap(client: &Client, name: &str, from: &str, to: &str) -> kube::Result<Pod> {
    let path = "/spec/containers/1/image";
    let patch = json!([{"op": "test", "path": path, "value": from}, {"op": "replace", "path": path, "value": to}]);
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    pods(client)
        .patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await
}

/// A merge patch on the status of a pod.
pub async fn set_status(client: &Client, name: &str, status: Value) -> kube::Result<Pod> {
    pods(client)
        .patch_status(
            name,
            &PatchParams::default(),
            &Patch::Merge(json!({"status": status})),
        )
        .await
}

/// Code, reason and message of a refusal.
pub fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("{other:?}"),
    }
}
