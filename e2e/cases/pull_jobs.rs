//! `ImagePullJob`s and `ImageListPullJob`s on a real API server and kubelet.

mod shapes;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use swaplet::image::Kind;
use swaplet::image::build::build;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use tokio::sync::OnceCell;

use crate::commands::send;
use crate::controller::{Controller, Why};
use crate::images::Images;
use crate::pods::{EXITS_0, container, pod, sidecar, spec};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::warm_images::push;
use crate::warm_registry::{create_login, fails_to_pull_from, image_behind};
use crate::witness::Witness;
use crate::world::{World, create_crd, eventually, kubectl, variable};

const ONE: JobKind = JobKind::ImagePullJob;
const LIST: JobKind = JobKind::ImageListPullJob;

static CRDS: OnceCell<()> = OnceCell::const_new();

async fn install_crds() {
    for kind in JobKind::ALL {
        create_crd(kind.plural()).await;
    }
}

/// The API server knows both kinds.
pub async fn crds_are_there() {
    CRDS.get_or_init(install_crds).await;
}

/// A namespace for jobs.
pub struct Jobs {
    pub world: World,
}

impl Jobs {
    async fn new(case: &str) -> Self {
        crds_are_there().await;
        Self {
            world: World::new(case).await,
        }
    }

    /// A namespace under pod security `restricted` in which pods may be made, as `deploy/warm.yaml`
    /// has it.
    pub async fn with_pods(case: &str) -> Self {
        let jobs = Self::new(case).await;
        let namespace = &*jobs.world.namespace;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("warm.yaml");
        std::fs::write(
            &file,
            include_str!("../../deploy/warm.yaml").replace("swaplet-warm", namespace),
        )
        .unwrap();
        kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
        let account = format!("--serviceaccount={namespace}:swaplet");
        kubectl(&[
            "create",
            "rolebinding",
            "warmer",
            "-n",
            namespace,
            "--clusterrole",
            namespace,
            &account,
        ])
        .await;
        jobs
    }

    pub async fn controller(&self) -> Controller {
        Controller::start_with(
            &self.world,
            &["--warm", "--park-image", &self.world.images.park],
        )
        .await
    }

    /// A job for the node of the cluster.
    async fn start(&self, kind: JobKind, name: &str, mut spec: Value) {
        spec["selector"] = json!({"names": [variable("SWAPLET_E2E_NODE")]});
        if spec["completionPolicy"].is_null() {
            spec["completionPolicy"] = json!({});
        }
        self.create(kind, name, &spec).await.unwrap();
    }

    pub async fn completed(&self, kind: JobKind, name: &str) -> Value {
        eventually(&format!("{kind:?} {name} to be completed"), || async {
            let status = self.api(kind).get(name).await.unwrap().data["status"].clone();
            status["completionTime"].is_string().then_some(status)
        })
        .await
    }

    /// The warmer pods of a job, once there are some or none.
    async fn has_pods(&self, some: bool) {
        let jobs = ListParams::default().labels("swaplet.io/pull-job");
        eventually(
            if some {
                "a warmer pod"
            } else {
                "the warmer pods to be gone"
            },
            || async {
                (self
                    .world
                    .api::<Pod>()
                    .list(&jobs)
                    .await
                    .unwrap()
                    .items
                    .is_empty()
                    != some)
                    .then_some(())
            },
        )
        .await;
    }

    /// Waits until the kubelet has said this of the image of a pod, or of any pod where no name is
    /// given.
    async fn pulls(&self, pod: &str, image: &str, words: &str) {
        let about = if pod.is_empty() {
            String::new()
        } else {
            format!(",involvedObject.name={pod}")
        };
        let pulled = ListParams::default().fields(&format!("reason=Pulled{about}"));
        eventually(
            &format!("the kubelet to say of {image}: {words}"),
            || async {
                let events = self.world.api::<Event>().list(&pulled).await.unwrap();
                let mut messages = events.items.into_iter().filter_map(|event| event.message);
                messages
                    .any(|message| {
                        message.contains(&format!("\"{image}\"")) && message.contains(words)
                    })
                    .then_some(())
            },
        )
        .await;
    }

    pub async fn done(self) {
        let namespace = self.world.namespace.clone();
        for name in [
            namespace.clone(),
            format!("{namespace}-nodes"),
            format!("{namespace}-startup-taint"),
            format!("{namespace}-image-caches"),
        ] {
            kubectl(&["delete", "clusterrole", "--ignore-not-found", &name]).await;
        }
        self.world.done().await;
    }

