//! What comes between the two halves: a park image that is not started, deadlines, edits by others.

use serde_json::json;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::{ContainerState, Terminated};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::{Action, orphan};
use swaplet_core::restart::request::StatePhase;

use super::{note, of, parked, starts};
use crate::expect::EXIT;
use crate::restart::world::{PARK, World, images, park_image, request, without_digests};

fn waiting(reason: &str) -> ContainerState {
    ContainerState::Waiting {
        reason: reason.into(),
        message: format!("about {PARK}").into(),
    }
}

fn ended(exit_code: i64) -> ContainerState {
    ContainerState::Terminated(Box::new(Terminated {
        exit_code: Some(exit_code),
        ..Terminated::default()
    }))
}

fn shows(world: &mut World, state: ContainerState) -> &mut World {
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].status.as_mut().unwrap().state = state
    })
}

#[test]
fn r12_a_park_image_that_cannot_be_started_is_taken_back() {
    let pull: fn(&mut World) = |world| {
        shows(world, waiting("ErrImagePull"));
    };
    let start: fn(&mut World) = |world| {
        shows(world.restarts("app", false), waiting("RunContainerError"));
    };
    let lost: fn(&mut World) = |world| {
        let end = Terminated {
            exit_code: Some(128),
            reason: "StartError".into(),
            ..Terminated::default()
        };
        shows(
            world.restarts("app", false),
            ContainerState::Terminated(Box::new(end)),
        );
    };
    let provider: fn(&mut World) =
        |world| world.pod.as_mut().unwrap().pod.reason = "ProviderFailed".into();
    for (trouble, word) in [
        (pull, "ErrImagePull"),
        (start, "RunContainerError"),
        (lost, "StartError"),
        (provider, "provider"),
    ] {
        let mut world = of(&without_digests("Never"));
        world.settle();
        trouble(&mut world);
        world.dies().settle();
        assert_eq!(
            (world.image("app"), world.swaps, note(&world).is_some()),
            (&*images("app").0, 2, true),
            "{word}: it has not run again"
        );
        let (phase, message) = world.assert_over("app");
        assert!(
            phase == StatePhase::Failed && message.contains(word) && message.contains("put back"),
            "{message}"
        );
    }
}

#[test]
fn a_node_that_does_not_start_the_park_image_is_not_waited_for_for_ever() {
    let mut world = of(&without_digests("Always"));
    let decision = world.settle();
    world
        .later(decision.again.unwrap().since_start().as_secs())
        .settle();
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 2));
    let (phase, message) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && message.contains("in 330 s"),
        "{message}"
    );
}

#[test]
fn r21_a_deadline_that_passes_while_it_is_parked_brings_it_back_first() {
    for after_the_node in [false, true] {
        let mut request = request(
            &["app", "log"],
            &json!({"forceRecreate": true, "orderedRecreate": true}),
        );
        request["spec"]["activeDeadlineSeconds"] = json!(60);
        let mut world = World::new(&request, &without_digests("Never"));
        world.park = Some(park_image());
        world.settle();
        if after_the_node {
            starts(&mut world).settle_until(|action| matches!(action, Action::Swap(_)));
        }
        world.later(60).dies().settle();
        assert_eq!(
            (world.image("app"), world.swaps, note(&world).is_some()),
            (&*images("app").0, 2, true)
        );
        let (phase, message) = world.assert_over("app");
        assert!(
            phase == StatePhase::Failed && message.contains("activeDeadlineSeconds"),
            "{message}"
        );
        assert_eq!(
            (world.state("log").0, world.image("log")),
            (StatePhase::Failed, &*images("log").0)
        );
    }
}

#[test]
fn r8_r9_a_users_edit_outranks_both_halves() {
    let edit = |world: &mut World, image: &str| {
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].image = image.into();
            pod.generation = pod.generation.map(|generation| generation + 1);
        });
    };
    for half in [0, 1] {
        let mut world = parked("Always");
        if half == 1 {
            world.settle_until(|action| matches!(action, Action::Swap(_)));
        }
        let mut undone = world.clone();
        edit(&mut world, "r.example/app:2");
        let (phase, message) = world.assert_over("app");
        assert!(
            phase == StatePhase::Failed && message.contains("r.example/app:2"),
            "{message}"
        );
        assert_eq!((world.image("app"), world.swaps), ("r.example/app:2", 1));

        edit(&mut undone, &images("app").0);
        undone.dies();
        if half == 1 {
            assert_eq!(
                undone.settle().reason,
                Reason::RestartPending,
                "the node has not started it"
            );
            starts(&mut undone);
            assert_eq!(undone.assert_over("app").0, StatePhase::Succeeded);
        } else {
            assert!(undone.assert_over("app").1.contains("somebody else"));
        }
        assert_eq!(undone.swaps, 1);
    }
}

#[test]
fn r11_a_parked_sidecar_is_left_to_its_end_and_not_for_ever() {
    let mut pod = without_digests("OnFailure");
    pod["spec"]["containers"][0]["env"] =
        json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
    let mut world = of(&pod);
    world.settle();
    starts(&mut world).node_says("log", |pod, index| {
        pod.pod.containers[index].status.as_mut().unwrap().state = ended(0)
    });
    let decision = world.settle();
    assert_eq!((decision.reason, world.swaps), (Reason::RestartPending, 1));
    let mut ended = world.clone();
    ended.node_says("app", |pod, index| {
        pod.pod.containers[index].image = EXIT.into();
        pod.generation = pod.generation.map(|generation| generation + 1);
    });
    assert_eq!(
        (ended.assert_over("app").0, ended.swaps),
        (StatePhase::Failed, 1)
    );
    // Nobody is told to start what has been ended.
    let is_park = |image: &str| park_image().is(image);
    let left = orphan(ended.pod.as_ref().unwrap(), std::iter::empty(), is_park);
    assert!(left.is_none_or(|left| left.stays.is_empty()));
    world
        .later(decision.again.unwrap().since_start().as_secs())
        .settle();
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 2));
}

/// What was begun is brought to its end on a node to which OpenKruise's daemon comes.
#[test]
fn a_daemon_that_comes_to_the_node_keeps_no_container_parked() {
    let mut world = parked("Always");
    world.node = Some(NodeClass::Daemon);
    world.settle();
    assert_eq!(world.image("app"), images("app").0);
}
