//! Deleting objects: with a period of grace, with finalizers and owners, and whole namespaces.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use crate::apiserver::common::{create, pod, pods, refusal, server};

/// By nothing but the period that is asked for, also where the pod is over by now.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_under_way_can_only_be_shortened() {
    let (_server, client) = server();
    let api = pods(&client);
    let mut bound = pod("bound");
    bound.spec.as_mut().unwrap().node_name = Some("n".to_owned());
    api.create(&PostParams::default(), &bound).await.unwrap();
    api.delete("bound", &DeleteParams::default()).await.unwrap();
    let failed = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    api.patch_status("bound", &PatchParams::default(), &failed)
        .await
        .unwrap();
    for (asked, period) in [(60, 30), (7, 7), (9, 7)] {
        let params = DeleteParams::default().grace_period(asked);
        api.delete("bound", &params).await.unwrap();
        let going = api.get("bound").await.unwrap().metadata;
        assert_eq!(going.deletion_grace_period_seconds, Some(period), "{asked}");
    }
    // When its time is over it is still for the node to end it.
    sleep(Duration::from_secs(20)).await;
    let params = DeleteParams::default().grace_period(5);
    api.delete("bound", &params).await.unwrap();
    let going = api.get("bound").await.unwrap().metadata;
    assert_eq!(going.deletion_grace_period_seconds, Some(1));
}

#[tokio::test(start_paused = true)]
async fn deletion_is_graceful_for_scheduled_pods_only() {
    let (server, client) = server();
    let api = pods(&client);
    create(&client, "free").await;
    assert!(api.delete("free", &DeleteParams::default()).await.is_ok());
    assert!(server.peek("pods", "default", "free").is_none());
    let mut bound = pod("bound");
    bound.spec.as_mut().unwrap().node_name = Some("n".to_owned());
    let uid = api
        .create(&PostParams::default(), &bound)
        .await
        .unwrap()
        .uid();
    api.delete("bound", &DeleteParams::default()).await.unwrap();
    let going = api.get("bound").await.unwrap();
    assert_eq!(
        (
            going.metadata.deletion_grace_period_seconds,
            going.metadata.generation
        ),
        (Some(30), Some(2))
    );
    let wrong = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some("zzz".to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    assert_eq!(refusal(api.delete("bound", &wrong).await).0, 409);
    assert!(uid.is_some());
    api.delete("bound", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert_eq!(
        refusal(api.get("bound").await),
        (
            404,
            "NotFound".to_owned(),
            "pods \"bound\" not found".to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_and_owners_take_their_children_along() {
    let (server, client) = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = |name: &str, metadata: serde_json::Value| {
        let mut metadata = metadata;
        metadata["name"] = name.into();
        serde_json::from_value::<ConfigMap>(json!({"metadata": metadata})).unwrap()
    };
    let post = PostParams::default();
    let owner = maps
        .create(&post, &map("owner", json!({"finalizers": ["x.io/y"]})))
        .await
        .unwrap();
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "blockOwnerDeletion": true}]);
    maps.create(&post, &map("child", json!({"ownerReferences": reference})))
        .await
        .unwrap();
    maps.delete("owner", &DeleteParams::default())
        .await
        .unwrap();
    assert!(server.peek("configmaps", "default", "child").is_some());
    maps.patch(
        "owner",
        &PatchParams::default(),
        &Patch::Merge(json!({"metadata": {"finalizers": null}})),
    )
    .await
    .unwrap();
    assert!(server.peek_all("configmaps").is_empty());
    let owner = maps.create(&post, &map("owner", json!({}))).await.unwrap();
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "blockOwnerDeletion": true}]);
    maps.create(&post, &map("child", json!({"ownerReferences": reference})))
        .await
        .unwrap();
    maps.delete("owner", &DeleteParams::foreground())
        .await
        .unwrap();
    assert!(server.peek_all("configmaps").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_empties_and_goes() {
    let (server, client) = server();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let team = Namespace {
        metadata: ObjectMeta {
            name: Some("team".to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    namespaces
        .create(&PostParams::default(), &team)
        .await
        .unwrap();
    let inside: Api<Pod> = Api::namespaced(client, "team");
    let mut bound = pod("p");
    bound.spec.as_mut().unwrap().node_name = Some("n".to_owned());
    inside.create(&PostParams::default(), &bound).await.unwrap();
    namespaces
        .delete("team", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(
        refusal(inside.create(&PostParams::default(), &pod("q")).await).0,
        403
    );
    inside
        .delete("p", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(server.peek("namespaces", "", "team").is_none());
}
