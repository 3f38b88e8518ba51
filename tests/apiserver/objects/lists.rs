//! Lists: in pages, of what is selected, and of metadata alone.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::apiserver::common::{create, pods, refusal, server, set_status};

#[tokio::test(start_paused = true)]
async fn lists_in_pages_from_one_version() {
    let (server, client) = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = |name: &str| ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &map(name))
            .await
            .unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(
        (first.items.len(), first.metadata.remaining_item_count),
        (2, Some(1))
    );
    maps.create(&PostParams::default(), &map("bb"))
        .await
        .unwrap();
    maps.delete("c", &DeleteParams::default()).await.unwrap();
    let next = ListParams::default()
        .limit(2)
        .continue_token(&first.metadata.continue_.unwrap());
    let second = maps.list(&next).await.unwrap();
    assert_eq!(
        second
            .items
            .iter()
            .map(ResourceExt::name_any)
            .collect::<Vec<_>>(),
        ["c"]
    );
    assert_eq!(
        second.metadata.resource_version,
        first.metadata.resource_version
    );
    server.compact();
    let (code, reason, _) = refusal(maps.list(&next).await);
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn selects_by_labels_and_fields() {
    let (_server, client) = server();
    create(&client, "a").await;
    create(&client, "b").await;
    set_status(&client, "b", json!({"phase": "Running"}))
        .await
        .unwrap();
    let count = async |params: ListParams| {
        pods(&client)
            .list(&params)
            .await
            .map(|list| list.items.len())
    };
    assert_eq!(
        count(ListParams::default().labels("app in (a,b),!x"))
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        count(ListParams::default().fields("status.phase=Running,metadata.name!=a"))
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        refusal(count(ListParams::default().fields("spec.foo=x")).await).2,
        "field label not supported: spec.foo"
    );
}

#[tokio::test(start_paused = true)]
async fn metadata_alone() {
    let (_server, client) = server();
    create(&client, "p").await;
    let api: Api<PartialObjectMeta<Pod>> = Api::default_namespaced(client);
    assert_eq!(api.get("p").await.unwrap().labels()["app"], "p");
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
}
