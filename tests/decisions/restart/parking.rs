//! Containers without an alias are restarted by the park image, and none of them stays in it.

use serde_json::{Value, json};
use swaplet::image::build::derived_paths;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::{ContainerState, Phase, Terminated};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::parked::Parked;
use swaplet_core::restart::reconcile::{Action, ParkImage, orphan};
use swaplet_core::restart::request::{Parking, RestartRequest, StatePhase};

use super::world::{PARK, World, images, park_image, request, without_digests};
use crate::expect::EXIT;

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

/// A forced request for `app`, on a node that reports no digests.
fn of(pod: &Value) -> World {
    let mut world = World::new(&request(&["app"], &json!({"forceRecreate": true})), pod);
    world.park = Some(park_image());
    world
}

/// The node has started what the spec says.
pub fn starts(world: &mut World) -> &mut World {
    world.restarts("app", true).node_says("app", |pod, index| {
        pod.observed_generation = pod.generation;
        let image = pod.pod.containers[index].image.clone();
        pod.pod.containers[index].status.as_mut().unwrap().image = image;
    })
}

/// The same, with `app` parked; the node shows it.
pub fn parked(policy: &str) -> World {
    let mut world = of(&without_digests(policy));
    world.settle();
    assert_eq!((world.image("app"), world.swaps), (PARK, 1));
    starts(&mut world);
    world
}

fn note(world: &World) -> Option<&Parked> {
    world.pod.as_ref().unwrap().parked.as_ref()
}

/// What a life does that finds the pod with these requests.
fn orphans(world: &World, requests: &[RestartRequest]) -> Option<(String, String, bool)> {
    let change = orphan(world.pod.as_ref().unwrap(), requests.iter(), |image| {
        park_image().is(image)
    })?
    .change?;
    let [swap] = &change.swaps[..] else {
        return None;
    };
    Some((
        swap.from.to_string(),
        swap.to.to_string(),
        change.note.unwrap().parked.is_none(),
    ))
}

#[test]
fn a_container_is_parked_and_brought_back_under_every_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut world = of(&without_digests(policy));
        world.settle();
        assert_eq!(
            (world.image("app"), world.image("log"), world.swaps),
            (PARK, &*images("log").0, 1),
            "{policy}"
        );
        let note = note(&world).unwrap();
        assert_eq!(
            (&*note.pod, &*note.request, &*note.park),
            ("pu", "ru", PARK)
        );
        assert_eq!(note.images, [("app".into(), images("app").0.into())].into());
        assert_eq!(
            world.settle().reason,
            Reason::RestartPending,
            "the node has not started it"
        );

        starts(&mut world).settle();
        assert_eq!(
            (world.image("app"), world.swaps),
            (&*images("app").0, 2),
            "{policy}"
        );
        assert_eq!(self::note(&world), None);
        assert_eq!(
            world.settle().reason,
            Reason::RestartPending,
            "what is ready is the parked one"
        );
        starts(&mut world);
        assert_eq!(
            world.assert_over("app"),
            (StatePhase::Succeeded, String::new()),
            "{policy}"
        );
        assert_eq!(world.swaps, 2);
        assert!(world.request.state("app").killed);
        let reasons = [
            Reason::ContainerRestarting,
            Reason::ContainerRestarting,
            Reason::ContainerRestarted,
        ];
        assert_eq!(world.reasons(), reasons);
        assert!(
            world.told[0].note.contains("park image") && world.told[1].note.contains("back"),
            "{:?}",
            world.told
        );
    }
}

#[test]
fn a_new_life_after_each_write_parks_it_once() {
    let mut world = of(&without_digests("Never"));
    let mut writes = 0;
    loop {
        let decision = world.dies().decide();
        match decision.action {
            Some(action) => world.write(&action),
            None if decision.reason == Reason::RestartPending => {
                starts(&mut world);
            }
            None => break,
        }
        writes += 1;
        assert!(writes < 30, "no end");
    }
    assert_eq!(
        (world.swaps, world.state("app").0, world.image("app")),
        (2, StatePhase::Succeeded, &*images("app").0)
    );
    assert_eq!(
        world.pod.as_ref().unwrap().pod.containers[0]
            .status
            .as_ref()
            .unwrap()
            .restart_count,
        2
    );
}

#[test]
fn each_half_is_written_down_before_it_is_made() {
    let mut world = of(&without_digests("Always"));
    let intent = |world: &World| world.request.mark("app").unwrap().intent.clone().unwrap();
    world.settle_until(|action| matches!(action, Action::Swap(_)));
    assert_eq!(
        (intent(&world).parking, &*intent(&world).to, note(&world)),
        (Some(Parking::Out), PARK, None)
    );
    world.settle();
    starts(&mut world).settle_until(|action| matches!(action, Action::Swap(_)));
    assert_eq!(
        (intent(&world).parking, world.image("app")),
        (Some(Parking::Back), PARK)
    );
    assert_eq!(
        world.request.mark("app").unwrap().restart_count,
        1,
        "the parked one"
    );
}

