//! One container of several is restarted, and the others go on.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;
use swaplet_controller::frame::clock::time_of_day;

use super::{COUNTS, Restarts, app, ready_once, restarts, started, succeeded};
use crate::audit::{Written, written_in};
use crate::pods::{EXITS_143, container, pod, spec};
use crate::witness::Witness;
use crate::world::lets_go_on;

pub(super) async fn one_of_two(case: &str, policy: &str) {
    let restart = Restarts::new(case).await;
    let _controller = restart.controller().await;
    let before = restart.run_pod(policy, COUNTS).await;
    restart.request("r", &app()).await;
    assert_eq!(restart.completed("r").await, succeeded());
    let after = restart.world.pod_is("p", "there", |_| true).await;
    assert_eq!((restarts(&after, "app"), restarts(&after, "log")), (1, 0));
    assert_eq!(
        (before.uid(), started(&before, "log")),
        (after.uid(), started(&after, "log"))
    );
    let ip = |pod: &Pod| pod.status.as_ref().unwrap().pod_ip.clone();
    assert_eq!(ip(&before), ip(&after));
    restart.assert_starts("started\nstarted\n").await;

    // Again, by the next name.
    restart.request("again", &app()).await;
    assert_eq!(restart.completed("again").await, succeeded());
    let after = restart.world.pod_is("p", "there", |_| true).await;
    assert_eq!((restarts(&after, "app"), restarts(&after, "log")), (2, 0));
    restart.world.done().await;
}

#[tokio::test]
async fn one_of_two_containers_under_always() {
    one_of_two("restart-always", "Always").await;
}

#[tokio::test]
async fn one_of_two_containers_under_never() {
    one_of_two("restart-never", "Never").await;
}

#[tokio::test]
async fn the_second_of_two_in_order_waits_until_the_first_is_ready() {
    let restart = Restarts::new("restart-ordered").await;
    let _controller = restart.controller().await;
    restart
        .run_pod_with("Always", ready_once(&restart.world))
        .await;
    let both = json!({"podName": "p", "containers": [{"name": "app"}, {"name": "log"}], "strategy": {"orderedRecreate": true}});
    restart.request("r", &both).await;
    restart
        .world
        .pod_is("p", "restarted", |pod| {
            restarts(pod, "app") == 1 && started(pod, "app").is_some()
        })
        .await;
    let not_ready_before = time_of_day();
    lets_go_on(&restart.world, "p", "log").await;
    let done = |name: &str| json!({"name": name, "phase": "Succeeded", "isKilled": true});
    assert_eq!(
        restart.completed("r").await,
        json!([done("app"), done("log")])
    );
    let after = restart.world.pod_is("p", "there", |_| true).await;
    assert_eq!((restarts(&after, "app"), restarts(&after, "log")), (1, 1));
    let swaps: Vec<_> = written_in(&restart.world.namespace)
        .into_iter()
        .filter(Written::is_applied_swap)
        .collect();
    assert!(
        swaps.len() == 2 && swaps[1].at > not_ready_before,
        "{not_ready_before}: {swaps:#?}"
    );
    restart.world.done().await;
}

pub(super) async fn killed_at_every_write(case: &str, policy: &str) {
    let mut restart = Restarts::new(case).await;
    restart.run_pod(policy, COUNTS).await;
    restart.request("r", &app()).await;
    let witness = Witness::of(&mut restart.world).await;
    let written = restart.lives_of_one_write(&witness, &["--restart"]).await;
    assert_eq!(restart.completed("r").await, succeeded());
    assert_eq!(
        restarts(&restart.world.pod_is("p", "there", |_| true).await, "app"),
        1
    );
    restart.assert_starts("started\nstarted\n").await;
    assert_eq!(
        written
            .iter()
            .filter(|resource| *resource == "pods/p")
            .count(),
        1,
        "{written:?}"
    );
    assert!(written.len() >= 5, "{written:?}");
    restart.world.done().await;
}

#[tokio::test]
async fn controllers_that_die_at_every_write_restart_it_once_under_never() {
    killed_at_every_write("restart-dies-never", "Never").await;
}

#[tokio::test]
async fn a_native_sidecar_is_restarted_in_place() {
    let restart = Restarts::new("restart-native").await;
    let mut mesh = container(&restart.world, "mesh", EXITS_143);
    mesh["restartPolicy"] = json!("Always");
    let mut spec = spec("Never", vec![container(&restart.world, "app", EXITS_143)]);
    spec["initContainers"] = json!([mesh]);
    restart.world.create_pod(pod("p", spec)).await;
    let native = |pod: &Pod| {
        pod.status
            .as_ref()?
            .init_container_statuses
            .as_ref()?
            .first()
            .map(|status| (status.ready, status.restart_count))
    };
    let runs = |pod: &Pod| started(pod, "app").is_some() && native(pod) == Some((true, 0));
    let before = restart.world.pod_is("p", "running", runs).await;
    let _controller = restart.controller().await;
    restart
        .request(
            "r",
            &json!({"podName": "p", "containers": [{"name": "mesh"}]}),
        )
        .await;
    assert_eq!(
        restart.completed("r").await,
        json!([{"name": "mesh", "phase": "Succeeded", "isKilled": true}])
    );
    let after = restart.world.pod_is("p", "there", |_| true).await;
    assert_eq!(
        (native(&after), restarts(&after, "app")),
        (Some((true, 1)), 0)
    );
    assert_eq!(
        (before.uid(), started(&before, "app")),
        (after.uid(), started(&after, "app"))
    );
    restart.world.done().await;
}
