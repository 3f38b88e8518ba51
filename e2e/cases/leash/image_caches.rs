//! Of image caches, those of swaplet may be made, and nothing else.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde_json::json;
use swaplet_core::warm::image_cache::resource;

use super::Leashed;
use super::table::{Accounts, Filling};
use crate::image_caches::crd_is_there;

#[tokio::test]
async fn of_image_caches_those_of_swaplet_can_be_made_and_none_be_changed_or_deleted() {
    crd_is_there().await;
    let leashed = Leashed::new("leash-caches").await;
    let name = format!("swaplet-{:020x}", std::process::id());
    let cache = json!({"apiVersion": "eci.alibabacloud.com/v1", "kind": "ImageCache",
        "metadata": {"name": name, "labels": {"swaplet.io/image-cache": "team"}},
        "spec": {"images": ["registry.example/app:v1"], "imageCacheSize": 20, "retentionDays": 7}});
    let administrator: Api<DynamicObject> =
        Api::all_with(leashed.world.client.clone(), &resource());
    administrator
        .create(
            &PostParams::default(),
            &serde_json::from_value(cache).unwrap(),
        )
        .await
        .unwrap();

    let (table, accounts) = (
        include_str!("tables/image-caches.yaml"),
        Accounts::of(&leashed.world.namespace).await,
    );
    let filling = Filling {
        words: [("cache".to_owned(), name.clone())].into(),
        made: [].into(),
    };
    leashed.table_is_on(table, &accounts, &filling).await;
    let denied = leashed.all_writes_of(table, &accounts, &filling).await;
    println!("{denied} writes of image caches were denied");
    administrator
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    leashed.done().await;
}