    pub fn api(&self, kind: JobKind) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.world.client.clone(),
            &self.world.namespace,
            &kind.resource(),
        )
    }

    pub async fn create(
        &self,
        kind: JobKind,
        name: &str,
        spec: &Value,
    ) -> kube::Result<DynamicObject> {
        let resource = kind.resource();
        let job = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec});
        self.api(kind)
            .create(
                &PostParams::default(),
                &serde_json::from_value(job).unwrap(),
            )
            .await
    }

    pub async fn edit(
        &self,
        kind: JobKind,
        name: &str,
        spec: &Value,
    ) -> kube::Result<DynamicObject> {
        self.api(kind)
            .patch(
                name,
                &PatchParams::default(),
                &Patch::Merge(json!({"spec": spec})),
            )
            .await
    }
}

/// As pod security `restricted` has it.
fn restricted(restart_policy: &str, mut containers: Vec<Value>) -> Value {
    for container in &mut containers {
        container["securityContext"] =
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    }
    let mut spec = spec(restart_policy, containers);
    spec["securityContext"] = json!({"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}});
    spec
}

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

#[tokio::test(flavor = "multi_thread")]
async fn two_list_jobs_at_once_share_a_node_and_tell_what_is_missing() {
    let jobs = Jobs::with_pods("pull-lists").await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let name = |image: &str| format!("{registry}/e2e/jobs-{image}:{}", std::process::id());
    let images = ["one", "two", "three", "four"].map(&name);
    for image in &images {
        push(
            &registry,
            image,
            json!({"User": "no-such-user", "Entrypoint": ["/no/such/program"]}),
            64,
        )
        .await;
    }
    let missing = name("missing");
    let _controller = jobs.controller().await;
    let mut all = images.to_vec();
    all.insert(1, missing.clone());
    jobs.start(
        LIST,
        "all",
        json!({"images": all, "pullPolicy": {"backoffLimit": 0}}),
    )
    .await;
    jobs.start(LIST, "some", json!({"images": images[1..]}))
        .await;
    let status = jobs.completed(LIST, "all").await;
    let (count, good) = (all.len(), all.len() - 1);
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [count, count, good],
        "{status}"
    );
    tells_what_is_missing(&status, &missing);
    let status = jobs.completed(LIST, "some").await;
    assert_eq!(
        [&status["completed"], &status["succeeded"]],
        [3, 3],
        "{status}"
    );
    jobs.has_pods(false).await;
    // The kubelet itself is the judge.
    jobs.world
        .create_pod(pod(
            "user",
            restricted("Never", vec![json!({"name": "main", "image": images[0]})]),
        ))
        .await;
    jobs.pulls("user", &images[0], "already present").await;
    jobs.done().await;
}

fn tells_what_is_missing(status: &Value, missing: &str) {
    let failed = &status["failedImageStatuses"];
    assert_eq!(
        (failed.as_array().unwrap().len(), &failed[0]["name"]),
        (1, &json!(missing))
    );
    assert!(
        failed[0]["message"].as_str().unwrap().contains("not found"),
        "{failed}"
    );
    // The first image is wanted by this job alone, and its pull is long past.
    let pulls = &status["imageStatuses"][0]["pulls"];
    assert!(
        pulls["nodes"] == 1 && pulls["bytes"].as_u64() > Some(0) && pulls["slowest"].is_string(),
        "{status}"
    );
}

/// One life of a controller after another, each killed right after the API server has carried out
/// another kind of write of its.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_that_die_at_every_kind_of_write_end_the_job_as_one_that_does_not() {
    let mut jobs = Jobs::with_pods("pull-kill").await;
    let witness = Witness::of(&mut jobs.world).await;
    let (work, exit, missing) = (
        &jobs.world.images.work,
        &jobs.world.images.exit,
        &jobs.world.images.missing,
    );
    jobs.start(
        LIST,
        "l",
        json!({"images": [work, missing, exit], "pullPolicy": {"backoffLimit": 0}}),
    )
    .await;
    let arguments = ["--warm", "--park-image", &jobs.world.images.park];
    let written = witness.life_of_one_write(&jobs.world, &arguments).await;
    assert!(
        written.ends_with("/imagelistpulljobs/l/status"),
        "when the job was begun comes first: {written}"
    );
    let is_swap = |write: &str, _: &str| write.starts_with("PATCH") && write.contains("/pods/");
    // A new life knows nothing, and asks for the first image again; so the last of them has to do
    // it all, and so has the one after it.
    witness
        .life_until(
            |write, _| write.starts_with("POST") && write.ends_with("/pods"),
            &jobs.world,
            &arguments,
        )
        .await;
    witness.life_until(is_swap, &jobs.world, &arguments).await;
    witness.life_until(is_swap, &jobs.world, &arguments).await;
    witness
        .life_until(
            |write, _| write.starts_with("DELETE") && write.contains("/pods/"),
            &jobs.world,
            &arguments,
        )
        .await;
    witness
        .life_until(
            |_, body| body.contains("completionTime\":\""),
            &jobs.world,
            &arguments,
        )
        .await;
    ended_but_for(&jobs, &jobs.world.images.missing).await;
    witness.all_writes();
    let _last = jobs.controller().await;
    jobs.has_pods(false).await;
    jobs.done().await;
}

