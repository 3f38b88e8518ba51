//! What a node, a user and a failing write make of a restart: every request ends, and nothing is
//! said that was not seen.

use serde_json::json;
use swaplet_core::objects::pod::{ContainerState, Phase, Terminated};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::Action;
use swaplet_core::restart::request::StatePhase;

use super::world::{World, images, pod, request};
use crate::expect::moment;

fn waiting(reason: &str, message: &str) -> ContainerState {
    ContainerState::Waiting {
        reason: reason.into(),
        message: message.into(),
    }
}

fn ended(exit_code: i64) -> ContainerState {
    ContainerState::Terminated(Box::new(Terminated {
        exit_code: Some(exit_code),
        ..Terminated::default()
    }))
}

/// A request for `app` whose image has been changed.
fn changed(policy: &str) -> World {
    let mut world = World::of(policy);
    world.settle();
    assert_eq!(world.swaps, 1);
    world
}

fn shows(world: &mut World, state: ContainerState) -> &mut World {
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].status.as_mut().unwrap().state = state
    })
}

#[test]
fn r12_an_alias_that_cannot_be_pulled_is_taken_back_and_the_request_fails() {
    let mut world = changed("Always");
    shows(&mut world, waiting("ErrImagePull", "no registry")).settle();
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 2));
    let (phase, message) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && message.contains("ErrImagePull: no registry"),
        "{message}"
    );
    assert_eq!(
        world.reasons(),
        [
            Reason::ContainerRestarting,
            Reason::ContainerRestarting,
            Reason::RestartFailed
        ]
    );
}

#[test]
fn what_is_taken_back_is_taken_back_by_another_life_too() {
    let mut world = changed("OnFailure");
    shows(&mut world, waiting("ImagePullBackOff", "x"));
    let down = world.settle_until(|action| matches!(action, Action::WriteDown(_)));
    world.write(&down);
    world.dies();
    shows(&mut world, waiting("ContainerCreating", "")).settle();
    assert_eq!(world.image("app"), images("app").0);
    assert_eq!(world.assert_over("app").0, StatePhase::Failed);
}

#[test]
fn r13_a_container_that_was_stopped_and_does_not_come_back_is_failed_truthfully() {
    let mut world = changed("Never");
    let decision = shows(&mut world, ended(143)).settle();
    assert_eq!(
        decision.reason,
        Reason::RestartPending,
        "the next one may be coming"
    );
    world.later(decision.again.unwrap().since_start().as_secs());
    let (phase, message) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && message.contains("exit code 143"),
        "{message}"
    );
}

#[test]
fn a_node_that_does_nothing_is_waited_for_so_long() {
    let mut world = changed("Always");
    let decision = world.settle();
    assert_eq!(decision.again, Some(moment(330)));
    world.later(330);
    let (phase, message) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && message.contains("has not restarted it in 330 s"),
        "{message}"
    );
}

#[test]
fn a_container_that_never_becomes_ready_ends_the_request() {
    let mut world = changed("Always");
    world.restarts("app", false).settle();
    shows(world.later(30), waiting("CrashLoopBackOff", "back-off 10s")).settle();
    assert_eq!(world.later(500).settle().reason, Reason::RestartPending);
    world.later(100);
    let (phase, message) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && message.contains("not been ready"),
        "{message}"
    );
}

#[test]
fn c2_a_restarted_container_that_has_ended_for_good_is_final() {
    for (policy, code, phase) in [
        ("OnFailure", 0, StatePhase::Succeeded),
        ("Never", 0, StatePhase::Succeeded),
        ("Never", 3, StatePhase::Failed),
    ] {
        let mut world = changed(policy);
        world.restarts("app", false);
        shows(&mut world, ended(code));
        assert_eq!(
            world.assert_over("app"),
            (
                phase,
                format!("it was restarted, and has ended with exit code {code}")
            )
        );
    }
}

