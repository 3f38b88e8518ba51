//! What users, administrators and nodes do in the world.

use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::{World, path};

impl World {
    /// A request of somebody else than a controller, as it is answered.
    pub async fn try_request(
        &self,
        method: http::Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> kube::Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, content_type);
        self.client
            .request(request.body(body.to_string().into_bytes()).unwrap())
            .await
    }

    pub async fn request(
        &self,
        method: http::Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Value {
        self.try_request(method, path, content_type, body)
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) {
        self.request(
            http::Method::POST,
            "/api/v1/namespaces",
            "application/json",
            &json!({"metadata": {"name": name}}),
        )
        .await;
    }

    /// Installs the CRD by which OpenKruise is known.
    pub async fn install_node_images(&self) {
        let names = json!({"kind": "NodeImage", "plural": "nodeimages"});
        let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "nodeimages.apps.kruise.io"},
            "spec": {"group": "apps.kruise.io", "scope": "Cluster", "names": names, "versions": [version]}});
        self.request(
            http::Method::POST,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "application/json",
            &crd,
        )
        .await;
    }

    /// Creates a node with the labels that kubelets write and these, or gives it other ones.
    pub async fn label_node(&self, name: &str, labels: &Value) {
        let mut metadata = json!({"name": name, "labels": labels});
        if self.server.peek("nodes", "", name).is_none() {
            for (label, value) in [("os", "linux"), ("arch", "amd64")] {
                metadata["labels"][format!("kubernetes.io/{label}")] = value.into();
            }
            self.request(
                http::Method::POST,
                "/api/v1/nodes",
                "application/json",
                &json!({"metadata": metadata}),
            )
            .await;
        } else {
            let path = format!("/api/v1/nodes/{name}");
            self.request(
                http::Method::PATCH,
                &path,
                "application/merge-patch+json",
                &json!({"metadata": metadata}),
            )
            .await;
        }
    }

    /// Creates a pod whose containers have not been reported, and an ordinary node for it if there
    /// is none of that name.
    pub async fn create(&self, pod: &Value) {
        if let Some(node) = pod["spec"]["nodeName"]
            .as_str()
            .filter(|node| self.server.peek("nodes", "", node).is_none())
        {
            self.label_node(node, &json!({})).await;
        }
        self.create_on_no_node(pod).await;
    }

    /// As [`create`](Self::create), without the node.
    pub async fn create_on_no_node(&self, pod: &Value) {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap();
        self.request(
            http::Method::POST,
            &format!("/api/v1/namespaces/{namespace}/pods"),
            "application/json",
            pod,
        )
        .await;
    }

    /// A merge patch of a pod of the namespace `default`, by its user.
    pub async fn edit(&self, name: &str, patch: &Value) {
        self.request(
            http::Method::PATCH,
            &path(name),
            "application/merge-patch+json",
            patch,
        )
        .await;
    }

    /// Somebody else keeps a verdict on a node.
    pub async fn keep_verdict(&self, namespace: &str, node: &str, kept: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/swaplet-node-verdicts");
        self.request(
            http::Method::PATCH,
            &path,
            "application/merge-patch+json",
            &json!({"data": {node: kept}}),
        )
        .await;
    }

    /// The user gives the sidecar of a pod another image.
    pub async fn set_image(&self, name: &str, image: &str) {
        let patch = json!({"spec": {"containers": [{"name": "side", "image": image}]}});
        self.request(
            http::Method::PATCH,
            &path(name),
            "application/strategic-merge-patch+json",
            &patch,
        )
        .await;
    }

    /// A merge patch of a pod's status, by its node.
    pub async fn set_status(&self, name: &str, status: Value) {
        self.set_status_at(&path(name), status).await;
    }

    /// As [`set_status`](Self::set_status), in any namespace.
    pub async fn set_status_at(&self, path: &str, status: Value) {
        self.request(
            http::Method::PATCH,
            &format!("{path}/status"),
            "application/merge-patch+json",
            &json!({"status": status}),
        )
        .await;
    }

    /// The user deletes a pod; the node still has to confirm.
    pub async fn delete(&self, name: &str) {
        self.request(
            http::Method::DELETE,
            &path(name),
            "application/json",
            &json!({}),
        )
        .await;
    }

    /// A pod vanishes.
    pub async fn remove(&self, name: &str) {
        self.request(
            http::Method::DELETE,
            &path(name),
            "application/json",
            &json!({"gracePeriodSeconds": 0}),
        )
        .await;
    }
}
