//! Of nodes, the startup taint may be taken away.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::Leashed;
use super::table::{Accounts, Filling};
use crate::mock_node::STARTUP_TAINT;
use crate::world::kubectl;

#[tokio::test]
async fn of_a_node_only_the_startup_taint_can_be_taken_away() {
    let _only = STARTUP_TAINT.lock().await;
    let leashed = Leashed::new("leash-nodes").await;
    let name = leashed.world.namespace.clone();
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    // A node without a kubelet.
    let node = json!({
        "metadata": {"name": name, "labels": {"a": "b"}},
        "spec": {"taints": [taint("mine"), taint("swaplet.io/warming")]},
    });
    let nodes: Api<Node> = Api::all(leashed.world.client.clone());
    nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node).unwrap(),
        )
        .await
        .unwrap();
    let fleet = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"fleet": "x"}}});
    let file = leashed.world.kubeconfig.with_file_name("fleet.json");
    std::fs::write(&file, fleet.to_string()).unwrap();
    kubectl(&[
        "apply",
        "--server-side",
        "--field-manager=fleet",
        "-f",
        file.to_str().unwrap(),
    ])
    .await;

    let (table, accounts) = (include_str!("tables/nodes.yaml"), Accounts::of(&name).await);
    let words = [("node".to_owned(), name.clone())].into();
    let filling = Filling {
        words,
        made: [].into(),
    };
    leashed.table_is_on(table, &accounts, &filling).await;
    let denied = leashed.all_writes_of(table, &accounts, &filling).await;
    println!("{denied} writes of nodes were denied");
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    leashed.done().await;
}