#[test]
fn r8_another_image_by_somebody_else_stays() {
    let mut world = changed("Always");
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].image = "r.example/app:2".into()
    });
    world.restarts("app", true);
    let (phase, message) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && message.contains("r.example/app:2"),
        "{message}"
    );
    assert_eq!((world.image("app"), world.swaps), ("r.example/app:2", 1));
}

/// The pod has the generation of before, or another one.
#[test]
fn r9_the_old_image_put_back_is_no_reason_for_a_second_restart() {
    let mut world = changed("Always");
    let put_back = |world: &mut World| {
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].image = images("app").0.into();
            pod.generation = Some(3);
        });
    };
    put_back(&mut world);
    let decision = world.dies().settle();
    assert_eq!(
        (decision.reason, world.swaps),
        (Reason::RestartPending, 1),
        "nobody knows whether it was made"
    );
    let mut restarted = world.clone();
    restarted.restarts("app", true);
    assert_eq!(
        (restarted.assert_over("app").0, restarted.swaps),
        (StatePhase::Succeeded, 1)
    );
    world.later(330);
    assert_eq!(
        (world.assert_over("app").0, world.swaps),
        (StatePhase::Failed, 1)
    );
}

#[test]
fn a_change_that_was_not_made_is_written_down_anew() {
    for dies in [false, true] {
        let mut world = World::of("Always");
        world.settle_until(|action| matches!(action, Action::Swap(..)));
        if dies {
            world.dies();
        }
        let mut twice = world.clone();
        // Somebody has changed something else of the pod.
        world.pod.as_mut().unwrap().generation = Some(2);
        world.settle();
        assert_eq!(
            (
                world.swaps,
                world
                    .request
                    .mark("app")
                    .unwrap()
                    .intent
                    .as_ref()
                    .unwrap()
                    .generation
            ),
            (1, Some(2))
        );

        twice.pod.as_mut().unwrap().generation = Some(3);
        assert_eq!(twice.settle().reason, Reason::RestartPending);
        assert_eq!(twice.swaps, 0, "it may have been made, and undone");
    }
}

/// Whoever has written the change down and whoever has made it need not be the same life, and no
/// life knows more than what is written.
#[test]
fn a_change_that_another_controller_has_made_and_a_user_undone_is_not_made_again() {
    let mut world = World::of("Always");
    world.settle_until(|action| matches!(action, Action::Swap(..)));
    let mut other = world.clone();
    other.dies().settle();
    assert_eq!(other.swaps, 1);
    world.pod = other.pod;
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].image = images("app").0.into();
        pod.generation = Some(3);
    });
    assert_eq!(world.settle().reason, Reason::RestartPending);
    assert_eq!(world.swaps, 0);
    world.restarts("app", true);
    assert_eq!(
        (world.assert_over("app").0, world.swaps),
        (StatePhase::Succeeded, 0)
    );
}

#[test]
fn a_status_from_before_the_node_has_seen_the_change_proves_nothing() {
    let mut world = changed("Always");
    world.pod.as_mut().unwrap().observed_generation = Some(1);
    world.restarts("app", true);
    assert_eq!(
        world.settle().reason,
        Reason::RestartPending,
        "it crashed before"
    );
    world.pod.as_mut().unwrap().observed_generation = Some(2);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
}

/// The digest in the status is that of the image before.
#[test]
fn hunt_an_image_that_somebody_has_just_changed_is_not_started_with_the_bytes_of_the_one_before() {
    let mut world = World::of("Always");
    let pod = world.pod.as_mut().unwrap();
    (pod.generation, pod.observed_generation) = (Some(2), Some(1));
    pod.pod.containers[0].image = "r.example/app:2".into();
    world.settle();
    assert_eq!(
        (
            world.swaps,
            world.image("app"),
            world.request.state("app").killed
        ),
        (0, "r.example/app:2", false)
    );
    // A kubelet tells that it has seen the spec before it has stopped the old container (G2).
    world.pod.as_mut().unwrap().observed_generation = Some(2);
    world.settle();
    assert_eq!(world.swaps, 0);
    world.node_says("app", |pod, index| {
        let status = pod.pod.containers[index].status.as_mut().unwrap();
        status.image = "r.example/app:2".into();
    });
    world.settle();
    assert_eq!(world.swaps, 1);
}

