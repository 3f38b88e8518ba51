//! `ImagePullJob`s and `ImageListPullJob`s on a real API server and kubelet.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use swaplet::objects::pull_job::{JobKind, PullJob};
use tokio::sync::OnceCell;

use crate::world::{World, kubectl};

static CRDS: OnceCell<()> = OnceCell::const_new();

/// Never over one that is there.
async fn install_crds() {
    for kind in JobKind::ALL {
        let crd = format!("{}.apps.kruise.io", kind.plural());
        if kubectl(&["get", "crd", &crd, "--ignore-not-found", "-o", "name"]).await.is_empty() {
            let file = format!("{}/deploy/crds/{}.yaml", env!("CARGO_MANIFEST_DIR"), kind.plural());
            kubectl(&["create", "-f", &file]).await;
        }
        kubectl(&["wait", "--for=condition=Established", &format!("crd/{crd}"), "--timeout=30s"]).await;
    }
}

/// The API server knows both kinds.
pub async fn crds_are_there() {
    CRDS.get_or_init(install_crds).await;
}

/// A namespace for jobs.
struct Jobs {
    world: World,
}

impl Jobs {
    async fn new(case: &str) -> Self {
        crds_are_there().await;
        Self { world: World::new(case).await }
    }

    fn api(&self, kind: JobKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.world.client.clone(), &self.world.namespace, &kind.resource())
    }

    async fn create(&self, kind: JobKind, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
        let resource = kind.resource();
        let job = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec});
        self.api(kind).create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await
    }

    async fn edit(&self, kind: JobKind, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await
    }
}

