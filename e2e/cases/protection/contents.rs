//! Namespaces and CRDs, with which everything in them would go.

use serde_json::{Value, json};

use super::{ALWAYS, CASCADING, Protected, crd, namespaces, resource};

const UNCOUNTED: &str = " and contents that nobody counts";

#[tokio::test]
async fn dp_e1_namespaces_are_protected() {
    let protected = Protected::new("protection-namespaces").await;
    let kind = protected.kind(namespaces());
    let name = |suffix: &str| format!("{}-{suffix}", protected.world.namespace);
    let (free, kept) = (name("free"), name("kept"));
    kind.create(&free, "", json!({})).await;
    kind.create(&kept, "Always", json!({})).await;
    kind.stays(&kept, ALWAYS).await;
    kind.goes(&free).await;
    kind.label(&kept, json!("Cascading")).await;
    kind.stays(&kept, &format!("{CASCADING}{UNCOUNTED}")).await;
    kind.label(&kept, Value::Null).await;
    kind.goes(&kept).await;
    protected.done().await;
}

#[tokio::test]
async fn dp_e2_crds_are_protected() {
    let protected = Protected::new("protection-crds").await;
    let kind = protected.kind(resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ));
    for plural in ["frees", "kepts"] {
        let group = format!("{}.example.com", protected.world.namespace);
        let names = json!({"kind": plural, "plural": plural, "singular": plural, "listKind": format!("{plural}List")});
        let metadata = json!({"name": format!("{plural}.{group}"), "labels": {super::CASE: protected.world.namespace}});
        assert!(crd(&protected.world, metadata, names, &group, &["v1"]).await);
    }
    let name = |plural: &str| format!("{plural}.{}.example.com", protected.world.namespace);
    let (free, kept) = (name("frees"), name("kepts"));
    kind.label(&kept, json!("Always")).await;
    kind.stays(&kept, ALWAYS).await;
    kind.goes(&free).await;
    kind.label(&kept, json!("Cascading")).await;
    kind.stays(&kept, &format!("{CASCADING}{UNCOUNTED}")).await;
    kind.label(&kept, Value::Null).await;
    kind.goes(&kept).await;
    protected.done().await;
}
