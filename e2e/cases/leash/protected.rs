//! Of Namespaces and CRDs, what is counted in them may be written.

use kube::Api;
use kube::api::DynamicObject;
use serde_json::json;

use super::Leashed;
use super::table::{Accounts, Filling};
use crate::protection::{LABEL, crd, namespaces, resource};
use crate::world::kubectl;

#[tokio::test]
async fn of_a_namespace_only_the_count_can_be_changed() {
    let leashed = Leashed::new("leash-protected").await;
    let ns = leashed.world.namespace.clone();
    // The namespaces that the policies of the case are bound to.
    let (kept, free) = (ns.clone(), super::closed(&leashed.world));
    let protected = json!({"metadata": {"labels": {LABEL: "Cascading", "mine": "1"}, "annotations": {"mine": "1"}}});
    kubectl(&[
        "patch",
        "namespace",
        &kept,
        "--type=merge",
        "-p",
        &protected.to_string(),
    ])
    .await;
    let group = format!("{ns}.example.com");
    let name = format!("kepts.{group}");
    let names =
        json!({"kind": "kepts", "plural": "kepts", "singular": "kepts", "listKind": "keptsList"});
    let metadata = json!({"name": name, "labels": {LABEL: "Cascading"}});
    crd(&leashed.world, metadata, names, &group, &["v1"]).await;

    let dumped = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": kept, "labels": {"git": "1"}, "annotations": {"git": "1", "swaplet.io/holds": "pods=9,pvcs=9"},
        }},
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {
            "name": name, "annotations": {"swaplet.io/holds": "objects=9"},
        }},
    ]});
    let file = leashed.world.kubeconfig.with_file_name("dumped.json");
    std::fs::write(&file, dumped.to_string()).unwrap();
    kubectl(&[
        "apply",
        "--server-side",
        "--validate=false",
        "--field-manager=git",
        "-f",
        file.to_str().unwrap(),
    ])
    .await;

    let uid = async |api: Api<DynamicObject>, name: &str| {
        api.get(name).await.unwrap().metadata.uid.unwrap()
    };
    let spaces = || Api::all_with(leashed.world.client.clone(), &namespaces());
    let crds = resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    let crds = Api::all_with(leashed.world.client.clone(), &crds);
    let words = [
        ("uid kept", uid(spaces(), &kept).await),
        ("uid free", uid(spaces(), &free).await),
        ("uid crd", uid(crds, &name).await),
        ("kept", kept.clone()),
        ("free", free),
        ("crd", name.clone()),
    ];
    let filling = Filling {
        words: words
            .into_iter()
            .map(|(word, value)| (word.to_owned(), value))
            .collect(),
        made: [].into(),
    };
    let (table, accounts) = (
        include_str!("tables/protected.yaml"),
        Accounts::of(&ns).await,
    );
    leashed.table_is_on(table, &accounts, &filling).await;
    let denied = leashed.all_writes_of(table, &accounts, &filling).await;
    println!("{denied} writes of Namespaces and CRDs were denied");
    kubectl(&["delete", "crd", &name]).await;
    let label = format!("{LABEL}-");
    kubectl(&["label", "namespace", &kept, &label]).await;
    leashed.done().await;
}