/// What is refused, with a word of the reason; of both kinds, but for the image.
fn refused() -> Vec<(Value, &'static str)> {
    vec![
        (json!({}), "spec.completionPolicy: Required value"),
        (
            json!({"completionPolicy": {}, "selector": {"names": ["n"], "matchLabels": {"a": "b"}}}),
            "can not set both names and labelSelector",
        ),
        (json!({"completionPolicy": {}, "selector": {"names": ["n", "n"]}}), "Duplicate value"),
        (json!({"completionPolicy": {}, "selector": {"matchLabels": {"a": "b c"}}}), "spec.selector.matchLabels.a"),
        (json!({"completionPolicy": {}, "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}), "invalid selector"),
        (json!({"completionPolicy": {}, "podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}), "Unsupported value"),
        (json!({"completionPolicy": {}, "selector": {}, "podSelector": {}}), "can not set both selector and podSelector"),
        (json!({"completionPolicy": {}, "parallelism": -1}), "parallelism must be a non-negative integer"),
        (json!({"completionPolicy": {}, "parallelism": "-1"}), "parallelism must be a non-negative integer"),
        (json!({"completionPolicy": {}, "parallelism": "many"}), "parallelism must be a non-negative integer"),
        (json!({"completionPolicy": {}, "parallelism": "101%"}), "parallelism must be a non-negative integer"),
        (json!({"completionPolicy": {"type": "Sometimes"}}), "Unsupported value"),
        (json!({"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 1}}), "can only work with Always"),
        (json!({"completionPolicy": {"type": "Never", "activeDeadlineSeconds": 900}}), "can only work with Always"),
        (json!({"completionPolicy": {}, "imagePullPolicy": "Sometimes"}), "Unsupported value"),
        (json!({"completionPolicy": {}, "pullPolicy": {"timeoutSeconds": 0}}), "spec.pullPolicy.timeoutSeconds"),
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
        for (spec, word) in refused() {
            let error = jobs.create(kind, "bad", &with_image(kind, "app:1", spec)).await.expect_err(word).to_string();
            assert!(error.contains(word), "{kind:?}: {error}");
        }
        for image in ["", "a/B", "a b", "a:", "a@sha256:12", "-a"] {
            let error = jobs.create(kind, "bad", &with_image(kind, image, json!({"completionPolicy": {}}))).await.expect_err(image);
            assert!(error.to_string().contains("spec.image"), "{image}: {error}");
        }
    }
    for images in [json!([]), json!(["a", "a"]), json!((0..256).map(|n| format!("a:{n}")).collect::<Vec<_>>())] {
        let spec = json!({"images": images, "completionPolicy": {}});
        assert!(jobs.create(JobKind::ImageListPullJob, "bad", &spec).await.is_err(), "{images}");
    }
    let spec = json!({"image": "a", "completionPolicy": {"activeDeadlineSeconds": 599}});
    let error = jobs.create(JobKind::ImagePullJob, "bad", &spec).await.expect_err("the deadline").to_string();
    assert!(error.contains("must be greater than pullPolicy.timeoutSeconds"), "{error}");
    jobs.world.done().await;
}

#[tokio::test]
async fn the_crds_take_what_openkruises_webhooks_take_and_fill_in_the_same() {
    let jobs = Jobs::new("pull-take").await;
    let digest = format!("r.example:5000/a/b_c:v1@sha256:{}", "0".repeat(64));
    let images = ["a", "a/b:c", "localhost/a-b", "r.example:5000/a/b__c:V_1.x-y", &digest];
    for (image, parallelism) in images.into_iter().zip([json!("5"), json!("0"), json!(0), json!("10%"), json!("100%")]) {
        for kind in JobKind::ALL {
            let spec = with_image(kind, image, json!({"completionPolicy": {}, "parallelism": parallelism}));
            let created = jobs.create(kind, &format!("j{}", image.len()), &spec).await.unwrap();
            assert_eq!(created.data["spec"]["completionPolicy"], json!({"type": "Always"}));
            assert_eq!(created.data["spec"]["pullPolicy"], json!({"timeoutSeconds": 600, "backoffLimit": 3}));
            assert!(PullJob::read(kind, created).unwrap().spec.is_ok());
        }
    }
    let one = JobKind::ImagePullJob;
    let half =
        json!({"image": "a", "completionPolicy": {"activeDeadlineSeconds": 600}, "pullPolicy": {"backoffLimit": 1}, "pullSecrets": ["s"]});
    let created = jobs.create(one, "half", &half).await.unwrap();
    assert_eq!(created.data["spec"]["pullPolicy"], json!({"timeoutSeconds": 600, "backoffLimit": 1}));
    assert_eq!((&created.data["spec"]["imagePullPolicy"], created.metadata.finalizers), (&json!("IfNotPresent"), None));
    for secrets in [json!(["other"]), json!(null), json!([])] {
        let error = jobs.edit(one, "half", &json!({"pullSecrets": secrets})).await.expect_err("immutable").to_string();
        assert!(error.contains("spec.pullSecrets is immutable"), "{error}");
    }
    let edited = jobs.edit(one, "half", &json!({"image": "b", "parallelism": 7, "selector": {"names": ["n"]}})).await.unwrap();
    assert_eq!(edited.metadata.generation, Some(2));
    jobs.create(JobKind::ImageListPullJob, "list", &json!({"images": ["a"], "completionPolicy": {}, "pullSecrets": ["s"]})).await.unwrap();
    jobs.edit(JobKind::ImageListPullJob, "list", &json!({"pullSecrets": ["other"]})).await.unwrap();
    both_versions_are_served(&jobs).await;
    jobs.world.done().await;
}

async fn both_versions_are_served(jobs: &Jobs) {
    let namespace = &*jobs.world.namespace;
    for version in ["v1alpha1", "v1beta1"] {
        let printed = kubectl(&["get", &format!("imagepulljobs.{version}.apps.kruise.io"), "half", "-n", namespace]).await;
        let head: Vec<_> = printed.lines().next().unwrap_or_default().split_whitespace().collect();
        let columns = ["NAME", "TOTAL", "ACTIVE", "SUCCEED", "FAILED", "AGE", "MESSAGE"];
        assert_eq!(head, columns[..if version == "v1alpha1" { 7 } else { 6 }], "{printed}");
        let printed = kubectl(&["get", &format!("imagelistpulljobs.{version}.apps.kruise.io"), "list", "-n", namespace]).await;
        assert!(printed.starts_with("NAME   TOTAL   SUCCEEDED   COMPLETED   AGE"), "{printed}");
    }
    for kind in JobKind::ALL {
        jobs.api(kind).delete_collection(&DeleteParams::default(), &kube::api::ListParams::default()).await.unwrap();
    }
}
