//! Containers whose image has no alias are parked and brought back, whoever dies meanwhile.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};
use swaplet_testbed::virtual_node::{OnUpdate, Profile, ProviderOptions};

use super::world::{APP, Restarts, pod};
use crate::line::Patches;
use crate::objects::PARK;

/// The writes of a restart of one container: accept, Recreating, write down, try what becomes of
/// it and whether it could come back, park, Recreating of the container, write down, bring back, Completed, release; and
/// beside the last one, that the pod says nothing of it any more.
const WRITES: usize = 12;

const REQUEST: &str =
    "/apis/apps.kruise.io/v1alpha1/namespaces/default/containerrecreaterequests/r";

pub fn forced() -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}})
}

/// A virtual node that reports no digests, and restarts containers as it should.
pub async fn world(policy: &str) -> Restarts {
    let options = ProviderOptions {
        reports_image_id: false,
        new_container_ids: true,
        counts_restarts: true,
        ..ProviderOptions::default()
    };
    Restarts::on(Profile::Virtual(options), &pod(policy)).await
}

pub fn is_unmarked(world: &Restarts) -> bool {
    let metadata = &world.pod()["metadata"];
    metadata["labels"]["swaplet.io/parked"].is_null()
        && metadata["annotations"]["swaplet.io/parked"].is_null()
}

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
    assert_eq!(
        (
            world.restarts("app"),
            world.restarts("log"),
            world.image_changes("p")
        ),
        (2, 0, 2),
        "{when}"
    );
    assert!(
        world.image("app") == APP && is_unmarked(world),
        "{when}: {}",
        world.pod()
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_digests_restarts_by_the_park_image_under_every_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let world = world(policy).await;
        let _life = world.start_controller();
        world.request("r", &forced()).await;
        world.wait(20).await;
        ends_well(&world, policy).await;
        assert_eq!(
            world.told(),
            [
                "ContainerRestarting",
                "ContainerRestarting",
                "ContainerRestarted"
            ],
            "{policy}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn killed_after_each_write_before_its_answer_came() {
    for policy in ["Always", "Never"] {
        for passing in 0..WRITES {
            let world = world(policy).await;
            let (sent, _next) = world
                .two_lives(Patches::PassBeforeOneArrives(passing), &forced(), [8, 30])
                .await;
            assert!((1..=2).contains(&(sent - passing)), "{passing}: {sent}");
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
    for passing in 0..WRITES {
        let world = world("OnFailure").await;
        let (_, _next) = world
            .two_lives(Patches::PassBeforeAllStay(passing), &forced(), [8, 30])
            .await;
        ends_well(&world, &format!("{passing} writes were made")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn r4_a_write_that_arrives_late_changes_nothing() {
    for passing in 0..WRITES {
        let world = world("Always").await;
        let (_, _next) = world
            .two_lives(
                Patches::PassBeforeOneIsLate(passing, Duration::from_secs(60)),
                &forced(),
                [8, 120],
            )
            .await;
        ends_well(&world, &format!("the write after {passing} came late")).await;
    }
}

/// It is deleted, with or without its controller; the next life finds the container parked for
/// nobody.
#[tokio::test(start_paused = true)]
async fn r5_a_request_that_is_deleted_while_it_is_parked() {
    for dies in [false, true] {
        let world = world("Never").await;
        let life = world.start_controller();
        // Parked, and nothing more is written.
        life.line.patches(Patches::PassBeforeAllStay(6));
        world.request("r", &forced()).await;
        world.wait(6).await;
        assert_eq!(world.image("app"), PARK);
        world
            .world
            .request(Method::DELETE, REQUEST, "application/json", &json!({}))
            .await;
        let _next = if dies {
            life.kill();
            Some(world.start_controller())
        } else {
            life.line.patches(Patches::Pass);
            None
        };
        world.wait(60).await;
        assert!(
            world.image("app") == APP && is_unmarked(&world),
            "{dies}: {}",
            world.pod()
        );
        assert_eq!((world.restarts("app"), world.image_changes("p")), (2, 2));
        world.assert_quiet().await;
    }
}

/// The CRD is removed while no controller runs, and the requests with it. While that is not known,
/// the request may still be there.
#[tokio::test(start_paused = true)]
async fn a_container_that_is_parked_when_the_crd_is_removed() {
    let world = world("Never").await;
    let life = world.start_controller();
    life.line.patches(Patches::PassBeforeAllStay(6));
    world.request("r", &forced()).await;
    world.wait(6).await;
    assert_eq!(world.image("app"), PARK);
    life.kill();
    world.delete_request("r").await;
    let forbidden = world.fault(Effect::reply(403), |rule| {
        rule.outside("/apis/apps.kruise.io")
    });
    let unseen = world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::List).resource("containerrecreaterequests")
    });
    let next = world.start_controller();
    world.wait(120).await;
    assert_eq!(world.image("app"), PARK);
    next.line.hide(Some("/apis/apps.kruise.io"));
    world.end_fault(forbidden);
    world.end_fault(unseen);
    world.wait(60).await;
    assert!(
        world.image("app") == APP && is_unmarked(&world),
        "{}",
        world.pod()
    );
    assert_eq!((world.restarts("app"), world.image_changes("p")), (2, 2));
}

/// The patch that parks it arrives when its request is deleted and everybody is dead.
#[tokio::test(start_paused = true)]
async fn r4_a_container_that_is_parked_late_for_nobody() {
    let world = world("Always").await;
    let life = world.start_controller();
    life.line
        .patches(Patches::PassBeforeOneIsLate(5, Duration::from_secs(60)));
    world.request("r", &forced()).await;
    world.wait(6).await;
    life.kill();
    world
        .world
        .request(Method::DELETE, REQUEST, "application/json", &json!({}))
        .await;
    let _next = world.start_controller();
    world.wait(120).await;
    assert!(
        world.image("app") == APP && is_unmarked(&world),
        "{}",
        world.pod()
    );
    assert_eq!(world.image_changes("p"), 2);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn r27_two_controllers_park_it_once() {
    let world = world("Always").await;
    let _one = world.start_controller();
    let _two = world.start_controller();
    world.wait(2).await;
    world.request("r", &forced()).await;
    world.wait(40).await;
    ends_well(&world, "two controllers").await;
}

#[tokio::test(start_paused = true)]
async fn r21_the_deadline_passes_while_it_is_parked() {
    let options = ProviderOptions {
        reports_image_id: false,
        on_update: OnUpdate::Nothing,
        ..ProviderOptions::default()
    };
    let world = Restarts::on(Profile::Virtual(options), &pod("Always")).await;
    let _life = world.start_controller();
    let mut spec = forced();
    spec["activeDeadlineSeconds"] = json!(20);
    world.request("r", &spec).await;
    world.wait(40).await;
    let request = world.get("r");
    assert_eq!(request["status"]["phase"], "Completed");
    assert!(
        request["status"]["containerRecreateStates"][0]["message"]
            .as_str()
            .unwrap()
            .contains("activeDeadlineSeconds"),
        "{request}"
    );
    assert!(world.image("app") == APP && is_unmarked(&world));
    assert_eq!(world.image_changes("p"), 2);
    world.assert_quiet().await;
}

/// A webhook takes two seconds for each change from or to the park image.
fn is_slow(world: &Restarts) {
    world.fault(Effect::Delay(Duration::from_secs(2)), |rule| {
        rule.verb(Verb::Patch).resource("pods").body(PARK)
    });
}

/// Somebody writes the pod each second, for so long.
async fn keeps_changing(world: &Restarts, seconds: u64) {
    for second in 0..seconds {
        let beat = json!({"metadata": {"annotations": {"example.org/beat": second.to_string()}}});
        let path = "/api/v1/namespaces/default/pods/p";
        world
            .world
            .request(Method::PATCH, path, "application/merge-patch+json", &beat)
            .await;
        world.wait(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn u203_a_container_of_a_pod_that_keeps_changing_comes_back() {
    for deletes in [false, true] {
        let world = world("Always").await;
        let _life = world.start_controller();
        world.request("r", &forced()).await;
        while world.image("app") != PARK {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if deletes {
            world.delete_request("r").await;
        }
        is_slow(&world);
        keeps_changing(&world, 60).await;
        assert_eq!(
            (world.image("app"), world.image_changes("p")),
            (APP.to_owned(), 2),
            "{deletes}"
        );
        world.wait(60).await;
        assert!(is_unmarked(&world), "{deletes}: {}", world.pod());
    }
}

#[tokio::test(start_paused = true)]
async fn u203_a_request_for_a_pod_that_keeps_changing_ends_in_words() {
    let world = world("Always").await;
    let _life = world.start_controller();
    is_slow(&world);
    world.request("r", &forced()).await;
    keeps_changing(&world, 900).await;
    let request = world.get("r");
    let state = &request["status"]["containerRecreateStates"][0];
    assert_eq!(
        (&request["status"]["phase"], &state["phase"]),
        (&json!("Completed"), &json!("Failed")),
        "{request}"
    );
    let words = state["message"].as_str().unwrap();
    assert!(words.contains("it keeps changing"), "{words}");
    assert!(world.told().contains(&"WriteDenied".to_owned()));
    assert_eq!(
        (world.image("app"), world.image_changes("p")),
        (APP.to_owned(), 0)
    );
}

/// It is told, and tried again; the request is not over before.
#[tokio::test(start_paused = true)]
async fn an_image_that_may_not_be_put_back_is_told() {
    let world = world("Always").await;
    let life = world.start_controller();
    life.line.patches(Patches::PassBeforeAllStay(7));
    world.request("r", &forced()).await;
    world.wait(6).await;
    let denial = world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::Patch).resource("pods")
    });
    life.kill();
    let _next = world.start_controller();
    world.wait(100).await;
    assert_eq!(
        (world.image("app"), &world.get("r")["status"]["phase"]),
        (PARK.to_owned(), &json!("Recreating"))
    );
    assert!(world.told().contains(&"WriteDenied".to_owned()));
    world.end_fault(denial);
    world.wait(100).await;
    ends_well(&world, "the right was given").await;
}
