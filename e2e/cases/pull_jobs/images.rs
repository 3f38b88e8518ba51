//! Images that are pulled before pods need them, and with a secret.

use serde_json::json;
use swaplet::image::Kind;
use swaplet::image::build::build;

use super::{Jobs, ONE, restricted};
use crate::commands::send;
use crate::controller::Controller;
use crate::images::Images;
use crate::pods::{EXITS_0, container, pod, sidecar};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::warm_registry::{create_login, fails_to_pull_from, image_behind};
use crate::world::{eventually, kubectl, variable};

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
