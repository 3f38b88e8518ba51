//! What the leash lets through: each write of the controller, on pods of every shape.

mod costs;

use k8s_openapi::api::core::v1::{LimitRange, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::terminate::write_finish::finish_patch;
use swaplet_controller::warm::write::{self, Warmers};
use swaplet_core::objects::pod::Phase;
use swaplet_core::objects::pod::annotations::FINISHED;
use swaplet_core::report::decision::Finish;
use swaplet_core::restart::parked::{PARKED, Parked};
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::pull_job::object::PodWishes;

use super::pods::{DIGEST, pod};
use super::{Leashed, dry_post};

/// A strategic merge patch of the image of one container.
pub fn image(container: &str, image: &str) -> Value {
    json!({"spec": {"containers": [{"name": container, "image": image}]}})
}

/// The patch with what a pod with this uid is to say of its parked containers.
pub fn parking(mut patch: Value, uid: &str, park: &str, images: &[(&str, &str)]) -> Value {
    let images = images
        .iter()
        .map(|(container, image)| ((*container).into(), (*image).into()))
        .collect();
    let parked = Parked {
        pod: uid.into(),
        name: "r".into(),
        request: "ru".into(),
        park: park.into(),
        images,
    };
    patch["metadata"] =
        json!({"annotations": {PARKED: parked.as_text()}, "labels": {PARKED: "true"}});
    patch
}

/// The patch of a pod in which nothing is parked any more.
pub fn brought_back(mut patch: Value) -> Value {
    patch["metadata"] = json!({"annotations": {PARKED: null}, "labels": {PARKED: null}});
    patch
}

pub fn warmers(leashed: &Leashed) -> Warmers {
    Warmers {
        namespace: leashed.world.namespace.as_str().into(),
        run: "run1".into(),
        park_image: leashed.world.images.park.as_str().into(),
        job: None,
        owner: None,
        wishes: PodWishes {
            pull_secrets: vec!["secret".into()],
            ..PodWishes::default()
        },
        life_seconds: 600,
    }
}

async fn pods_are_finished(leashed: &Leashed) {
    for (pod, phase) in [
        ("done", Phase::Succeeded),
        ("failed", Phase::Failed),
        ("agent-failed", Phase::Failed),
        ("ended", Phase::Succeeded),
    ] {
        let uid = leashed
            .world
            .api::<Pod>()
            .get(pod)
            .await
            .unwrap()
            .metadata
            .uid
            .unwrap();
        let patch = finish_patch(
            &uid,
            &Finish {
                phase,
                version: None,
                nudge: true,
            },
            time_of_day(),
        );
        let written = leashed
            .patch(pod, "status", &patch)
            .await
            .unwrap_or_else(|error| panic!("{pod} {patch}: {error}"));
        assert!(written.metadata.annotations.unwrap().contains_key(FINISHED));
    }
}

#[tokio::test]
async fn what_the_controller_writes() {
    let leashed = Leashed::new("leash-lets").await;
    leashed.pods_are_there().await;
    let (exit, work) = (
        leashed.world.images.exit.as_str(),
        leashed.world.images.work.as_str(),
    );
    let native = json!({"spec": {"initContainers": [{"name": "native", "image": format!("{work}-restart-2@{DIGEST}")}]}});
    for (pod, patch) in [
        ("done", image("log", exit)),
        ("failed", image("log", exit)),
        ("unmarked", image("other", exit)),
        (
            "running",
            image("main", &format!("{work}-restart-2@{DIGEST}")),
        ),
        (
            "running",
            image("main", &format!("{work}-restart-3@{DIGEST}")),
        ),
        (
            "always",
            image("main", &format!("{work}-restart-2@{DIGEST}")),
        ),
        ("plain", json!({})),
        ("done", native),
    ] {
        leashed
            .patch(pod, "", &patch)
            .await
            .unwrap_or_else(|error| panic!("{pod} {patch}: {error}"));
    }
    pods_are_finished(&leashed).await;
    for gate in ["True", "False"] {
        let gate = json!({"type": "KruisePodReady", "status": gate});
        leashed
            .patch(
                "gated",
                "status",
                &json!({"status": {"conditions": [gate]}}),
            )
            .await
            .unwrap();
    }
    let unready = json!([{"type": "KruisePodReady", "status": "False"}, {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}]);
    leashed
        .patch(
            "gated",
            "status",
            &json!({"status": {"conditions": unready}}),
        )
        .await
        .unwrap();
    containers_are_parked_and_brought_back(&leashed).await;
    names_of_docker_hub(&leashed).await;
    leashed.done().await;
}

async fn containers_are_parked_and_brought_back(leashed: &Leashed) {
    let (work, park) = (
        leashed.world.images.work.as_str(),
        leashed.world.images.park.as_str(),
    );
    let (running, parked) = (leashed.uid("running").await, leashed.uid("parked").await);
    let both = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}, {"name": "log", "image": image}]}});
    for (pod, patch) in [
        (
            "running",
            parking(image("main", park), &running, park, &[("main", work)]),
        ),
        (
            "running",
            parking(both(park), &running, park, &[("main", work), ("log", work)]),
        ),
        (
            "parked",
            parking(
                image("log", park),
                &parked,
                park,
                &[("main", work), ("log", work)],
            ),
        ),
        (
            "parked",
            parking(
                json!({"spec": {"containers": [{"name": "main", "image": work}, {"name": "log", "image": park}]}}),
                &parked,
                park,
                &[("log", work)],
            ),
        ),
        ("parked", brought_back(image("main", work))),
        ("parked", image("main", work)),
    ] {
        leashed
            .patch(pod, "", &patch)
            .await
            .unwrap_or_else(|error| panic!("{pod} {patch}: {error}"));
    }
}

