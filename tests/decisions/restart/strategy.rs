//! Every field of the strategy, deadlines and times to live.

use serde_json::{Value, json};
use swaplet_core::objects::recreate_request::RequestPhase;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::Action;
use swaplet_core::restart::request::StatePhase;

use super::world::{World, images, pod, request, restarted};
use crate::expect::moment;

fn both(strategy: Value) -> World {
    World::new(&request(&["app", "log"], &strategy), &pod("Always"))
}

/// `log` has a reason to be refused.
fn with_bad_log(strategy: Value) -> World {
    let mut pod = pod("Always");
    pod["status"]["containerStatuses"][1]["imageID"] = json!("");
    World::new(&request(&["app", "log"], &strategy), &pod)
}

#[test]
fn crr_e2b_ordered_waits_until_the_one_before_is_ready() {
    let mut world = both(json!({"orderedRecreate": true}));
    world.settle();
    assert_eq!(
        (world.image("app"), world.image("log")),
        (&*images("app").1, &*images("log").0)
    );
    world.restarts("app", false).settle();
    assert_eq!(
        (world.image("log"), world.state("log").0),
        (&*images("log").0, StatePhase::Pending),
        "not ready"
    );
    world.later(5).restarts("app", true).settle();
    assert_eq!(
        (world.image("log"), world.state("app").0),
        (&*restarted("log", 3), StatePhase::Succeeded)
    );
    world.restarts("log", true);
    assert_eq!(
        (world.assert_over("log").0, world.swaps),
        (StatePhase::Succeeded, 2)
    );
}

#[test]
fn crr_e2_unordered_does_not_wait() {
    let mut world = both(json!({}));
    world.settle();
    assert_eq!(
        (world.image("app"), world.image("log")),
        (&*images("app").1, &*images("log").1)
    );
}

#[test]
fn a_restart_that_is_still_coming_takes_room_from_the_other_container() {
    let mut world = both(json!({}));
    world.most = 1;
    world.settle();
    assert_eq!(
        (world.image("app"), world.image("log")),
        (&*images("app").1, &*images("log").0)
    );
    assert_eq!(world.state("log").0, StatePhase::Pending);

    let mut with_room = world.clone();
    with_room.most = 2;
    let action = with_room.settle_until(|action| matches!(action, Action::Swap(_)));
    let Action::Swap(change) = &action else {
        panic!("{action:?}")
    };
    assert_eq!((change.swaps.len(), change.restarts()), (1, 2));

    world.restarts("app", true).settle();
    assert_eq!(world.image("log"), restarted("log", 3));
}

#[test]
fn failure_policy_fail_begins_nothing_more_and_ignore_does() {
    let mut world = with_bad_log(json!({}));
    assert_eq!(world.assert_over("app").0, StatePhase::Failed);
    assert!(
        world.state("app").1.contains("log was not restarted")
            && world.state("log").1.contains("no other spelling")
    );
    assert_eq!((world.swaps, world.image("app")), (0, &*images("app").0));

    let mut world = with_bad_log(json!({"failurePolicy": "Ignore"}));
    world.settle();
    assert_eq!((world.swaps, world.state("log").0), (1, StatePhase::Failed));
    world.restarts("app", true);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
}

#[test]
fn what_was_begun_is_seen_to_its_end_when_another_fails() {
    let mut world = both(json!({}));
    world.settle();
    world.node_says("log", |pod, index| {
        pod.pod.containers[index].image = "r.example/log:2".into()
    });
    world.settle();
    assert_eq!(
        (world.state("log").0, world.request.phase),
        (StatePhase::Failed, RequestPhase::Recreating)
    );
    world.restarts("app", true);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
}

