//! Images that are pulled by a pinned digest, before pods need them, and with a secret.

use kube::api::PostParams;
use serde_json::json;
use swaplet::image::Kind;
use swaplet::image::build::build;

use super::{Jobs, ONE, restricted};
use crate::commands::send;
use crate::controller::{Controller, Why};
use crate::images::Images;
use crate::pods::{EXITS_0, container, pod, sidecar};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::warm_images::push;
use crate::warm_registry::{create_login, fails_to_pull_from, image_behind};
use crate::world::{eventually, kubectl, variable};

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
    // A kubelet that starts many pods sends its Events late, so how long the pull took may come after
    // the end of the pull. A job that is never completed still counts it.
    let status = eventually("the image to be there, and its pull time", || async {
        let status = jobs.api(ONE).get("private").await.unwrap().data["status"].clone();
        let pulls = &status["pulls"];
        (status["succeeded"] == 1
            && pulls["nodes"] == 1
            && pulls["bytes"].as_u64() > Some(0)
            && pulls["slowest"].is_string())
        .then_some(status)
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
