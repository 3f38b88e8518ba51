//! What a request is about is the pod and the container that were there when it was made.

use serde_json::json;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::request::{POD_UID, StatePhase};

use super::world::{World, images, pod, request};

fn made_at(time: &str, uid: Option<&str>) -> World {
    let (mut object, mut asked) = (pod("Always"), request(&["app"], &json!({})));
    object["metadata"]["creationTimestamp"] = json!(time);
    asked["metadata"]["labels"] = json!({POD_UID: uid});
    World::new(&asked, &object)
}

#[test]
fn v4_a_pod_that_is_younger_than_the_request_is_another_pod() {
    let mut younger = made_at("2026-01-01T00:00:01Z", None);
    let (phase, message) = younger.assert_over("app");
    assert_eq!(
        (phase, younger.swaps, younger.reasons()),
        (StatePhase::Failed, 0, vec![Reason::RestartFailed])
    );
    assert!(
        message.starts_with("pod has gone: ") && message.contains("created after the request"),
        "{message}"
    );
    assert_eq!(younger.image("app"), images("app").0);

    // Times are whole seconds, and whoever names the uid has said which pod is meant.
    for mut meant in [
        made_at("2026-01-01T00:00:00Z", None),
        made_at("2026-01-01T00:00:01Z", Some("pu")),
    ] {
        meant.settle();
        assert_eq!(meant.swaps, 1);
    }
    let mut taken_up = made_at("2026-01-01T00:00:00Z", None);
    let accept = taken_up.decide().action.unwrap();
    taken_up.write(&accept);
    taken_up.pod.as_mut().unwrap().created_at = "2026-01-01T00:10:00Z".parse().ok();
    taken_up.settle();
    assert_eq!(taken_up.swaps, 1, "its uid is known");
}

/// A status that comes late shows another container than the one that was written down, which runs
/// since before the request was made.
#[test]
fn v5_a_restart_from_before_the_request_is_none_of_its_own() {
    for (started_at, swaps) in [
        (Some("2025-12-31T23:59:59Z"), 1),
        (Some("2026-01-01T00:00:00Z"), 1),
        (None, 1),
        (Some("2026-01-01T00:00:01Z"), 0),
    ] {
        let mut world = World::of("Always");
        let accept = world.decide().action.unwrap();
        world.write(&accept);
        world.restarts("app", true).node_says("app", |pod, index| {
            let status = pod.pod.containers[index].status.as_mut().unwrap();
            let started_at = started_at.map(|time| time.parse().unwrap());
            status.state = swaplet_core::objects::pod::ContainerState::Running { started_at };
        });
        world.settle();
        assert_eq!(world.swaps, swaps, "{started_at:?}");
        if swaps == 1 {
            assert_eq!(
                world.state("app").0,
                StatePhase::Recreating,
                "{started_at:?}"
            );
            assert_eq!(
                world.request.mark("app").unwrap().restart_count,
                1,
                "what is to be replaced is what is there now"
            );
            world.later(2).restarts("app", true);
        }
        assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
        assert_eq!(world.swaps, swaps);
    }
}

/// The change is written down and not made yet.
#[test]
fn v5_also_when_the_change_was_written_down_already() {
    let mut world = World::of("Always");
    world
        .settle_until(|action| matches!(action, swaplet_core::restart::reconcile::Action::Swap(_)));
    world.restarts("app", true).node_says("app", |pod, index| {
        let started_at = "2025-12-31T23:59:59Z".parse().ok();
        pod.pod.containers[index].status.as_mut().unwrap().state =
            swaplet_core::objects::pod::ContainerState::Running { started_at };
    });
    world.settle();
    assert_eq!(
        (world.swaps, world.state("app").0),
        (1, StatePhase::Recreating)
    );
}
