//! Lives that end after each single write, and lives that overlap.

use std::time::Duration;

use serde_json::json;

use super::world::{APP, Restarts, app, pinned};
use crate::line::Patches;

/// The writes of a restart of one container: accept, Recreating, write down, swap, Recreating of
/// the container, Completed, release.
const WRITES: usize = 7;
/// The same under another policy than `Always`: the swap is tried first.
const WITH_TRY: usize = WRITES + 1;

/// What must have become of the request, whoever has died meanwhile.
async fn ends_well(world: &Restarts, when: &str) {
    let request = world.get("r");
    let states = json!([{"name": "app", "phase": "Succeeded", "isKilled": true}]);
    assert_eq!(
        (
            &request["status"]["phase"],
            &request["status"]["containerRecreateStates"]
        ),
        (&json!("Completed"), &states),
        "{when}"
    );
    assert!(
        request["metadata"]["labels"]["crr.apps.kruise.io/active"].is_null(),
        "{when}"
    );
    assert_eq!(
        (
            world.restarts("app"),
            world.restarts("log"),
            world.image_changes("p")
        ),
        (1, 0, 1),
        "{when}"
    );
    assert_eq!(world.original("app"), pinned(APP), "{when}");
    let told = world.told();
    assert!(
        told.iter()
            .filter(|reason| *reason == "ContainerRestarted")
            .count()
            <= 1
            && !told.contains(&"RestartFailed".to_owned()),
        "{told:?}"
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_each_write_before_its_answer_came() {
    for (policy, writes) in [("Always", WRITES), ("Never", WITH_TRY)] {
        for passing in 0..writes {
            let world = Restarts::with_pod(policy).await;
            let (sent, _next) = world
                .two_lives(Patches::PassBeforeOneArrives(passing), &app(), [8, 20])
                .await;
            assert_eq!(sent, passing + 1);
            ends_well(
                &world,
                &format!("{policy}: {passing} writes were answered, one more was made"),
            )
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn killed_before_each_write_was_made() {
    for passing in 0..WITH_TRY {
        let world = Restarts::with_pod("OnFailure").await;
        let (_, _next) = world
            .two_lives(Patches::PassBeforeAllStay(passing), &app(), [8, 20])
            .await;
        ends_well(&world, &format!("{passing} writes were made")).await;
    }
}

/// Each write of the first life arrives long after its death.
#[tokio::test(start_paused = true)]
async fn r4_a_write_that_arrives_late_changes_nothing() {
    for passing in 0..WRITES {
        let world = Restarts::with_pod("Always").await;
        let (_, _next) = world
            .two_lives(
                Patches::PassBeforeOneIsLate(passing, Duration::from_secs(60)),
                &app(),
                [8, 120],
            )
            .await;
        ends_well(&world, &format!("the write after {passing} came late")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn r27_two_controllers_restart_it_once() {
    let world = Restarts::with_pod("Always").await;
    let _one = world.start_controller();
    let _two = world.start_controller();
    world.wait(2).await;
    world.request("r", &app()).await;
    world.wait(30).await;
    ends_well(&world, "two controllers").await;
}

/// A lease changes hands and comes back: the one that has written it down hears that its own change
/// was refused, and sees the image as it was before.
#[tokio::test(start_paused = true)]
async fn r9_a_change_that_another_controller_made_and_a_user_took_back_is_not_made_again() {
    let world = Restarts::with_pod("Always").await;
    let one = world.start_controller();
    one.line
        .patches(Patches::PassBeforeOneIsLate(3, Duration::from_secs(8)));
    world.request("r", &json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}})).await;
    world.wait(1).await;
    one.line.patches(Patches::Pass);
    let other = world.start_controller();
    other.line.patches(Patches::PassBeforeAllStay(1));
    world.wait(2).await;
    assert_eq!(
        (world.original("app"), one.line.patched_at().len()),
        (pinned(APP), 4)
    );
    other.kill();
    world.set_image("app", APP).await;
    world.wait(60).await;
    assert_eq!(
        (world.image("app"), world.image_changes("p")),
        (APP.to_owned(), 2),
        "the second one is the user's"
    );
    let request = world.get("r");
    let state = &request["status"]["containerRecreateStates"][0];
    assert_eq!(
        (&request["status"]["phase"], &state["phase"]),
        (&json!("Completed"), &json!("Failed"))
    );
    assert!(
        state["message"]
            .as_str()
            .unwrap()
            .contains("put back in the meantime"),
        "{state}"
    );
    world.assert_quiet().await;
}

/// Nobody looks for requests, or for their pods, while the controller is away.
#[tokio::test(start_paused = true)]
async fn requests_that_came_while_no_controller_ran() {
    let world = Restarts::with_pod("Always").await;
    world.request("r", &app()).await;
    world
        .request(
            "for-nobody",
            &json!({"podName": "nobody", "containers": [{"name": "app"}]}),
        )
        .await;
    world.wait(3600).await;
    let _life = world.start_controller();
    world.wait(20).await;
    assert_eq!(
        world.get("for-nobody")["status"]["message"],
        "no found Pod named nobody"
    );
    ends_well(&world, "an hour later").await;
}
