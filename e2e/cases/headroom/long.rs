//! Restarts that the user causes, and limits that no swap fits into.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::{
    Gate, all_succeed, ending, is_running, main_end, names, running, status, statuses, told_of_job,
};
use crate::audit::{assert_swapped_once, swapped_in, written_in};
use crate::controller::Controller;
use crate::pods::{EXITS_0, EXITS_143};
use crate::world::{World, ends_by, eventually};

/// Somebody in the container sends SIGTERM to its first process.
async fn stop(world: &World, pod: &str, container: &str) {
    ends_by(world, pod, container, &["kill", "-TERM", "1"]).await;
}

/// All main containers have ended, and one Event about the Job is all that was written.
async fn assert_told_once(world: &World) {
    let done = |pods: &Vec<Pod>| !pods.is_empty() && pods.iter().all(|pod| main_end(pod).is_some());
    eventually("all main containers to end", || async {
        Some(world.pods().await).filter(done)
    })
    .await;
    let told = eventually("an Event", || async {
        Some(told_of_job(world).await).filter(|told| !told.is_empty())
    })
    .await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(told_of_job(world).await, told);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].0 == "NoHeadroom" && told[0].1.contains("Raise spec.backoffLimit to at least 2"),
        "{told:?}"
    );
    let mut written = written_in(&world.namespace);
    written.retain(|write| write.code < 400);
    assert!(
        written.iter().all(|write| write.resource == "events") && written.len() == 1,
        "{written:#?}"
    );
    assert_eq!(status(world).await.failed.unwrap_or_default(), 0);
}

/// Two main containers are restarted by the user before they end, and the sidecar of a pod that
/// waits while others are swapped.
#[tokio::test]
async fn restarts_by_the_user_are_counted() {
    let world = World::new("headroom-restarts").await;
    let _controller = Controller::start(&world).await;
    let mut gate = Gate::new().await;
    let pods = running(&world, &gate, 12, 6, EXITS_143).await;
    for name in &names(&pods)[..2] {
        stop(&world, name, "main").await;
        world
            .pod_is(name, "restarted by the user", |pod| {
                statuses(pod).any(|status| status.restart_count == 1 && is_running(status))
            })
            .await;
    }
    gate.open(12);
    let waits = eventually("a pod to wait while another one is swapped", || async {
        let pods = world.pods().await;
        let swapped = |pod: &&Pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.containers[1].image.as_ref() == Some(&world.images.exit))
        };
        pods.iter().find(swapped)?;
        pods.iter()
            .rev()
            .find(|pod| !swapped(pod))
            .map(ResourceExt::name_any)
    })
    .await;
    stop(&world, &waits, "log").await;
    all_succeed(&world, 12).await;
    let restarts: i32 = world
        .pods()
        .await
        .iter()
        .flat_map(|pod| {
            statuses(pod)
                .map(|status| status.restart_count)
                .collect::<Vec<_>>()
        })
        .sum();
    assert!(
        restarts >= 14,
        "the restarts of the user are not there: {restarts}"
    );
    assert_eq!(told_of_job(&world).await, []);
    world.done().await;
}

/// Not one swap fits, so the phase of the pods is written.
#[tokio::test]
async fn twenty_pods_complete_where_no_restart_is_allowed() {
    let world = World::new("headroom-finish").await;
    let _controller = Controller::start(&world).await;
    ending(&world, 20, 0).await;
    all_succeed(&world, 20).await;
    assert_eq!(
        (swapped_in(&world.namespace), told_of_job(&world).await),
        (vec![], vec![])
    );
    world.done().await;
}

/// Not one swap fits: nothing is touched, one Event says why, and the Job completes as soon as
/// the limit is raised.
#[tokio::test]
async fn the_job_completes_when_the_user_raises_the_limit() {
    let world = World::new("headroom-raise").await;
    let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
    ending(&world, 6, 0).await;
    assert_told_once(&world).await;
    let raise = Patch::Merge(json!({"spec": {"backoffLimit": 2}}));
    world
        .api::<Job>()
        .patch("job", &PatchParams::default(), &raise)
        .await
        .expect("a live Job takes another backoffLimit");
    all_succeed(&world, 6).await;
    assert_swapped_once(&world.namespace, &names(&world.pods().await));
    world.done().await;
}

/// The same, and the user ends the sidecars instead.
#[tokio::test]
async fn the_job_completes_when_the_user_ends_the_sidecars() {
    let world = World::new("headroom-by-hand").await;
    let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
    let mut gate = Gate::new().await;
    running(&world, &gate, 3, 0, EXITS_0).await;
    gate.open(3);
    assert_told_once(&world).await;
    for pod in world.pods().await {
        stop(&world, &pod.name_any(), "log").await;
    }
    all_succeed(&world, 3).await;
    assert_swapped_once(&world.namespace, &[]);
    world.done().await;
}
