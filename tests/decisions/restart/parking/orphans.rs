//! What is parked for a request that is gone, over, or another one.

use serde_json::json;
use swaplet::image::build::derived_paths;
use swaplet_core::objects::pod::Phase;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::{ParkImage, orphan};
use swaplet_core::restart::request::{RestartRequest, StatePhase};

use super::{note, parked};
use crate::restart::world::{DIGEST, PARK, World, images, park_image, read_request, request};

/// What a life does that finds the pod with these requests: the images before and after, and whether
/// the record stays.
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
        change.note.is_none(),
    ))
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
    second.request = crate::restart::world::read_request(&{
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
        phase == StatePhase::Failed && message.contains("is not recorded"),
        "{message}"
    );
}

/// The controller was started with another park image since, or with none. Only the record in the
/// pod still names the image that the container had.
#[test]
fn no_restart_takes_away_the_record_of_a_container_in_an_earlier_park_image() {
    let other = ParkImage::new(
        "r.example/park:2".parse().unwrap(),
        derived_paths([""; 0]).unwrap(),
    );
    let other = Some(other);
    for (name, park) in [("log", &other), ("app", &other), ("app", &None)] {
        let mut world = parked("Always");
        let record = note(&world).cloned();
        world.park.clone_from(park);
        world.node_says("app", |pod, index| {
            pod.details[index].image_id = format!("r.example/park@{DIGEST}").into()
        });
        let mut object = request(&[name], &json!({}));
        object["metadata"]["uid"] = json!("second");
        world.request = read_request(&object);
        world.dies();
        assert_eq!(world.settle().reason, Reason::RequestWaits, "{name}");
        let (phase, message) = world.later(600).assert_over(name);
        assert!(
            phase == StatePhase::Failed && message.contains("parked for another request"),
            "{name}: {message}"
        );
        assert_eq!((world.swaps, note(&world)), (1, record.as_ref()), "{name}");
    }
}

/// One request parks two containers, and the controller is started with another park image between
/// the two.
#[test]
fn a_request_does_not_overwrite_its_own_record_of_an_earlier_park_image() {
    let mut world = parked("Always");
    let record = note(&world).cloned();
    world.park = Some(ParkImage::new(
        "r.example/park:2".parse().unwrap(),
        derived_paths([""; 0]).unwrap(),
    ));
    let mut object = request(&["log"], &json!({}));
    object["metadata"]["uid"] = json!(world.request.uid);
    world.request = read_request(&object);
    world.dies();
    assert_eq!(world.settle().reason, Reason::RequestWaits);
    assert_eq!((world.swaps, note(&world)), (1, record.as_ref()));
}