#[test]
fn what_little_a_virtual_node_tells_is_enough() {
    let id = |world: &mut World| {
        world.node_says("app", |pod, index| {
            pod.pod.containers[index]
                .status
                .as_mut()
                .unwrap()
                .container_id = "x".into()
        });
    };
    let count = |world: &mut World| {
        world.node_says("app", |pod, index| {
            pod.pod.containers[index]
                .status
                .as_mut()
                .unwrap()
                .restart_count = 1
        });
    };
    let start = |world: &mut World| {
        let started_at = Some("2026-01-01T00:00:05Z".parse().unwrap());
        shows(world, ContainerState::Running { started_at });
    };
    for tell in [id as fn(&mut World), count, start] {
        let mut world = changed("Always");
        tell(&mut world);
        assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
    }
}

#[test]
fn r18_a_pod_that_is_gone_replaced_or_finished_ends_the_request() {
    let gone = |world: &mut World| world.pod = None;
    let deleting = |world: &mut World| world.pod.as_mut().unwrap().pod.deleting = true;
    let replaced = |world: &mut World| world.pod.as_mut().unwrap().pod.uid = "other".into();
    for change in [gone as fn(&mut World), deleting, replaced] {
        let mut world = changed("Always");
        change(&mut world);
        assert_eq!(
            world.assert_over("app"),
            (StatePhase::Failed, "pod has gone".to_owned())
        );
        assert_eq!((&*world.request.message, world.swaps), ("pod has gone", 1));
    }
    let mut evicted = changed("Never");
    let pod = evicted.pod.as_mut().unwrap();
    (pod.pod.phase, pod.pod.reason) = (Phase::Failed, "Evicted".into());
    assert_eq!(
        evicted.assert_over("app").1,
        "the pod has become Failed (Evicted)"
    );
}

#[test]
fn r6_without_what_was_written_down_nothing_is_done() {
    let mut world = changed("Always");
    world.request.journal = None;
    let decision = world.settle();
    assert_eq!((decision.reason, world.swaps), (Reason::RequestLeft, 1));
}

#[test]
fn r7_what_somebody_else_has_written_down_is_never_written_as_an_image() {
    let mut world = World::of("Always");
    world.settle_until(|action| matches!(action, Action::Swap(..)));
    let journal = world.request.journal.as_mut().unwrap();
    journal
        .0
        .get_mut("app")
        .unwrap()
        .intent
        .as_mut()
        .unwrap()
        .to = "evil.example/app:1".into();
    world.settle();
    assert_eq!(world.image("app"), images("app").1);
}

#[test]
fn r7_an_image_that_is_no_other_spelling_is_not_put_back() {
    let mut world = changed("Always");
    let journal = world.request.journal.as_mut().unwrap();
    let intent = journal.0.get_mut("app").unwrap().intent.as_mut().unwrap();
    (intent.from, intent.back) = ("evil.example/app:1".into(), Some("forged".into()));
    let (phase, message) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed
            && message.contains("evil.example/app:1 is not another spelling"),
        "{message}"
    );
    assert_eq!((world.image("app"), world.swaps), (&*images("app").1, 1));
}

#[test]
fn nothing_is_decided_while_a_write_is_under_way_or_before_its_time() {
    let mut world = World::new(&request(&["app"], &json!({})), &pod("Always"));
    world.memory.in_flight = true;
    assert_eq!(world.decide().reason, Reason::WriteInFlight);
    world.memory.in_flight = false;
    world.memory.not_before = Some(moment(5));
    let decision = world.decide();
    assert_eq!(
        (decision.reason, decision.action, decision.again),
        (Reason::WriteBackoff, None, Some(moment(5)))
    );
    world.later(5);
    assert!(world.decide().action.is_some());
}
