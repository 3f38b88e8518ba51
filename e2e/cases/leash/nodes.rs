//! Of nodes, the startup taint may be taken away.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Leashed;
use crate::world::{eventually, kubectl};

/// A node without a kubelet, which a controller with too many rights may change.
struct Unmanned {
    leashed: Leashed,
    name: String,
    /// With the token of the controller.
    nodes: Api<Node>,
}

impl Unmanned {
    async fn new() -> Self {
        let leashed = Leashed::new("leash-nodes").await;
        let name = leashed.world.namespace.clone();
        kubectl(&["create", "clusterrole", &name, "--verb=*", "--resource=nodes"]).await;
        let account = format!("--serviceaccount={name}:swaplet");
        kubectl(&["create", "clusterrolebinding", &format!("{name}-nodes"), "--clusterrole", &name, &account]).await;
        let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
        let node = json!({
            "metadata": {"name": name, "labels": {"a": "b"}},
            "spec": {"taints": [taint("mine"), taint("swaplet.io/warming")]},
        });
        let node: Node = serde_json::from_value(node).unwrap();
        Api::<Node>::all(leashed.world.client.clone()).create(&PostParams::default(), &node).await.unwrap();
        let nodes = Api::all(leashed.swaplet.clone());
        Self { leashed, name, nodes }
    }

    /// A merge patch by the controller; nothing is changed by it.
    async fn patch(&self, patch: &Value) -> Result<Node, String> {
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        self.nodes.patch(&self.name, &params, &Patch::Merge(patch)).await.map_err(|error| error.to_string())
    }

    /// All taints but this one; the API server adds some of its own.
    async fn without(&self, key: &str) -> Value {
        let node = self.nodes.get(&self.name).await.unwrap();
        let taints: Vec<Taint> = node.spec.unwrap().taints.unwrap().into_iter().filter(|taint| taint.key != key).collect();
        json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}})
    }

    async fn done(self) {
        Api::<Node>::all(self.leashed.world.client.clone()).delete(&self.name, &DeleteParams::default()).await.unwrap();
        for (kind, name) in [("clusterrolebinding", format!("{}-nodes", self.name)), ("clusterrole", self.name)] {
            kubectl(&["delete", kind, &name]).await;
        }
        self.leashed.done().await;
    }
}

#[tokio::test]
async fn of_a_node_only_the_startup_taint_can_be_taken_away() {
    let unmanned = Unmanned::new().await;
    let label = json!({"metadata": {"labels": {"a": "c"}}});
    eventually("the leash of nodes to be on", || async {
        unmanned.patch(&label).await.err().filter(|error| error.contains("of the metadata of a node"))
    })
    .await;
    let spec = "of the spec of a node swaplet may take away the taint swaplet.io/warming only";
    let metadata = "of the metadata of a node swaplet may change nothing";
    for (patch, words) in [
        (json!({"metadata": {"labels": {"a": null}}}), metadata),
        (json!({"metadata": {"annotations": {"a": "b"}}}), metadata),
        (json!({"metadata": {"finalizers": ["a/b"]}}), metadata),
        (json!({"spec": {"taints": []}}), spec),
        (json!({"spec": {"taints": [{"key": "swaplet.io/warming", "effect": "NoSchedule"}]}}), spec),
        (json!({"spec": {"unschedulable": true}}), spec),
        (json!({"spec": {"podCIDR": "10.250.0.0/24", "podCIDRs": ["10.250.0.0/24"]}}), spec),
    ] {
        let error = unmanned.patch(&patch).await.expect_err(&patch.to_string());
        assert!(error.contains(words), "{patch}: {error}");
    }
    // Its taints may change meanwhile, which is a conflict.
    eventually("the taint to be taken away", || async {
        let (other, warming) = (unmanned.without("mine").await, unmanned.without("swaplet.io/warming").await);
        let refused = unmanned.patch(&other).await.expect_err("another taint");
        let allowed = unmanned.patch(&warming).await;
        (refused.contains(spec) && allowed.is_ok()).then_some(())
    })
    .await;
    unmanned.done().await;
}
