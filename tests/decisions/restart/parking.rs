//! Containers without an alias are restarted by the park image, and none of them stays in it.

mod orphans;
mod troubles;
mod webhooks;

use serde_json::{Value, json};
use swaplet::image::build::derived_paths;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::parked::Parked;
use swaplet_core::restart::reconcile::{Action, Orphan, ParkImage, orphan};
use swaplet_core::restart::request::{Parking, StatePhase};

use super::world::{PARK, World, images, park_image, pod, request, without_digests};
use crate::expect::EXIT;

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

/// What is found to be parked for no request.
fn orphaned(world: &World) -> Option<Orphan> {
    let requests = std::iter::once(&world.request);
    orphan(world.pod.as_ref().unwrap(), requests, |image| {
        park_image().is(image)
    })
}

fn note(world: &World) -> Option<&Parked> {
    world.pod.as_ref().unwrap().parked.as_ref()
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
        assert!(
            self::note(&world).is_some() && orphaned(&world).is_none(),
            "it is kept until the container is seen running"
        );
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
        let over = orphaned(&world).unwrap().change.unwrap();
        assert!(over.swaps.is_empty() && over.note.unwrap().parked.is_none());
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

/// `kubectl set image` to another tag of the same bytes: a runtime reports them by the first name that
/// it knows, so the node never reports the image that the spec has, which could also mean that the
/// old container has not stopped yet.
#[test]
fn an_image_that_the_node_reports_by_another_tag_is_restarted_by_the_park_image() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut pod = pod(policy);
        pod["metadata"]["generation"] = json!(2);
        pod["status"]["observedGeneration"] = json!(2);
        pod["spec"]["containers"][0]["image"] = json!("r.example/app:2");
        let mut world = of(&pod);
        world.settle();
        assert_eq!((world.image("app"), world.swaps), ("r.example/app:2", 0));
        assert_eq!(world.later(59).settle().reason, Reason::RequestWaits);
        assert_eq!(world.swaps, 0, "{policy}");
        world.later(1).settle();
        assert_eq!((world.image("app"), world.swaps), (PARK, 1), "{policy}");
        starts(&mut world).settle();
        assert_eq!((world.image("app"), world.swaps), ("r.example/app:2", 2));
        starts(&mut world).node_says("app", |pod, index| {
            let status = pod.pod.containers[index].status.as_mut().unwrap();
            status.image = images("app").0.into();
        });
        assert_eq!(
            world.assert_over("app"),
            (StatePhase::Succeeded, String::new()),
            "{policy}"
        );
        let over = orphaned(&world).unwrap().change.unwrap();
        assert!(over.swaps.is_empty() && over.note.unwrap().parked.is_none());
        assert_eq!((world.image("app"), world.swaps), ("r.example/app:2", 2));
    }
}

/// The node reports the new image after all.
#[test]
fn a_node_that_reports_the_image_in_time_is_asked_once() {
    let mut pod = pod("Never");
    pod["metadata"]["generation"] = json!(2);
    pod["status"]["observedGeneration"] = json!(2);
    pod["spec"]["containers"][0]["image"] = json!("r.example/app:2");
    let mut world = of(&pod);
    world.settle();
    world.later(50).node_says("app", |pod, index| {
        let status = pod.pod.containers[index].status.as_mut().unwrap();
        status.image = "r.example/app:2".into();
    });
    world.settle();
    let image = world.image("app");
    assert!(image.starts_with("r.example/app:2-restart-"), "{image}");
    assert_eq!(world.swaps, 1);
}

#[test]
fn a_webhook_that_adds_a_digest_to_the_image_that_is_put_back_is_nobody_else() {
    let mut world = parked("Always");
    world.settle();
    let pinned = images("app").1;
    assert_eq!(world.image("app"), images("app").0);
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].image = pinned.as_str().into();
    });
    assert_eq!(world.settle().reason, Reason::RestartPending);
    starts(&mut world);
    assert_eq!(
        world.assert_over("app"),
        (StatePhase::Succeeded, String::new())
    );
    assert_eq!((world.image("app"), world.swaps), (&*pinned, 2));
}

#[test]
fn each_of_two_containers_that_are_parked_at_once_takes_two_restarts_of_the_job() {
    let forced = request(&["app", "log"], &json!({"forceRecreate": true}));
    for (most, parked) in [(1, [false, false]), (3, [true, false]), (4, [true, true])] {
        let mut world = World::new(&forced, &without_digests("OnFailure"));
        (world.park, world.most) = (Some(park_image()), most);
        world.settle();
        assert_eq!(
            ["app", "log"].map(|name| world.image(name) == PARK),
            parked,
            "{most}"
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
fn park_and_exit_image_are_told_apart() {
    let exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new());
    assert!(!exit_images.contains(PARK) && park_image().is(PARK) && !park_image().is(EXIT));
}

#[test]
fn a_node_that_does_not_run_the_park_program_parks_nothing_also_by_force() {
    for (system, processor, word) in [
        ("windows", "amd64", "Windows"),
        ("linux", "s390x", "architecture"),
    ] {
        let mut world = of(&without_digests("Always"));
        world.runs_on = RunsOn::named(Some(system), Some(processor));
        let (phase, message) = world.assert_over("app");
        assert_eq!((phase, world.swaps), (StatePhase::Failed, 0), "{message}");
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn where_nothing_says_what_a_node_runs_a_container_is_parked_by_force_only() {
    let mut forced = of(&without_digests("Always"));
    forced.runs_on = RunsOn::default();
    forced.settle();
    assert_eq!((forced.image("app"), forced.swaps), (PARK, 1));

    let asked = request(&["app"], &json!({}));
    let mut world = World::new(&asked, &without_digests("Always"));
    (world.park, world.runs_on) = (Some(park_image()), RunsOn::default());
    let (phase, message) = world.assert_over("app");
    assert_eq!((phase, world.swaps), (StatePhase::Failed, 0), "{message}");
    assert!(
        message.contains("operating system") && message.contains("forceRecreate"),
        "{message}"
    );
}
