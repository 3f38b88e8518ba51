//! What is judged by the object alone: workloads by their replicas, Services and Ingresses by the
//! label.

use kube::api::{ApiResource, DeleteParams, ListParams};
use serde_json::{Value, json};

use super::{
    ALWAYS, CASCADING, Kind, LABEL, Protected, crd, deployment, namespaces, resource, service,
};
use crate::world::{eventually, kubectl};

/// What is not protected goes beside what is, and the label alone makes the difference.
async fn always(kind: &Kind, replicas: i32) {
    kind.create("free", "", kind.spec(replicas)).await;
    for other in ["always", "true", "Never"] {
        let name = format!("not-{}", other.to_lowercase());
        kind.create(&name, other, kind.spec(replicas)).await;
        kind.goes(&name).await;
    }
    kind.create("kept", "Always", kind.spec(replicas)).await;
    kind.stays("kept", ALWAYS).await;
    kind.goes("free").await;
    kind.stays("kept", ALWAYS).await;
}

/// As OpenKruise's own tests go: `Always` with no replicas, `Cascading` with two, and with none.
async fn workload(protected: &Protected, resource: ApiResource) {
    let kind = protected.kind(resource);
    always(&kind, 0).await;
    let cascading = json!({"metadata": {"labels": {LABEL: "Cascading"}}, "spec": {"replicas": 2}});
    kind.patch("kept", cascading).await;
    kind.stays("kept", &format!("{CASCADING} and replicas 2>0"))
        .await;
    kind.patch("kept", json!({"spec": {"replicas": 0}})).await;
    kind.goes("kept").await;
    // Without the label replicas are nothing to keep it by.
    kind.create("busy", "Cascading", kind.spec(1)).await;
    kind.stays("busy", &format!("{CASCADING} and replicas 1>0"))
        .await;
    kind.label("busy", Value::Null).await;
    kind.goes("busy").await;
}

#[tokio::test]
async fn dp_e4_built_in_workloads_are_protected() {
    let protected = Protected::new("protection-workloads").await;
    workload(&protected, deployment()).await;
    workload(
        &protected,
        resource("apps", "v1", "StatefulSet", "statefulsets"),
    )
    .await;
    workload(
        &protected,
        resource("apps", "v1", "ReplicaSet", "replicasets"),
    )
    .await;
    protected.done().await;
}

/// By their fields, which any CRD of these names can have: no OpenKruise is needed.
#[tokio::test]
async fn dp_e3_openkruises_workloads_are_protected_where_they_are_served() {
    let protected = Protected::new("protection-kruise").await;
    for (kind, plural) in [
        ("CloneSet", "clonesets"),
        ("StatefulSet", "statefulsets"),
        ("UnitedDeployment", "uniteddeployments"),
    ] {
        let name = format!("{plural}.apps.kruise.io");
        let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")});
        let (group, versions) = ("apps.kruise.io", ["v1alpha1", "v1beta1"]);
        let is_ours = crd(
            &protected.world,
            json!({"name": name}),
            names,
            group,
            &versions,
        )
        .await;
        workload(&protected, resource(group, "v1alpha1", kind, plural)).await;
        workload(&protected, resource(group, "v1beta1", kind, plural)).await;
        let kind = protected.kind(resource(group, "v1beta1", kind, plural));
        if is_ours {
            // What says nothing of replicas has none.
            for spec in [json!({}), Value::Null] {
                kind.create("silent", "Cascading", spec).await;
                kind.goes("silent").await;
            }
            // What cannot be judged stays.
            kind.create("odd", "Cascading", json!({"replicas": "three"}))
                .await;
            kind.dry_delete("odd").await.unwrap_err();
            kind.label("odd", Value::Null).await;
            kind.goes("odd").await;
            kubectl(&["delete", "crd", &name]).await;
        }
    }
    protected.done().await;
}

#[tokio::test]
async fn dp_e5_dp_e6_services_and_ingresses_are_protected_by_always_alone() {
    let protected = Protected::new("protection-network").await;
    for kind in [
        service(),
        resource("networking.k8s.io", "v1", "Ingress", "ingresses"),
    ] {
        let kind = protected.kind(kind);
        always(&kind, 0).await;
        kind.label("kept", json!("Cascading")).await;
        kind.goes("kept").await;
        kind.create("kept", "Always", kind.spec(0)).await;
        kind.label("kept", Value::Null).await;
        kind.goes("kept").await;
    }
    protected.done().await;
}

/// Nobody is exempt: not who deletes many at once, not the garbage collector, not the deletion of the
/// namespace. What is being deleted already is let go.
#[tokio::test]
async fn a_protected_object_outlives_every_way_to_delete_it() {
    let protected = Protected::new("protection-ways").await;
    let kind = protected.kind(service());
    kind.create("kept", "Always", kind.spec(0)).await;
    let listed = ListParams::default().labels(LABEL);
    let answer = kind
        .api
        .delete_collection(&DeleteParams::default(), &listed)
        .await;
    let words = answer.expect_err("many at once").to_string();
    assert!(
        words.contains("forbidden by ResourcesProtectionDeletion"),
        "{words}"
    );

    let sets = protected.kind(resource("apps", "v1", "ReplicaSet", "replicasets"));
    let owner = protected.kind(deployment());
    let owner_uid = owner
        .create("owner", "", owner.spec(0))
        .await
        .metadata
        .uid
        .unwrap();
    for (name, protection) in [("kept", "Always"), ("free", "")] {
        sets.create(name, protection, sets.spec(0)).await;
        let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "owner", "uid": owner_uid});
        sets.patch(name, json!({"metadata": {"ownerReferences": [reference]}}))
            .await;
    }
    owner.goes("owner").await;
    sets.is_gone("free").await;
    sets.stays("kept", ALWAYS).await;
    sets.label("kept", Value::Null).await;
    // The garbage collector may be faster.
    let is_free = match sets.delete("kept").await {
        Ok(()) => true,
        Err(kube::Error::Api(status)) => status.code == 404,
        Err(_) => false,
    };
    assert!(is_free);

    let held = json!({"metadata": {"finalizers": ["e2e.example/held"]}});
    kind.create("held", "", kind.spec(0)).await;
    kind.patch("held", held).await;
    kind.goes("held").await;
    kind.label("held", json!("Always")).await;
    kind.goes("held").await;
    kind.patch("held", json!({"metadata": {"finalizers": null}}))
        .await;
    kind.is_gone("held").await;

    deletion_of_the_namespace_waits(&protected, &kind).await;
    protected.done().await;
}

/// As with OpenKruise: it says what it waits for, and goes on when the label is gone.
async fn deletion_of_the_namespace_waits(protected: &Protected, kind: &Kind) {
    let name = protected.world.namespace.as_str();
    protected.kind(namespaces()).goes(name).await;
    eventually("the namespace to say what holds it", || async {
        let namespace = kubectl(&["get", "namespace", name, "-o", "json"]).await;
        namespace
            .contains("forbidden by ResourcesProtectionDeletion")
            .then_some(())
    })
    .await;
    kind.label("kept", Value::Null).await;
    protected.kind(namespaces()).is_gone(name).await;
}
