//! What the CRDs refuse, take and fill in, as OpenKruise's webhooks do.

use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};

use super::{Jobs, LIST, ONE};
use crate::world::kubectl;

/// What is refused, with a word of the reason; of both kinds, but for the image.
fn refused() -> Vec<(Value, &'static str)> {
    vec![
        (json!({}), "spec.completionPolicy: Required value"),
        (
            json!({"completionPolicy": {}, "selector": {"names": ["n"], "matchLabels": {"a": "b"}}}),
            "can not set both names and labelSelector",
        ),
        (
            json!({"completionPolicy": {}, "selector": {"names": ["n", "n"]}}),
            "Duplicate value",
        ),
        (
            json!({"completionPolicy": {}, "selector": {"matchLabels": {"a": "b c"}}}),
            "spec.selector.matchLabels.a",
        ),
        (
            json!({"completionPolicy": {}, "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "invalid selector",
        ),
        (
            json!({"completionPolicy": {}, "podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            "Unsupported value",
        ),
        (
            json!({"completionPolicy": {}, "selector": {}, "podSelector": {}}),
            "can not set both selector and podSelector",
        ),
    ]
}

/// Policies and numbers that are refused, in the same way.
fn refused_policies() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({"completionPolicy": {}, "parallelism": -1}),
            "parallelism must be a non-negative integer",
        ),
        (
            json!({"completionPolicy": {}, "parallelism": "-1"}),
            "parallelism must be a non-negative integer",
        ),
        (
            json!({"completionPolicy": {}, "parallelism": "many"}),
            "parallelism must be a non-negative integer",
        ),
        (
            json!({"completionPolicy": {}, "parallelism": "101%"}),
            "parallelism must be a non-negative integer",
        ),
        (
            json!({"completionPolicy": {"type": "Sometimes"}}),
            "Unsupported value",
        ),
        (
            json!({"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 1}}),
            "can only work with Always",
        ),
        (
            json!({"completionPolicy": {"type": "Never", "activeDeadlineSeconds": 900}}),
            "can only work with Always",
        ),
        (
            json!({"completionPolicy": {}, "imagePullPolicy": "Sometimes"}),
            "Unsupported value",
        ),
        (
            json!({"completionPolicy": {}, "pullPolicy": {"timeoutSeconds": 0}}),
            "spec.pullPolicy.timeoutSeconds",
        ),
    ]
}

/// The fields of a job with an image, or with a list of this one.
fn with_image(kind: JobKind, image: &str, mut spec: Value) -> Value {
    match kind {
        JobKind::ImagePullJob => spec["image"] = image.into(),
        JobKind::ImageListPullJob => spec["images"] = json!([image]),
    }
    spec
}

#[tokio::test]
async fn the_crds_refuse_what_openkruises_webhooks_refuse() {
    let jobs = Jobs::new("pull-crd").await;
    for kind in JobKind::ALL {
        for (spec, word) in [refused(), refused_policies()].concat() {
            let error = jobs
                .create(kind, "bad", &with_image(kind, "app:1", spec))
                .await
                .expect_err(word)
                .to_string();
            assert!(error.contains(word), "{kind:?}: {error}");
        }
        for image in ["", "a/B", "a b", "a:", "a@sha256:12", "-a"] {
            let error = jobs
                .create(
                    kind,
                    "bad",
                    &with_image(kind, image, json!({"completionPolicy": {}})),
                )
                .await
                .expect_err(image);
            assert!(error.to_string().contains("spec.image"), "{image}: {error}");
        }
    }
    for images in [
        json!([]),
        json!(["a", "a"]),
        json!((0..256).map(|n| format!("a:{n}")).collect::<Vec<_>>()),
    ] {
        let spec = json!({"images": images, "completionPolicy": {}});
        assert!(jobs.create(LIST, "bad", &spec).await.is_err(), "{images}");
    }
    let spec = json!({"image": "a", "completionPolicy": {"activeDeadlineSeconds": 599}});
    let error = jobs
        .create(ONE, "bad", &spec)
        .await
        .expect_err("the deadline")
        .to_string();
    assert!(
        error.contains("must be greater than pullPolicy.timeoutSeconds"),
        "{error}"
    );
    jobs.world.done().await;
}

#[tokio::test]
async fn the_crds_take_what_openkruises_webhooks_take_and_fill_in_the_same() {
    let jobs = Jobs::new("pull-take").await;
    take_jobs_of_both_kinds(&jobs).await;
    let half = json!({"image": "a", "completionPolicy": {"activeDeadlineSeconds": 600}, "pullPolicy": {"backoffLimit": 1}, "pullSecrets": ["s"]});
    let created = jobs.create(ONE, "half", &half).await.unwrap();
    assert_eq!(
        created.data["spec"]["pullPolicy"],
        json!({"timeoutSeconds": 600, "backoffLimit": 1})
    );
    assert_eq!(
        (
            &created.data["spec"]["imagePullPolicy"],
            created.metadata.finalizers
        ),
        (&json!("IfNotPresent"), None)
    );
    for secrets in [json!(["other"]), json!(null), json!([])] {
        let error = jobs
            .edit(ONE, "half", &json!({"pullSecrets": secrets}))
            .await
            .expect_err("immutable")
            .to_string();
        assert!(error.contains("spec.pullSecrets is immutable"), "{error}");
    }
    let edited = jobs
        .edit(
            ONE,
            "half",
            &json!({"image": "b", "parallelism": 7, "selector": {"names": ["n"]}}),
        )
        .await
        .unwrap();
    assert_eq!(edited.metadata.generation, Some(2));
    jobs.create(
        LIST,
        "list",
        &json!({"images": ["a"], "completionPolicy": {}, "pullSecrets": ["s"]}),
    )
    .await
    .unwrap();
    jobs.edit(LIST, "list", &json!({"pullSecrets": ["other"]}))
        .await
        .unwrap();
    both_versions_are_served(&jobs).await;
    jobs.world.done().await;
}

async fn take_jobs_of_both_kinds(jobs: &Jobs) {
    let digest = format!("r.example:5000/a/b_c:v1@sha256:{}", "0".repeat(64));
    let images = [
        "a",
        "a/b:c",
        "localhost/a-b",
        "r.example:5000/a/b__c:V_1.x-y",
        &digest,
    ];
    for (image, parallelism) in images.into_iter().zip([
        json!("5"),
        json!("0"),
        json!(0),
        json!("10%"),
        json!("100%"),
    ]) {
        for kind in JobKind::ALL {
            let spec = with_image(
                kind,
                image,
                json!({"completionPolicy": {}, "parallelism": parallelism}),
            );
            let created = jobs
                .create(kind, &format!("j{}", image.len()), &spec)
                .await
                .unwrap();
            assert_eq!(
                created.data["spec"]["completionPolicy"],
                json!({"type": "Always"})
            );
            assert_eq!(
                created.data["spec"]["pullPolicy"],
                json!({"timeoutSeconds": 600, "backoffLimit": 3})
            );
            assert!(PullJob::read(kind, created.into()).unwrap().spec.is_ok());
        }
    }
}

async fn both_versions_are_served(jobs: &Jobs) {
    let namespace = &*jobs.world.namespace;
    for version in ["v1alpha1", "v1beta1"] {
        let printed = kubectl(&[
            "get",
            &format!("imagepulljobs.{version}.apps.kruise.io"),
            "half",
            "-n",
            namespace,
        ])
        .await;
        let head: Vec<_> = printed
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let columns = [
            "NAME", "TOTAL", "ACTIVE", "SUCCEED", "FAILED", "AGE", "MESSAGE",
        ];
        assert_eq!(
            head,
            columns[..if version == "v1alpha1" { 7 } else { 6 }],
            "{printed}"
        );
        let printed = kubectl(&[
            "get",
            &format!("imagelistpulljobs.{version}.apps.kruise.io"),
            "list",
            "-n",
            namespace,
        ])
        .await;
        assert!(
            printed.starts_with("NAME   TOTAL   SUCCEEDED   COMPLETED   AGE"),
            "{printed}"
        );
    }
    for kind in JobKind::ALL {
        jobs.api(kind)
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .unwrap();
    }
}
