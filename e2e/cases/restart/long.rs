//! Restarts under the other policies, two at once, late statuses, and a pod that goes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::time::sleep;

use super::containers::{killed_at_every_write, one_of_two};
use super::repeated::restarted;
use super::{COUNTS, Restarts, app, ready_once, restarts, started, succeeded};

/// Whether its first container has another spelling of its image.
fn is_changed(pod: &Pod) -> bool {
    pod.spec.as_ref().unwrap().containers[0]
        .image
        .as_deref()
        .is_some_and(|image| image.contains('@'))
}

#[tokio::test]
async fn controllers_that_die_at_every_write_restart_it_once_under_always() {
    killed_at_every_write("restart-dies-always", "Always").await;
}

#[tokio::test]
async fn controllers_that_die_at_every_write_restart_it_once_under_on_failure() {
    killed_at_every_write("restart-dies-onfailure", "OnFailure").await;
}

#[tokio::test]
async fn one_of_two_containers_under_on_failure() {
    one_of_two("restart-onfailure", "OnFailure").await;
}

#[tokio::test]
async fn l1_fifty_restarts_in_a_row_lose_nothing() {
    restarted("restart-fifty", 50).await;
}

/// OpenKruise leaves the second one waiting for ever (its issue 2474).
#[tokio::test]
async fn two_requests_at_once_both_end() {
    let restart = Restarts::new("restart-two").await;
    let _controller = restart.controller().await;
    restart.run_pod("Always", COUNTS).await;
    let forced = json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}});
    tokio::join!(restart.request("a", &forced), restart.request("b", &forced));
    assert_eq!(
        (restart.completed("a").await, restart.completed("b").await),
        (succeeded(), succeeded())
    );
    assert_eq!(
        restarts(&restart.world.pod_is("p", "there", |_| true).await, "app"),
        2
    );
    restart.world.done().await;
}

/// The second one is made when the kubelet has restarted the container, or is about to, and may
/// not have told it.
#[tokio::test]
async fn v5_a_restart_from_before_the_request_is_none_of_its_own() {
    let restart = Restarts::new("restart-late-status").await;
    let _controller = restart.controller().await;
    restart.run_pod("Always", COUNTS).await;
    let pods = restart.world.api::<Pod>();
    for nth in 0..6 {
        let generation = pods.get("p").await.unwrap().metadata.generation;
        restart.request(&format!("a{nth}"), &app()).await;
        restart
            .world
            .pod_is("p", "changed", |pod| pod.metadata.generation != generation)
            .await;
        sleep(Duration::from_millis(300 * nth)).await;
        let name = format!("b{nth}");
        let before = pods.get("p").await.unwrap();
        restart.request(&name, &app()).await;
        assert_eq!(restart.completed(&name).await[0]["phase"], "Succeeded");
        let made = restart.requests.get(&name).await.unwrap();
        let made = made.metadata.creation_timestamp.unwrap().0;
        let after = pods.get("p").await.unwrap();
        // Times are whole seconds: a quick restart is in that of its request.
        let started = started(&after, "app").unwrap();
        assert!(started >= made, "{name}: {started} {made}");
        assert_ne!(restarts(&before, "app"), restarts(&after, "app"), "{name}");
    }
    restart.world.done().await;
}

#[tokio::test]
async fn a_pod_that_is_deleted_halfway_ends_the_request() {
    let restart = Restarts::new("restart-deleted").await;
    let _controller = restart.controller().await;
    // It is not ready any more, so the request goes on for as long as the pod is there.
    restart
        .run_pod_with("Always", ready_once(&restart.world))
        .await;
    restart.request("r", &app()).await;
    restart.world.pod_is("p", "changed", is_changed).await;
    restart
        .world
        .api::<Pod>()
        .delete("p", &Default::default())
        .await
        .unwrap();
    let over = restart.completed("r").await;
    assert_eq!(
        (&over[0]["phase"], &over[0]["message"]),
        (&json!("Failed"), &json!("pod has gone"))
    );
    restart.world.done().await;
}
