//! What a pod says of a parked container, changed, taken away or made up by somebody else.

use serde_json::{Value, json};
use swaplet::image::build::derived_paths;
use swaplet_core::objects::recreate_request::RequestPhase;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::parked::{PARKED, Parked};
use swaplet_core::restart::reconcile::{Action, Orphan, ParkImage, needs_pod, orphan};
use swaplet_core::restart::request::StatePhase;

use super::super::parking::{parked, starts};
use super::super::world::{
    PARK, World, images, park_image, pod, read_pod, request, without_digests,
};
use super::{EVIL, orphan_of};

fn note(world: &mut World) -> &mut Parked {
    world.pod.as_mut().unwrap().parked.as_mut().unwrap()
}

/// The container stays parked, and a Warning says so and what to do.
#[track_caller]
fn stays_parked(world: &mut World, words: &[&str]) {
    world.settle();
    let (phase, message) = world.state("app");
    assert_eq!(
        (phase, world.image("app"), world.swaps),
        (StatePhase::Failed, PARK, 1)
    );
    for word in words.iter().chain(&[
        "stays in the park image",
        "kubectl set image -n ns pod/p app=IMAGE",
    ]) {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert!(
        world
            .told
            .iter()
            .any(|told| told.reason == Reason::RestartFailed
                && told.note.contains("kubectl set image")),
        "{:?}",
        world.told
    );
    assert_eq!(
        (world.request.phase, world.request.active),
        (RequestPhase::Completed, false)
    );
    assert_eq!(world.dies().decide().action, None, "also by the next life");
}

#[test]
fn bug14_v1_a_pod_and_a_request_that_disagree_have_nothing_written() {
    for after_it_was_written_down in [false, true] {
        let mut world = parked("Always");
        if after_it_was_written_down {
            world.settle_until(|action| matches!(action, Action::Swap(_)));
        }
        note(&mut world).images.insert("app".into(), EVIL.into());
        stays_parked(&mut world, &[EVIL, &images("app").0]);
        let request = world.request.clone();
        for named in ["ru", "another"] {
            note(&mut world).request = named.into();
            let orphan = orphan_of(&world, std::slice::from_ref(&request)).unwrap();
            assert_eq!(
                (orphan.change, orphan.stays.len()),
                (None, 1),
                "the request is a witness also when it is over: {named}"
            );
        }
        // For as long as there is something to say (R18).
        assert!(world.decide().again.is_some());
        world.request.ttl_seconds = Some(1);
        assert!(needs_pod(&world.request, false));
        assert_eq!(world.later(100).decide().action, None);
        let (mut gone, mut given) = (world.clone(), world);
        gone.pod = None;
        assert_eq!(gone.decide().action, Some(Action::Delete));
        given.node_says("app", |pod, index| {
            pod.pod.containers[index].image = images("app").0.into();
            pod.parked = None;
        });
        assert_eq!(given.decide().action, Some(Action::Delete));
    }
    let mut other_way_round = parked("Always");
    other_way_round.settle_until(|action| matches!(action, Action::Swap(_)));
    other_way_round
        .request
        .journal
        .as_mut()
        .unwrap()
        .0
        .get_mut("app")
        .unwrap()
        .intent
        .as_mut()
        .unwrap()
        .from = EVIL.into();
    stays_parked(&mut other_way_round, &[EVIL, &images("app").0]);
}

/// Whoever has made it name another request is found out as long as the one is there for which it
/// is parked.
#[test]
fn bug14_a_note_that_names_another_request_is_compared_with_the_one_that_is_under_way() {
    for half in [0, 1] {
        let mut world = parked("Always");
        if half == 1 {
            world.settle_until(|action| matches!(action, Action::Swap(_)));
        }
        note(&mut world).request = "none".into();
        let honest = orphan_of(&world, std::slice::from_ref(&world.request))
            .unwrap()
            .change
            .unwrap();
        assert_eq!(
            &*honest.swaps[0].to,
            &*images("app").0,
            "the image is right"
        );
        note(&mut world).images.insert("app".into(), EVIL.into());
        let decision = world.settle();
        assert_eq!(
            (decision.reason, decision.action, world.swaps),
            (Reason::RequestWaits, None, 1)
        );
        let orphan = orphan_of(&world, std::slice::from_ref(&world.request)).unwrap();
        assert!(
            orphan.change.is_none() && orphan.stays[0].contains(EVIL),
            "{orphan:?}"
        );
    }
}

#[test]
fn bug13_a_note_that_somebody_took_away_is_told_with_the_fix() {
    for half in [0, 1] {
        let mut world = parked("Never");
        if half == 1 {
            world.settle_until(|action| matches!(action, Action::Swap(_)));
        }
        world.pod.as_mut().unwrap().parked = None;
        stays_parked(&mut world, &["no longer records"]);
    }
    let mut late = parked("Never");
    late.request.active_deadline_seconds = Some(60);
    late.pod.as_mut().unwrap().parked = None;
    late.later(60);
    stays_parked(&mut late, &["activeDeadlineSeconds", "no longer records"]);
}

/// A human does it, and the request ends; no note is left.
#[test]
fn v6_bug13_what_a_human_puts_back_ends_it() {
    let mut world = parked("Always");
    world.pod.as_mut().unwrap().parked = None;
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].image = "r.example/app:2".into()
    });
    assert_eq!(world.assert_over("app").0, StatePhase::Failed);
    assert_eq!(orphan_of(&world, &[]), None);
}