/// An image as the spec has it, its id, and what is the same image and what is not.
const OF_THE_HUB: [(&str, &str, &[&str], &[&str]); 4] = [
    (
        "busybox:1",
        "",
        &[
            "docker.io/library/busybox:1",
            "index.docker.io/busybox:1",
            "index.docker.io/library/busybox:1",
        ],
        &[
            "docker.io/busybox:2",
            "docker.io/other/busybox:1",
            "docker.io/library/busybox",
        ],
    ),
    (
        "docker.io/me/work:1",
        DIGEST,
        &["me/work:1", DIGEST],
        &[
            "work:1",
            "docker.io/library/me/work:1",
            "index.docker.io/library/me/work:1",
            "me.example/work:1",
        ],
    ),
    (
        "host.example/work:1",
        "",
        &[],
        &["docker.io/host.example/work:1", "work:1", "example/work:1"],
    ),
    (
        DIGEST,
        "docker-pullable://host.example/work@sha256:1",
        &[],
        &[
            "host.example/work@sha256:1",
            "host.example/work:1",
            "host.example/work:2",
        ],
    ),
];

/// Images of Docker Hub have two names, and imported ones have a digest of their own; what has only
/// the look of it is another image.
async fn names_of_docker_hub(leashed: &Leashed) {
    for (number, (written, id, good, bad)) in OF_THE_HUB.into_iter().enumerate() {
        let name = format!("hub-{number}");
        leashed
            .is_there(
                pod(
                    leashed,
                    &name,
                    "Always",
                    json!([{"name": "main", "image": written}]),
                ),
                &[("main", None)],
                &[],
            )
            .await;
        let statuses = Patch::Strategic(json!({"status": {"containerStatuses": [
            {"name": "main", "image": if written == DIGEST { "host.example/work:1" } else { written }, "imageID": id},
        ]}}));
        leashed
            .world
            .api::<Pod>()
            .patch_status(&name, &PatchParams::default(), &statuses)
            .await
            .unwrap();
        for to in good {
            leashed
                .patch(&name, "", &image("main", to))
                .await
                .unwrap_or_else(|error| panic!("{written} -> {to}: {error}"));
        }
        for to in bad {
            let answer = leashed.patch(&name, "", &image("main", to)).await;
            assert!(
                answer.is_err_and(|words| words.contains("another spelling")),
                "{written} -> {to}"
            );
        }
    }
}

#[tokio::test]
async fn a_warmer_pod_is_made_swapped_and_deleted() {
    let leashed = Leashed::new("leash-warms").await;
    let warmers = warmers(&leashed);
    let pods: Api<Pod> = Api::namespaced(leashed.swaplet.clone(), &leashed.world.namespace);
    // What an administrator sets for all containers of a namespace is filled in before the policies ask.
    let limits = json!({"metadata": {"name": "defaults"}, "spec": {"limits": [{"type": "Container",
        "default": {"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "10Gi"},
        "max": {"ephemeral-storage": "20Gi"}}]}});
    let limits = serde_json::from_value(limits).unwrap();
    leashed
        .world
        .api::<LimitRange>()
        .create(&PostParams::default(), &limits)
        .await
        .unwrap();
    let mut made = write::pod(
        &warmers,
        "nowhere",
        Shape::InPlace,
        &["any.example/image:v1".into()],
        1,
    );
    made["spec"]["schedulerName"] = json!("nobody");
    let made = pods
        .create(
            &PostParams::default(),
            &serde_json::from_value(made).unwrap(),
        )
        .await
        .unwrap();
    let name = made.metadata.name.unwrap();
    let swap = json!({
        "metadata": {"annotations": {"swaplet.io/warm-image": "any.example/image:v2", "swaplet.io/warm-before": ""}},
        "spec": {"containers": [{"name": "warmer", "image": "any.example/image:v2"}]},
    });
    leashed.patch(&name, "", &swap).await.unwrap();
    pods.delete(&name, &DeleteParams::default()).await.unwrap();
    let images: Vec<_> = (0..8)
        .map(|number| format!("any.example/{number}:v1").into())
        .collect();
    let made = write::pod(&warmers, "nowhere", Shape::ImpossibleCommand, &images, 2);
    pods.create(&dry_post(), &serde_json::from_value(made).unwrap())
        .await
        .unwrap();
    leashed.done().await;
}
