//! The Node and the Lease of a mock node, and that those of real nodes are left alone.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
use swaplet_testbed::{ApiServer, Clock};

use super::{Cluster, node};

#[tokio::test(start_paused = true)]
async fn the_node_registers_renews_its_lease_and_goes() {
    for profile in [Profile::kubelet(), Profile::updates()] {
        let cluster = node(profile);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        let node = nodes.get("virtual").await.unwrap();
        let is_virtual = profile.is_virtual();
        assert_eq!(
            node.labels().get("type").map(String::as_str),
            is_virtual.then_some("virtual-kubelet")
        );
        assert_eq!(
            node.spec
                .unwrap()
                .taints
                .unwrap_or_default()
                .iter()
                .any(|taint| taint.key == "virtual-kubelet.io/provider"),
            is_virtual
        );
        let renewed = |cluster: &Cluster| {
            cluster
                .server
                .peek("leases.coordination.k8s.io", "kube-node-lease", "virtual")
                .map(|lease| lease["spec"]["renewTime"].clone())
        };
        let first = renewed(&cluster).unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_ne!(renewed(&cluster).unwrap(), first);
        cluster.node.remove().await.unwrap();
        assert!(nodes.get_opt("virtual").await.unwrap().is_none());
    }
}

/// What a kubelet would have registered, with a taint of its owner's.
async fn real_node(server: &ApiServer, name: &str) {
    let node = json!({"metadata": {"name": name, "labels": {"team": "real"}},
        "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let nodes: Api<Node> = Api::all(server.client());
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
}

/// A pod that a kubelet runs on the node.
async fn real_pod(server: &ApiServer, node: &str) {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "restartPolicy": "Always",
        "containers": [{"name": "main", "image": "work:1"}]}});
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

fn mock(server: &ApiServer, name: &str) -> VirtualNode {
    let options = NodeOptions::new(name, Profile::inert());
    VirtualNode::new(server.client_as("mock"), server.clock(), options)
}

const LEASE: (&str, &str) = ("leases.coordination.k8s.io", "kube-node-lease");

/// Neither the Node of a real node, nor its Lease, nor its pods are touched: not when the mock node
/// starts, not while it runs, not when it ends.
#[tokio::test(start_paused = true)]
async fn a1_a_real_node_is_never_taken_over_or_deleted() {
    let server = ApiServer::new(Clock::default());
    real_node(&server, "worker").await;
    real_pod(&server, "worker").await;
    let stored = || {
        let lease = server.peek(LEASE.0, LEASE.1, "worker");
        let pod = server.peek("pods", "default", "p");
        (server.peek("nodes", "", "worker"), pod, lease)
    };
    let before = stored();
    let node = mock(&server, "worker");
    let refused = node.register().await.unwrap_err().to_string();
    assert!(
        refused.contains("no mock node made") && refused.contains("another name"),
        "{refused}"
    );
    let running = tokio::spawn(node.clone().run_for_ever());
    tokio::time::sleep(Duration::from_secs(300)).await;
    running.abort();
    node.remove().await.unwrap();
    assert_eq!(stored(), before);
    assert!(before.2.is_none());
}

/// The Lease of a kubelet whose Node was deleted for a moment.
#[tokio::test(start_paused = true)]
async fn a1_a_lease_of_a_real_node_keeps_its_name() {
    let server = ApiServer::new(Clock::default());
    let lease = json!({"metadata": {"name": "worker"}, "spec": {"holderIdentity": "worker"}});
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(server.client(), LEASE.1);
    let lease = serde_json::from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let before = server.peek(LEASE.0, LEASE.1, "worker");
    let node = mock(&server, "worker");
    let refused = node.register().await.unwrap_err().to_string();
    assert!(
        refused.contains("a Lease worker in kube-node-lease"),
        "{refused}"
    );
    node.remove().await.unwrap();
    assert!(server.peek("nodes", "", "worker").is_none());
    assert_eq!(server.peek(LEASE.0, LEASE.1, "worker"), before);
}

/// Of two of one name the second is refused while the first lives, and takes over when it is dead;
/// what the first deletes then is not the second's.
#[tokio::test(start_paused = true)]
async fn a1_of_two_mock_nodes_of_one_name_only_one_lives() {
    let server = ApiServer::new(Clock::default());
    let (first, second) = (mock(&server, "x"), mock(&server, "x"));
    let running = tokio::spawn(first.clone().run());
    tokio::time::sleep(Duration::from_secs(15)).await;
    let refused = second.register().await.unwrap_err().to_string();
    assert!(
        refused.contains("another mock node is called x"),
        "{refused}"
    );
    second.remove().await.unwrap();
    assert!(server.peek("nodes", "", "x").is_some());
    running.abort();
    tokio::time::sleep(Duration::from_secs(60)).await;
    second.register().await.unwrap();
    first.remove().await.unwrap();
    assert!(server.peek("nodes", "", "x").is_some(), "the second's");
    assert!(server.peek(LEASE.0, LEASE.1, "x").is_some(), "the second's");
    second.remove().await.unwrap();
    assert!(server.peek("nodes", "", "x").is_none());
    assert!(server.peek(LEASE.0, LEASE.1, "x").is_none());
}

/// `kubectl delete node`: a real one that takes the name then is left alone; else it comes back.
#[tokio::test(start_paused = true)]
async fn a1_a17_a_deleted_node_comes_back_unless_a_real_one_has_come() {
    let server = ApiServer::new(Clock::default());
    tokio::spawn(mock(&server, "x").run_for_ever());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let nodes: Api<Node> = Api::all(server.client());
    let params = kube::api::DeleteParams::default();
    nodes.delete("x", &params).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let back = server.peek("nodes", "", "x").unwrap();
    assert!(back["metadata"]["annotations"]["swaplet.io/mock-node"].is_string());
    nodes.delete("x", &params).await.unwrap();
    real_node(&server, "x").await;
    real_pod(&server, "x").await;
    let real = server.peek("nodes", "", "x");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(server.peek("nodes", "", "x"), real);
}