#[test]
fn v6_a_note_is_taken_away_where_somebody_else_gave_the_container_an_image() {
    for image in ["r.example/app:2", &images("app").0] {
        let mut world = parked("Always");
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].image = image.into()
        });
        let is_written = |found: Option<Orphan>| found.is_some_and(|it| it.change.is_some());
        assert!(!is_written(orphan_of(&world, &[])), "it has not run");
        starts(&mut world);
        assert_eq!(
            orphan_of(&world, std::slice::from_ref(&world.request)),
            None,
            "its request is under way"
        );
        let mut over = world.request.clone();
        over.phase = RequestPhase::Completed;
        for requests in [&[][..], &[over]] {
            let Orphan { change, stays, .. } = orphan_of(&world, requests).unwrap();
            let change = change.unwrap();
            assert!(
                change.swaps.is_empty()
                    && stays.is_empty() == (image == images("app").0)
                    && change.note.as_ref().unwrap().parked.is_none(),
                "{change:?}"
            );
            let mut after = world.clone();
            after.write(&Action::Swap(change));
            assert_eq!(
                (after.image("app"), orphan_of(&after, requests)),
                (image, None)
            );
        }
    }
}

#[test]
fn v1_a_note_about_a_container_that_is_not_in_the_park_image_has_nothing_written() {
    let (original, _) = images("app");
    let mut world = World::new(&request(&["app"], &json!({})), &pod("Always"));
    let images = [("app".into(), EVIL.into())].into();
    world.pod.as_mut().unwrap().parked = Some(Parked {
        pod: "pu".into(),
        name: "none".into(),
        request: "none".into(),
        park: original.as_str().into(),
        images,
    });
    let orphan = orphan_of(&world, &[]).unwrap();
    assert_eq!(orphan.change, None);
    assert!(
        orphan.stays[0].contains("--park-image"),
        "{:?}",
        orphan.stays
    );
    note(&mut world).park = PARK.into();
    assert!(
        orphan_of(&world, &[])
            .unwrap()
            .change
            .unwrap()
            .swaps
            .is_empty(),
        "the note is taken away"
    );
}

