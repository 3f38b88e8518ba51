//! Of image caches, those of swaplet may be made, and nothing else.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use swaplet::objects::image_cache::resource;

use super::{Leashed, dry_post};
use crate::image_caches::crd_is_there;
use crate::world::{eventually, kubectl};

/// As the controller makes one; the name is that of a digest.
fn cache(name: &str) -> Value {
    json!({"apiVersion": "eci.alibabacloud.com/v1", "kind": "ImageCache",
        "metadata": {"name": name, "labels": {"swaplet.io/image-cache": "true"}},
        "spec": {"images": ["registry.example/app:v1"], "imagePullSecrets": ["team:login"], "imageCacheSize": 20, "retentionDays": 7}})
}

/// With another value at this place.
fn with(path: &str, value: Value) -> Value {
    let mut cache = cache("swaplet-00000000000000000000");
    *cache.pointer_mut(path).unwrap() = value;
    cache
}

#[tokio::test]
async fn of_image_caches_those_of_swaplet_can_be_made_and_none_be_changed_or_deleted() {
    crd_is_there().await;
    let leashed = Leashed::new("leash-caches").await;
    let role = leashed.world.namespace.clone();
    kubectl(&["create", "clusterrole", &role, "--verb=*", "--resource=imagecaches.eci.alibabacloud.com"]).await;
    let binding = format!("{role}-image-caches");
    kubectl(&["create", "clusterrolebinding", &binding, "--clusterrole", &role, &format!("--serviceaccount={role}:swaplet")]).await;
    let caches: Api<DynamicObject> = Api::all_with(leashed.swaplet.clone(), &resource());
    let create = async |object: Value| {
        caches.create(&dry_post(), &serde_json::from_value(object).unwrap()).await.map(drop).map_err(|error| error.to_string())
    };
    let form = "is named by a digest, and has the label swaplet.io/image-cache alone";
    let end = "and a number of days after which it ends";
    eventually("the leash of image caches to be on", || async {
        create(with("/metadata/name", json!("tensorflow"))).await.err().filter(|error| error.contains(form))
    })
    .await;
    for (object, words) in [
        (with("/metadata/name", json!("swaplet-tensorflow")), form),
        (with("/metadata/labels", json!({"swaplet.io/image-cache": "true", "a": "b"})), form),
        (with("/metadata", json!({"name": "swaplet-00000000000000000000"})), form),
        (with("/spec", json!({"images": ["a"]})), end),
        (with("/spec", json!({"images": ["a"], "retentionDays": 0})), end),
    ] {
        let error = create(object.clone()).await.expect_err(&object.to_string());
        assert!(error.contains(words), "{object}: {error}");
    }
    create(cache("swaplet-00000000000000000000")).await.unwrap();

    let name = format!("swaplet-{:020x}", std::process::id());
    let administrator: Api<DynamicObject> = Api::all_with(leashed.world.client.clone(), &resource());
    administrator.create(&PostParams::default(), &serde_json::from_value(cache(&name)).unwrap()).await.unwrap();
    let (dry, patch) = (PatchParams { dry_run: true, ..PatchParams::default() }, Patch::Merge(json!({"spec": {"retentionDays": 65_536}})));
    let refused = caches.patch(&name, &dry, &patch).await.expect_err("a change").to_string();
    assert!(refused.contains("makes image caches, and changes and deletes none"), "{refused}");
    let refused =
        caches.delete(&name, &DeleteParams { dry_run: true, ..DeleteParams::default() }).await.expect_err("a deletion").to_string();
    assert!(refused.contains("makes image caches, and changes and deletes none"), "{refused}");
    administrator.delete(&name, &DeleteParams::default()).await.unwrap();
    kubectl(&["delete", "clusterrolebinding", &binding]).await;
    kubectl(&["delete", "clusterrole", &role]).await;
    leashed.done().await;
}
