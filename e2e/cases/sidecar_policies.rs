//! Sidecars that nobody has marked, and the policies that name them.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::world::{World, create_crd};

static CRDS: OnceCell<()> = OnceCell::const_new();

/// The API server knows both kinds of policies.
pub async fn crds_are_there() {
    CRDS.get_or_init(|| async {
        create_crd("sidecarpolicies").await;
        create_crd("namespacedsidecarpolicies").await;
    })
    .await;
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "swaplet.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "swaplet.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// What the API server makes of a policy, without keeping it.
async fn tried(world: &World, spec: &Value) -> Result<DynamicObject, String> {
    let resource = resource("NamespacedSidecarPolicy", "namespacedsidecarpolicies");
    let policies: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
    let policy = DynamicObject::new("tried", &resource).data(json!({"spec": spec}));
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    policies
        .create(&params, &policy)
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_crd_refuses_what_no_policy_can_mean_and_fills_in_the_rest() {
    crds_are_there().await;
    let world = World::new("policy-crd").await;
    let rule = |rule: Value| json!({"sidecars": [rule]});
    for (spec, word) in [
        (json!({"sidecars": []}), "spec.sidecars"),
        (rule(json!({})), "either a preset, or name or image or both"),
        (
            rule(json!({"preset": "istio", "name": "a"})),
            "either a preset, or name or image or both",
        ),
        (rule(json!({"name": "UPPER"})), "sidecars[0].name"),
        (
            rule(json!({"name": "a", "method": "Kill"})),
            "sidecars[0].method",
        ),
        (
            rule(json!({"name": "a", "method": "Finish", "exitImage": "e:1"})),
            "an exitImage is for the methods Auto and Swap",
        ),
        (
            rule(json!({"name": "a", "delaySeconds": 86_401})),
            "delaySeconds",
        ),
        (
            rule(json!({"name": "a", "waitForExit": {"deadlineSeconds": 0}})),
            "deadlineSeconds",
        ),
        (rule(json!({"name": "a", "order": 1_001})), "order"),
        (
            json!({"ownerKinds": ["batch/v1 Job"], "sidecars": [{"name": "a"}]}),
            "ownerKinds",
        ),
        (
            json!({"podSelector": {"matchLabels": {"a": "not a value"}}, "sidecars": [{"name": "a"}]}),
            "podSelector",
        ),
    ] {
        let refused = tried(&world, &spec).await.expect_err("it is refused");
        assert!(refused.contains(word), "{spec}: {refused}");
    }
    let accepted = tried(&world, &rule(json!({"preset": "istio", "order": 1})))
        .await
        .unwrap();
    let spec = &accepted.data["spec"];
    assert_eq!(spec["ownerKinds"], json!(["Job"]));
    assert_eq!(spec["sidecars"][0]["method"], "Auto");
    world.done().await;
}
