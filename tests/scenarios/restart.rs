//! Restarts of single containers: requests at the API server, carried out on a node.

pub mod config;
mod config_lives;
mod crowds;
mod ends;
mod forged;
mod hunt;
pub mod leash;
mod lives;
mod nodes;
pub mod parking;
mod readiness;
mod repeated;
pub mod world;

use serde_json::json;

use self::world::{APP, Restarts, pinned};

#[tokio::test(start_paused = true)]
async fn an_alias_restarts_one_container_of_two_under_every_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let world = Restarts::with_pod(policy).await;
        let before = world.pod();
        let _life = world.start_controller();
        world
            .request(
                "r",
                &json!({"podName": "p", "containers": [{"name": "app"}]}),
            )
            .await;
        world.wait(10).await;

        let request = world.get("r");
        assert_eq!(
            (&request["status"]["phase"], &request["status"]["message"]),
            (&json!("Completed"), &json!("")),
            "{policy}"
        );
        let states = json!([{"name": "app", "phase": "Succeeded", "isKilled": true}]);
        assert_eq!(
            request["status"]["containerRecreateStates"], states,
            "{policy}"
        );
        let after = world.pod();
        assert_eq!(
            (world.restarts("app"), world.restarts("log")),
            (1, 0),
            "{policy}"
        );
        assert_eq!(world.original("app"), pinned(APP), "{policy}");
        assert_eq!(
            (&before["metadata"]["uid"], &before["status"]["podIP"]),
            (&after["metadata"]["uid"], &after["status"]["podIP"])
        );
        assert_eq!(
            world.started("log", &before),
            world.started("log", &after),
            "{policy}"
        );
        assert_eq!(
            world.told(),
            ["ContainerRestarting", "ContainerRestarted"],
            "{policy}"
        );
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn crr_e1_labels_context_ttl_and_minimum_time() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    let spec = json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"minStartedSeconds": 5}, "ttlSecondsAfterFinished": 3});
    world.request("r", &spec).await;
    world.wait(2).await;
    let request = world.get("r");
    let labels = json!({"crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/node-name": "virtual",
        "crr.apps.kruise.io/pod-uid": world.pod()["metadata"]["uid"]});
    assert_eq!(request["metadata"]["labels"], labels);
    assert_eq!(
        request["spec"]["containers"][0]["statusContext"]["restartCount"],
        0
    );
    assert_eq!(
        request["spec"]["strategy"]["terminationGracePeriodSeconds"],
        30
    );
    assert_eq!(request["status"]["phase"], "Recreating");

    world.wait(6).await;
    let request = world.get("r");
    assert_eq!(
        (
            &request["status"]["phase"],
            &request["metadata"]["labels"]["crr.apps.kruise.io/active"]
        ),
        (&json!("Completed"), &json!(null))
    );
    let started = world.started("app", &world.pod());
    let completed = world.time(&request["status"]["completionTime"]);
    assert!(
        completed.duration_since(started).as_secs() >= 4,
        "{completed} {started}"
    );
    world.wait(5).await;
    assert!(world.find("r").is_none(), "its time is over");
    world.assert_quiet().await;
}