async fn ended_but_for(jobs: &Jobs, missing: &str) {
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [3, 3, 2],
        "{status}"
    );
    assert_eq!(status["failedImageStatuses"][0]["name"], *missing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_tag_is_pulled_by_the_digest_that_it_had_when_the_job_began() {
    let jobs = Jobs::with_pods("pull-pins").await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let image = format!("{registry}/e2e/pins:{}", std::process::id());
    let first = push(&registry, &image, json!({"Labels": {"push": "first"}}), 64).await;
    // This machine is asked only where it is listed.
    let arguments = [
        "--warm",
        "--park-image",
        &jobs.world.images.park,
        "--plain-http",
        &registry,
    ];
    let _controller = Controller::process(&jobs.world, &arguments, Why::Registry).await;
    let job = json!({"apiVersion": ONE.resource().api_version, "kind": "ImagePullJob",
        "metadata": {"name": "pinned", "annotations": {"swaplet.io/pin-tags": "true"}},
        "spec": {"image": image, "parallelism": 0, "completionPolicy": {}, "selector": {"names": [variable("SWAPLET_E2E_NODE")]}}});
    jobs.api(ONE)
        .create(
            &PostParams::default(),
            &serde_json::from_value(job).unwrap(),
        )
        .await
        .unwrap();
    eventually("the tag to be pinned", || async {
        let status = jobs.api(ONE).get("pinned").await.unwrap().data["status"].clone();
        (status["pinned"] == json!([{"image": image, "digest": first}])
            && status["startTime"].is_string())
        .then_some(())
    })
    .await;
    let second = push(&registry, &image, json!({"Labels": {"push": "second"}}), 64).await;
    assert_ne!(first, second);
    jobs.edit(ONE, "pinned", &json!({"parallelism": 1}))
        .await
        .unwrap();
    let status = jobs.completed(ONE, "pinned").await;
    assert_eq!(
        [
            &status["succeeded"],
            &status["failed"],
            &status["pinned"][0]["digest"]
        ],
        [&json!(1), &json!(0), &json!(first)],
        "{status}"
    );
    jobs.pulls("", &format!("{image}@{first}"), "Successfully pulled")
        .await;
    are_on_the_node(&jobs, &image, &first, &second).await;
    jobs.done().await;
}

/// The image of the first push is on the node, by any name, and that of the second is not.
async fn are_on_the_node(jobs: &Jobs, image: &str, first: &str, second: &str) {
    let repository = image.rsplit_once(':').unwrap().0;
    for (pod_name, image, words) in [
        ("digest", format!("{repository}@{first}"), "already present"),
        (
            "tag-and-digest",
            format!("{image}@{first}"),
            "already present",
        ),
        (
            "moved",
            format!("{repository}@{second}"),
            "Successfully pulled",
        ),
    ] {
        jobs.world
            .create_pod(pod(
                pod_name,
                restricted("Never", vec![json!({"name": "main", "image": image})]),
            ))
            .await;
        jobs.pulls(pod_name, &image, words).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_make_pods_a_job_fails_and_names_it() {
    let jobs = Jobs::new("pull-denied").await;
    let arguments = ["--warm", "--park-image", &jobs.world.images.park];
    let _controller = Controller::process(&jobs.world, &arguments, Why::NotByTheChart).await;
    jobs.start(
        ONE,
        "denied",
        json!({"image": jobs.world.images.work, "pullSecrets": ["login"]}),
    )
    .await;
    let status = jobs.completed(ONE, "denied").await;
    assert_eq!(
        [&status["desired"], &status["succeeded"], &status["failed"]],
        [1, 0, 1],
        "{status}"
    );
    let why = status["failures"][0]["message"].as_str().unwrap();
    assert!(
        why.contains("cannot create resource \"pods\"") && why.contains(&jobs.world.namespace),
        "{why}"
    );
    jobs.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_image_is_on_the_node_before_a_pod_needs_it() {
    let mut jobs = Jobs::with_pods("pull-exit").await;
    let (registry, process) = (variable("SWAPLET_E2E_REGISTRY"), std::process::id());
    let exit = format!("{registry}/swaplet/exit:e2e-{process}");
    send(
        &exit,
        &build(Kind::Exit, [format!("/only/{process}")]).unwrap(),
    )
    .await;
    let Images {
        work,
        park,
        missing,
        ..
    } = jobs.world.images;
    let images = Images {
        work: work.clone(),
        exit: exit.clone(),
        park: park.clone(),
        missing: missing.clone(),
    };
    jobs.world.images = Box::leak(Box::new(images));
    let _controller = Controller::start_with(
        &jobs.world,
        &["--warm", "--warm-exit-images", "--park-image", park],
    )
    .await;
    jobs.pulls("", &exit, "Successfully pulled").await;
    jobs.has_pods(false).await;
    let containers = vec![
        container(&jobs.world, "main", "true"),
        sidecar(&jobs.world, "log", EXITS_0),
    ];
    jobs.world
        .create_pod(pod("ends", restricted("Never", containers)))
        .await;
    jobs.world.pod_ends("ends", "Succeeded").await;
    jobs.pulls("ends", &exit, "already present").await;
    jobs.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_never_job_pulls_a_private_image_with_the_secret_of_its_own_namespace_also_when_that_is_mended()
 {
    let jobs = Jobs::with_pods("pull-private").await;
    let private = RegistryProxy::start(Manner::Login("reader", "correct-horse")).await;
    let image = image_behind(&private, "never").await;
    create_login(&jobs.world, &private, "wrong-donkey").await;
    // The pods of jobs without secrets would be in a namespace where the controller has no rights.
    let arguments = [
        "--warm",
        "--park-image",
        &jobs.world.images.park,
        "--warm-namespace",
        "default",
    ];
    let _controller = Controller::start_with(&jobs.world, &arguments).await;
    let spec = json!({"image": image, "pullSecrets": ["login"], "pullPolicy": {"backoffLimit": 99}, "completionPolicy": {"type": "Never"}});
    jobs.start(ONE, "private", spec).await;
    fails_to_pull_from(&jobs.world, &private).await;
    kubectl(&["delete", "secret", "login", "-n", &jobs.world.namespace]).await;
    create_login(&jobs.world, &private, "correct-horse").await;
    let status = eventually("the image to be there", || async {
        let status = jobs.api(ONE).get("private").await.unwrap().data["status"].clone();
        (status["succeeded"] == 1).then_some(status)
    })
    .await;
    assert!(status["completionTime"].is_null(), "{status}");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("newer kubelets check the pull secrets of each pod again"),
        "{status}"
    );
    jobs.has_pods(false).await;
    jobs.done().await;
}

mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_job_can_be_edited_and_deleted_in_the_middle_and_lives_as_long_as_it_says() {
        let jobs = Jobs::with_pods("pull-edit").await;
        let _controller = jobs.controller().await;
        let (work, exit, missing) = (
            &jobs.world.images.work,
            &jobs.world.images.exit,
            &jobs.world.images.missing,
        );
        jobs.start(
            ONE,
            "edited",
            json!({"image": missing, "pullPolicy": {"backoffLimit": 99}}),
        )
        .await;
        jobs.has_pods(true).await;
        jobs.edit(ONE, "edited", &json!({"image": work}))
            .await
            .unwrap();
        let status = jobs.completed(ONE, "edited").await;
        assert_eq!(
            [
                &status["succeeded"],
                &status["failed"],
                &status["observedGeneration"]
            ],
            [1, 0, 2],
            "{status}"
        );
        jobs.has_pods(false).await;
        jobs.start(
            LIST,
            "deleted",
            json!({"images": [missing], "pullPolicy": {"backoffLimit": 99}}),
        )
        .await;
        jobs.has_pods(true).await;
        jobs.api(LIST)
            .delete("deleted", &DeleteParams::default())
            .await
            .unwrap();
        jobs.has_pods(false).await;
        jobs.start(
            ONE,
            "short",
            json!({"image": exit, "completionPolicy": {"ttlSecondsAfterFinished": 1}}),
        )
        .await;
        eventually("the job to be deleted", || async {
            jobs.api(ONE)
                .get_opt("short")
                .await
                .unwrap()
                .is_none()
                .then_some(())
        })
        .await;
        jobs.has_pods(false).await;
        jobs.done().await;
    }
}