#[test]
fn a_container_that_has_restarted_by_itself_counts_unless_forced() {
    for (force, swaps) in [(false, 0), (true, 1)] {
        let mut world = World::new(
            &request(&["app"], &json!({"forceRecreate": force})),
            &pod("Always"),
        );
        let accept = world.decide().action.unwrap();
        world.write(&accept);
        world.restarts("app", true).settle();
        assert_eq!(world.swaps, swaps, "{force}");
        if force {
            world.restarts("app", true);
        }
        assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
        assert_eq!(world.request.state("app").killed, force);
    }
}

#[test]
fn crr_e4_force_replaces_also_what_has_restarted_after_it_was_written_down() {
    let mut world = World::new(
        &request(&["app"], &json!({"forceRecreate": true})),
        &pod("Always"),
    );
    world.settle_until(|action| matches!(action, Action::Swap(..)));
    world.restarts("app", true).settle();
    assert_eq!(
        (world.swaps, world.state("app").0),
        (1, StatePhase::Recreating),
        "what is there now is to be replaced"
    );
    assert_eq!(world.request.mark("app").unwrap().restart_count, 1);
    world.restarts("app", true);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
}

#[test]
fn r17_a_restarted_container_has_to_be_ready_for_so_long() {
    let mut world = World::new(
        &request(&["app"], &json!({"minStartedSeconds": 10})),
        &pod("Always"),
    );
    world.settle();
    world.restarts("app", true).settle();
    world.later(9).settle();
    world.restarts("app", true).settle();
    assert_eq!(
        world.later(9).settle().reason,
        Reason::RestartPending,
        "it has crashed in between"
    );
    let again = world.decide().again;
    assert_eq!(again, Some(world.now + std::time::Duration::from_secs(1)));
    world.later(1);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
}

#[test]
fn a_startup_probe_gets_the_time_to_run() {
    let mut pod = pod("Always");
    pod["spec"]["containers"][0]["startupProbe"] = json!({"httpGet": {"port": 80}});
    let mut world = World::new(&request(&["app"], &json!({})), &pod);
    world.settle();
    world.restarts("app", true);
    assert_eq!(world.settle().reason, Reason::RestartPending);
    world.later(2);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
}

#[test]
fn another_grace_period_is_said_not_to_be_honoured() {
    let mut world = World::new(
        &request(&["app"], &json!({"terminationGracePeriodSeconds": 3})),
        &pod("Always"),
    );
    world.settle();
    assert!(
        world
            .request
            .message
            .contains("terminationGracePeriodSeconds 3 is not used"),
        "{}",
        world.request.message
    );
    let mut same = World::of("Always");
    same.settle();
    assert_eq!(&*same.request.message, "");
}

/// OpenKruise leaves the states as they are (its issue 2353); here each becomes final.
#[test]
fn crr_e3b_at_the_deadline_every_state_becomes_final() {
    let mut object = request(&["app", "log"], &json!({}));
    object["spec"]["activeDeadlineSeconds"] = json!(3);
    let mut world = World::new(&object, &pod("Always"));
    world.settle();
    world.restarts("app", true);
    let decision = world.settle();
    assert_eq!(decision.again, Some(moment(3)));
    world.later(3);
    let deadline = "recreating has exceeded the activeDeadlineSeconds".to_owned();
    assert_eq!(
        world.assert_over("log"),
        (StatePhase::Failed, deadline.clone())
    );
    assert_eq!(
        (world.state("app").0, &*world.request.message),
        (StatePhase::Succeeded, &*deadline)
    );
}

#[test]
fn the_time_to_live_begins_at_the_completion() {
    let mut object = request(&["app"], &json!({}));
    object["spec"]["ttlSecondsAfterFinished"] = json!(60);
    let mut world = World::new(&object, &pod("Always"));
    world.settle();
    world.later(100).restarts("app", true);
    let last = world.settle();
    assert_eq!(
        (last.reason, last.again),
        (Reason::RequestOver, Some(moment(160)))
    );
    world.later(59).settle();
    assert!(!world.request.deleting);
    world.later(1).settle();
    assert!(world.request.deleting);
}