/// The controller was started with another park image since, or with none.
#[test]
fn v1_a_container_in_another_park_image_is_told_and_left_alone() {
    let other = ParkImage::new(
        "r.example/park:2".parse().unwrap(),
        derived_paths([""; 0]).unwrap(),
    );
    for park in [None, Some(other)] {
        let mut world = parked("Always");
        world.park.clone_from(&park);
        world.settle();
        assert_eq!(
            (world.image("app"), world.swaps, world.state("app").0),
            (PARK, 1, StatePhase::Failed)
        );
        let found = orphan(world.pod.as_ref().unwrap(), std::iter::empty(), |image| {
            park.as_ref().is_some_and(|park| park.is(image))
        });
        let found = found.unwrap();
        assert!(
            found.change.is_none() && found.stays[0].contains("--park-image"),
            "{found:?}"
        );
    }
}

#[test]
fn a13_a_note_that_names_no_image_that_it_can_have_had_is_not_followed() {
    for image in [PARK, "", "no image", "evil.example/x:1; reboot"] {
        let mut world = parked("Always");
        note(&mut world).images.insert("app".into(), image.into());
        note(&mut world).request = "none".into();
        let orphan = orphan_of(&world, &[]).unwrap();
        assert!(
            orphan.change.is_none() && orphan.stays.len() == 1,
            "{image}: {orphan:?}"
        );
        assert!(!orphan.stays[0].contains("reboot"), "{:?}", orphan.stays);
    }
}

fn annotated(uid: &str, managed: &Value) -> swaplet_core::restart::pod::RestartPod {
    let images = [("app".into(), images("app").0.into())].into();
    let note = Parked {
        pod: uid.into(),
        name: "r".into(),
        request: "ru".into(),
        park: PARK.into(),
        images,
    };
    let mut object = without_digests("Always");
    object["spec"]["containers"][0]["image"] = json!(PARK);
    object["metadata"]["annotations"] = json!({PARKED: note.as_text()});
    object["metadata"]["managedFields"] = managed.clone();
    read_pod(&object)
}

#[test]
fn v1_a13_a_note_for_another_pod_or_through_the_status_is_not_followed() {
    let through = |subresource: &str| {
        let fields = json!({"f:metadata": {"f:annotations": {".": {}, "f:swaplet.io/parked": {}}}});
        json!([{"manager": "m", "operation": "Update", "subresource": subresource, "fieldsV1": fields}, {"fieldsV1": 3}])
    };
    let is_park = |image: &str| park_image().is(image);
    let found = orphan(&annotated("pu", &through("")), std::iter::empty(), is_park).unwrap();
    assert!(found.change.is_some() && found.stays.is_empty());
    let found = orphan(
        &annotated("pu", &through("status")),
        std::iter::empty(),
        is_park,
    )
    .unwrap();
    assert!(
        found.change.is_none() && found.stays[0].contains("pods/status"),
        "{found:?}"
    );
    assert_eq!(
        orphan(
            &annotated("another", &json!(null)),
            std::iter::empty(),
            is_park
        ),
        None
    );

    let mut world = parked("Always");
    world.pod.as_mut().unwrap().parked_through_status = true;
    stays_parked(&mut world, &["pods/status"]);
}

/// What the pod says of one container is not overwritten by what it is to say of another, for
/// another request.
#[test]
fn a_container_that_is_parked_for_a_request_that_is_gone_is_not_forgotten_for_the_next_one() {
    let first = parked("Always");
    let mut second = first.clone();
    let mut object = request(&["log"], &json!({"forceRecreate": true}));
    object["metadata"]["uid"] = json!("second");
    second.request = super::super::world::read_request(&object);
    second.dies();
    let decision = second.settle();
    assert_eq!(
        (decision.reason, second.image("log"), second.swaps),
        (Reason::RequestWaits, &*images("log").0, 1)
    );
    assert!(decision.again.is_some());
    let orphan = orphan_of(&second, std::slice::from_ref(&second.request)).unwrap();
    second.write(&Action::Swap(orphan.change.unwrap()));
    assert_eq!(
        second.settle().reason,
        Reason::RequestWaits,
        "it has not run"
    );
    starts(&mut second).settle();
    assert_eq!(
        (second.image("app"), second.image("log")),
        (&*images("app").0, PARK)
    );
}