#[test]
fn what_could_be_lost_in_the_park_image_is_refused_unless_it_is_forced() {
    for (policy, word) in [
        ("Never", "restartPolicy Never"),
        ("OnFailure", "exit code 0"),
    ] {
        let mut world = World::new(&request(&["app"], &json!({})), &without_digests(policy));
        world.park = Some(park_image());
        let (phase, message) = world.assert_over("app");
        assert!(
            phase == StatePhase::Failed
                && message.contains(word)
                && message.contains("forceRecreate"),
            "{message}"
        );
        assert_eq!(world.swaps, 0);
    }
    let mut always = World::new(&request(&["app"], &json!({})), &without_digests("Always"));
    always.park = Some(park_image());
    always.settle();
    assert_eq!(always.image("app"), PARK);
}

#[test]
fn containers_that_the_park_image_would_not_hold_are_refused_also_by_force() {
    let refused = |change: fn(&mut Value), words: &[&str]| {
        let mut pod = without_digests("Always");
        change(&mut pod["spec"]["containers"][0]);
        let mut world = of(&pod);
        let (phase, message) = world.assert_over("app");
        assert!(
            phase == StatePhase::Failed && words.iter().all(|word| message.contains(word)),
            "{message}"
        );
        assert_eq!(world.swaps, 0);
    };
    refused(
        |app| app["command"] = json!(["/opt/app/run"]),
        &[
            "does not have /opt/app/run",
            "park-image push",
            "--park-image-paths /opt/app/run",
        ],
    );
    refused(
        |app| app["imagePullPolicy"] = json!("Never"),
        &["cannot be parked"],
    );
    refused(
        |app| app["lifecycle"] = json!({"postStart": {"exec": {"command": ["x"]}}}),
        &["postStart"],
    );
    let mut with_path = without_digests("Always");
    with_path["spec"]["containers"][0]["command"] = json!(["/opt/app/run"]);
    let mut world = of(&with_path);
    world.park = Some(ParkImage::new(
        PARK.parse().unwrap(),
        derived_paths(["/opt/app/run"]).unwrap(),
    ));
    world.settle();
    assert_eq!(world.image("app"), PARK);
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
            (world.image("app"), world.swaps, note(&world)),
            (&*images("app").0, 2, None),
            "{word}"
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
    world.later(decision.again.unwrap().as_secs()).settle();
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
            (world.image("app"), world.swaps, note(&world)),
            (&*images("app").0, 2, None)
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
        pod.pod.containers[index].image = EXIT.into()
    });
    assert_eq!(
        (ended.assert_over("app").0, ended.swaps),
        (StatePhase::Failed, 1)
    );
    world.later(decision.again.unwrap().as_secs()).settle();
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 2));
}

#[test]
fn r5_what_is_parked_for_a_request_that_is_gone_or_over_is_brought_back() {
    let world = parked("Always");
    let back = Some((PARK.to_owned(), images("app").0, true));
    assert_eq!(
        orphans(&world, std::slice::from_ref(&world.request)),
        None,
        "it brings it back itself"
    );
    assert_eq!(orphans(&world, &[]), back);
    let other = RestartRequest {
        uid: "another".into(),
        ..world.request.clone()
    };
    assert_eq!(orphans(&world, &[other]), back);
    for change in [
        (|request: &mut RestartRequest| request.deleting = true) as fn(&mut RestartRequest),
        |request| request.completed_at = Some("2026-01-01T00:00:00Z".parse().unwrap()),
        |request| request.journal = None,
    ] {
        let mut request = world.request.clone();
        change(&mut request);
        assert_eq!(orphans(&world, &[request]), back);
    }
}

#[test]
fn nothing_is_brought_back_that_is_not_parked_or_not_there_any_more() {
    let unless = |change: fn(&mut World)| {
        let mut world = parked("Always");
        change(&mut world);
        assert_eq!(orphans(&world, &[]), None);
    };
    unless(|world| {
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].image = "r.example/app:2".into()
        });
    });
    unless(|world| {
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].image = images("app").0.into()
        });
    });
    unless(|world| world.pod.as_mut().unwrap().pod.deleting = true);
    unless(|world| world.pod.as_mut().unwrap().pod.phase = Phase::Failed);
    unless(|world| world.pod.as_mut().unwrap().parked = None);
}

/// The next request waits until the image is back.
#[test]
fn a_container_that_is_still_parked_for_another_request_is_waited_for() {
    let first = parked("Always");
    let mut second = first.clone();
    second.request = super::world::read_request(&{
        let mut object = request(&["app"], &json!({}));
        object["metadata"]["uid"] = json!("second");
        object
    });
    second.dies();
    assert_eq!(
        (second.settle().reason, second.swaps),
        (Reason::RequestWaits, 1)
    );
    second.pod.as_mut().unwrap().parked = None;
    let (phase, message) = second.assert_over("app");
    assert!(
        phase == StatePhase::Failed && message.contains("nothing says"),
        "{message}"
    );
}

/// What was begun is brought to its end on a node to which OpenKruise's daemon comes.
#[test]
fn a_daemon_that_comes_to_the_node_keeps_no_container_parked() {
    let mut world = parked("Always");
    world.node = Some(NodeClass::Daemon);
    world.settle();
    assert_eq!(world.image("app"), images("app").0);
}

#[test]
fn park_and_exit_image_are_told_apart() {
    let exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new());
    assert!(!exit_images.contains(PARK) && park_image().is(PARK) && !park_image().is(EXIT));
}
